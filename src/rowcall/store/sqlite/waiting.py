"""Waiting for the end of jobs beside a SQLite file: its commits can be seen, so nobody has to be told."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rowcall.domain.job import FINISHED
from rowcall.store import rows
from rowcall.store.dialect import Ends
from rowcall.store.speech import as_json, only
from rowcall.store.sqlite.words import render
from rowcall.store.statement import Plan, Statement

_FINISHED = ", ".join(f"'{status.value}'" for status in FINISHED)

AWAITED_ENDS = f"""
        select json_group_array(given.value) from json_each(?1) as given
        where not exists (select 1 from <job> where id = given.value and status not in ({_FINISHED}))"""


class SqliteWaiting:
    _prefix: str

    def wait_for(self, waiter: str, job_ids: Sequence[int], now_ms: int | None) -> Plan[None]:
        yield from ()

    def wait_no_more(self, waiter: str, job_ids: Sequence[int]) -> Plan[None]:
        yield from ()

    def forget_waiters(self, now_ms: int | None) -> Plan[int]:
        yield from ()
        return 0

    def tell_waiters(self, job_ids: Collection[int] | None) -> Plan[None]:
        yield from ()

    def awaited_ends(self, job_ids: Sequence[int]) -> Plan[Ends]:
        statement = Statement(render(AWAITED_ENDS, self._prefix), (as_json(job_ids),), rows.ids_from_row)
        return Ends((yield from only(statement)), set())
