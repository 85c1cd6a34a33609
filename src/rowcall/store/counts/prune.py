"""Delete finished jobs whose retention is over. Each plan is one short transaction."""

from __future__ import annotations

from collections.abc import Callable

from rowcall.domain.retention import Rules
from rowcall.store.counts.queries import NOW, PRUNE, Group
from rowcall.store.dialect import Dialect
from rowcall.store.statement import Plan

PRUNED_AT_ONCE = 20


def prune_group(
    dialect: Dialect, group: Group, rules: Rules, limit: int, go_on: Callable[[], bool], now_ms: int | None
) -> Plan[int]:
    """Delete jobs of a group whose time is over, oldest first, and return how many.

    It deletes in small batches until `go_on()` returns false: one job with a long history can cost as much as hundreds.
    """
    keep = rules.keep_seconds(*group)
    if keep is None:
        return 0
    (at_ms,) = yield from dialect.ask(NOW, now_ms)
    deleted = 0
    while deleted < limit:
        at_once = min(PRUNED_AT_ONCE, limit - deleted)
        gone = yield from dialect.change(PRUNE, *group, at_ms - round(keep * 1000), at_once)
        deleted += gone
        if gone < at_once or not go_on():
            break
    return deleted
