"""Keys of limits: locked, counted, and checked again at their openings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from rowcall.domain.limits import Numbers
from rowcall.store.dialect import Dialect
from rowcall.store.limits.queries import (
    DROP_OPENINGS,
    DROP_UNSPELLED_OPENINGS,
    LOCK_LIMITS,
    PUT_OPENINGS,
    PUT_QUOTAS,
    QUOTAS,
    STEADY_SLOTS,
)
from rowcall.store.statement import Plan


def most_keys(dialect: Dialect) -> int:
    """Return how many keys one transaction may lock: all locks of a server share one table, which is small."""
    return 2000 if dialect.one_writer else 200


def lock_limits(dialect: Dialect, keys: Sequence[str]) -> Plan[Collection[str]]:
    """Lock keys until the transaction ends; return the keys that no other transaction has locked. Never waits."""
    if dialect.one_writer:
        return keys
    return (yield from dialect.ask(LOCK_LIMITS, keys))[0]


def steady_slots(dialect: Dialect, used: Mapping[str, int], ours: Collection[int]) -> Plan[Mapping[str, int]]:
    """Return how many slots of each key stay taken until the transaction ends, without those of our own jobs."""
    if dialect.one_writer:
        return used
    return Counter((yield from dialect.ask(STEADY_SLOTS, list(used), list(ours)))[0])


def put_openings(dialect: Dialect, at_ms: Mapping[str, int]) -> Plan[None]:
    yield from dialect.ask(PUT_OPENINGS, sorted(at_ms.items()))  # in one order, so that two writers cannot deadlock


def drop_openings(dialect: Dialect, keys: Collection[str]) -> Plan[None]:
    yield from dialect.ask(DROP_OPENINGS, list(keys))
    if any("\ufffd" in key or "\0" in key for key in keys):
        yield from dialect.ask(DROP_UNSPELLED_OPENINGS)


def quotas(dialect: Dialect) -> Plan[dict[str, Numbers]]:
    """Return the published numbers of all limits, by name."""
    return dict((yield from dialect.ask(QUOTAS)))


def put_quotas(dialect: Dialect, published: Mapping[str, Numbers]) -> Plan[None]:
    given = [(name, one.concurrency, one.rate, one.per_ms) for name, one in sorted(published.items())]
    yield from dialect.ask(PUT_QUOTAS, given)
