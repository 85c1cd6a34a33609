"""The lines that handlers log, kept with their attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from rowcall.domain.job_log import LogRow
from rowcall.store.dialect import Dialect
from rowcall.store.queries.claims import Fence
from rowcall.store.queries.steps import CURRENT
from rowcall.store.queries.streams import WRITE_LOGS
from rowcall.store.statement import Plan


def write_running(dialect: Dialect, rows: Mapping[Fence, LogRow]) -> Plan[None]:
    """Write the lines of attempts that run, as far as they are current."""
    live = yield from dialect.ask(CURRENT, sorted(rows))
    yield from write_logs(dialect, [rows[fence] for fence in live])


def write_logs(dialect: Dialect, rows: Sequence[LogRow]) -> Plan[None]:
    """Write the lines of attempts whose claims this transaction has locked or deleted."""
    # nearly always of one number: to read it of each row takes a tenth of a drain that logs
    for number, of_number in groupby(sorted(rows, key=_NUMBER), _NUMBER):
        yield from dialect.ask(WRITE_LOGS, [(row.job_id, row.lines) for row in of_number], *number)


_NUMBER = attrgetter("lease", "attempt")
