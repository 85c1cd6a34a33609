"""What workers note about the queue as a whole: how many jobs are pending, once a minute, and when new code began.

These are rows of history, with outcomes that no attempt has. So they are merged into longer spans, and pruned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rowcall.store.dialect import Dialect
from rowcall.store.queries import counts as queries
from rowcall.store.queries.counts import DEPLOYED, MINUTE_MS, PENDING_SAMPLE, SAMPLED, Past, PendingGroup
from rowcall.store.statement import Plan

MOST_GROUPS = 100
"""Of a sample. The jobs of all others are counted together, without a name."""
CODE_SETTING = "code of workers"


def add_sample(dialect: Dialect, pending: Sequence[PendingGroup]) -> Plan[None]:
    jobs: Counter[tuple[str, str]] = Counter()
    for number, one in enumerate(sorted(pending, key=lambda one: -one.jobs)):
        jobs[(one.queue, one.type) if number < MOST_GROUPS else ("", "")] += one.jobs
    (at_ms,) = yield from dialect.ask(queries.NOW)
    minute = (at_ms // MINUTE_MS * MINUTE_MS, MINUTE_MS)
    rows = [Past(*minute, *group, PENDING_SAMPLE, "", count, {}, {}) for group, count in sorted(jobs.items()) if count]
    yield from dialect.ask(queries.ADD_PAST, [Past(*minute, "", "", SAMPLED, "", 1, {}, {}), *rows])


def note_code(dialect: Dialect, code: str) -> Plan[None]:
    """Note that a worker with other code than before has started. The first one of all is nothing new."""
    known = yield from dialect.ask(queries.SETTING, CODE_SETTING)
    if known == [code]:
        return
    yield from dialect.ask(queries.PUT_SETTING, CODE_SETTING, code)
    if known:
        (at_ms,) = yield from dialect.ask(queries.NOW)
        yield from dialect.ask(queries.ADD_PAST, [Past(at_ms, 0, "", "", DEPLOYED, code, 1, {}, {})])
