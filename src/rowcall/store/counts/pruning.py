"""Delete finished jobs and history whose time is over.

Each plan is one short transaction. Many processes may run it at once, and stop between any two.
"""

from __future__ import annotations

from collections.abc import Callable

from rowcall.domain.retention import Rules
from rowcall.store.counts.tallies import FOLDED_AT_ONCE
from rowcall.store.dialect import Dialect
from rowcall.store.queries import counts as queries
from rowcall.store.queries.counts import DAY_MS, HOUR_MS
from rowcall.store.statement import Plan

PRUNED_AT_ONCE = 20
PAST_KEPT_MS = 31 * DAY_MS  # the longest window, and the whole day in which it begins


def prune_group(
    dialect: Dialect, group: queries.Group, rules: Rules, limit: int, go_on: Callable[[], bool]
) -> Plan[int]:
    """Delete jobs of a group whose time is over, oldest first, and return how many.

    It deletes in small batches until `go_on()` returns false: one job with a long history can cost as much as hundreds.
    """
    keep = rules.keep_seconds(*group)
    if keep is None:
        return 0
    (at_ms,) = yield from dialect.ask(queries.NOW)
    deleted = 0
    while deleted < limit:
        at_once = min(PRUNED_AT_ONCE, limit - deleted)
        gone = yield from dialect.change(queries.PRUNE, *group, at_ms - round(keep * 1000), at_once)
        deleted += gone
        if gone < at_once or not go_on():
            break
    return deleted


def prune_history(dialect: Dialect) -> Plan[int]:
    (at_ms,) = yield from dialect.ask(queries.NOW)
    # a clock that was ahead has left history in the future
    future = yield from dialect.change(queries.PRUNE_FUTURE, at_ms + HOUR_MS, FOLDED_AT_ONCE)
    return future + (yield from dialect.change(queries.PRUNE_PAST, at_ms - PAST_KEPT_MS, FOLDED_AT_ONCE))
