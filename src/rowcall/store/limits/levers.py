"""What people change about limits while jobs run, and what all limits use now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from rowcall.base.times import time_or_none
from rowcall.domain.errors import LimitNotFound
from rowcall.domain.limits import (
    HELD_PREFIX,
    Limit,
    LimitInfo,
    LimitKey,
    Numbers,
    key_of,
    name_of,
    numbers_text,
    value_of,
)
from rowcall.store.dialect import Dialect
from rowcall.store.limits.admission import put_openings
from rowcall.store.limits.audit import audit
from rowcall.store.limits.held_jobs import KEYS_AT_ONCE, numbers_in
from rowcall.store.limits.holds_and_breakers import end_holds
from rowcall.store.queries import limits as queries
from rowcall.store.queries.attention import HELD_BACKLOGS, HeldBacklog
from rowcall.store.queries.counts import NOW
from rowcall.store.queries.limits import Held, Hold, OpenBreaker, Quota
from rowcall.store.statement import Plan

MOST_KEYS_READ, MOST_COUNTED = 1000, 1000
MOST_KEYS_SHOWN = 20
MOST_HELD_VALUES = 10_000  # the check of held jobs finds the others


class NewNumbers(NamedTuple):
    """The numbers that someone sets; None keeps what counts now."""

    concurrency: int | None = None
    rate: int | None = None
    per: float | None = None

    def over(self, name: str, before: Numbers) -> Numbers:
        """Return all numbers of the limit, or raise `InvalidOption`."""
        return Limit(
            name,
            concurrency=before.concurrency if self.concurrency is None else self.concurrency,
            rate=before.rate if self.rate is None else self.rate,
            per=before.per if self.per is None else self.per,
        ).numbers


def set_numbers(
    dialect: Dialect, name: str, new: NewNumbers, declared: Mapping[str, Numbers], actor: str
) -> Plan[None]:
    """Replace the numbers of a limit. Claims count by them at once, and held jobs are checked again."""
    quota, held = yield from _known(dialect, name, declared)
    if quota is not None and quota.numbers != Numbers():
        before = quota.numbers
    else:
        before = declared.get(name) or next((numbers_in(one) for one in held), Numbers())
    numbers = new.over(name, before)
    yield from _change(dialect, name, numbers, actor, held)
    detail = f"{numbers_text(numbers)}; before: {numbers_text(before)}"
    yield from audit(dialect, "LIMIT_SET", name, actor, detail)


def reset_numbers(dialect: Dialect, name: str, declared: Mapping[str, Numbers], actor: str) -> Plan[bool]:
    """Let the declared numbers count again, end its holds, and close its breaker. Return whether there was any."""
    quota, held = yield from _known(dialect, name, declared)
    holds = yield from dialect.ask(queries.HOLDS, MOST_KEYS_READ)
    breakers = yield from dialect.ask(queries.BREAKERS, MOST_KEYS_READ)
    ended = {key for key in (*(one.key for one in holds), *(one.key for one in breakers)) if name_of(key) == name}
    chosen = Numbers() if quota is None else quota.chosen
    if chosen == Numbers() and not ended:
        return False
    if ended:
        yield from end_holds(dialect, ended)
    yield from _change(dialect, name, Numbers(), actor, held)
    again = quota.declared if quota is not None and quota.declared != Numbers() else declared.get(name, Numbers())
    detail = f"{numbers_text(again)}; before: {numbers_text(chosen)}" if chosen != Numbers() else ""
    ends = f"ended {len(ended)} holds" if len(ended) > 1 else "ended a hold" if ended else ""
    yield from audit(dialect, "LIMIT_RESET", name, actor, "; ".join(filter(None, (detail, ends))))
    return True


def _known(dialect: Dialect, name: str, declared: Mapping[str, Numbers]) -> Plan[tuple[Quota | None, list[Held]]]:
    """Return what is stored about a limit, and what its jobs are held by; `LimitNotFound` if no one knows it."""
    quotas = {one.name: one for one in (yield from dialect.ask(queries.QUOTAS))}
    held = yield from _held_values(dialect)
    of_name = [one for one in held if name_of(one.key) == name]
    if name not in quotas and name not in declared and not of_name:
        used = {name_of(one.key) for one in (yield from dialect.ask(queries.USED_SLOTS, MOST_KEYS_READ))}
        if name not in used:
            known = {*quotas, *declared, *used, *(name_of(one.key) for one in held)}
            raise LimitNotFound(name, sorted(known))
    return quotas.get(name), of_name


def _held_values(dialect: Dialect) -> Plan[list[Held]]:
    """Return the values of `held` that name limits. A server may sort them by its own rules."""
    values: dict[str, Held] = {}
    after: str | None = ""
    while after is not None and len(values) < MOST_HELD_VALUES:
        (page,) = yield from dialect.ask(queries.HELD_KEYS, after, KEYS_AT_ONCE)
        known = len(values)
        values.update({one.by: one for one in page})
        after = page[-1].by if len(page) == KEYS_AT_ONCE and len(values) > known else None
    return [one for one in values.values() if one.by.startswith(HELD_PREFIX)]


def _change(dialect: Dialect, name: str, numbers: Numbers, actor: str, held: list[Held]) -> Plan[None]:
    yield from dialect.ask(queries.SET_QUOTA, name, *numbers.stored, actor)
    if held:
        (now_ms,) = yield from dialect.ask(NOW)
        yield from put_openings(dialect, {one.key: now_ms for one in held})


def read_limits(dialect: Dialect, declared: Mapping[str, Numbers]) -> Plan[list[LimitInfo]]:
    """Return all limits by name: published by workers, declared in this process, or with jobs that run or are held."""
    (at_ms,) = yield from dialect.ask(NOW)
    dialect = dialect.at(at_ms)
    quotas = {one.name: one for one in (yield from dialect.ask(queries.QUOTAS))}
    slots = [one for one in (yield from dialect.ask(queries.USED_SLOTS, MOST_KEYS_READ)) if one.key.startswith("[")]
    backlogs = yield from dialect.ask(HELD_BACKLOGS, MOST_KEYS_READ, MOST_COUNTED)
    used = {one.key: one.jobs for one in slots}
    held = {one.by.removeprefix(HELD_PREFIX): one for one in backlogs if one.by.startswith(HELD_PREFIX)}
    holds = {one.key: one for one in (yield from dialect.ask(queries.HOLDS, MOST_KEYS_READ))}
    breakers = {one.key: one for one in (yield from dialect.ask(queries.BREAKERS, MOST_KEYS_READ))}
    keys_by_name: dict[str, set[str]] = defaultdict(set)
    for key in (*used, *held, *holds, *breakers, *map(key_of, (*quotas, *declared))):
        keys_by_name[name_of(key)].add(key)
    stated = {name: _quota(name, quotas, declared) for name in sorted(keys_by_name)}
    spans = {
        key: stated[name].numbers.span_ms
        for name, keys in keys_by_name.items()
        if stated[name].numbers.rate is not None
        for key in keys
    }
    started = (yield from dialect.ask(queries.COUNTED_STARTS, sorted(spans.items())))[0] if spans else {}
    return [
        _info(
            quota,
            [
                _key(
                    *(key, used.get(key, 0), started.get(key, 0), held.get(key)),
                    _held_until_ms(holds.get(key), breakers.get(key), at_ms),
                    is_open=key in breakers,
                )
                for key in keys_by_name[name]
            ],
            max((holds[key] for key in keys_by_name[name] if key in holds), key=lambda one: one.until_ms, default=None),
        )
        for name, quota in stated.items()
    ]


def _quota(name: str, quotas: Mapping[str, Quota], declared: Mapping[str, Numbers]) -> Quota:
    """Return the stored numbers; those of this process where no worker has published any."""
    quota = quotas.get(name) or Quota(name, Numbers(), Numbers(), None, None)
    return quota._replace(declared=declared.get(name, Numbers())) if quota.declared == Numbers() else quota


def _held_until_ms(hold: Hold | None, breaker: OpenBreaker | None, at_ms: int) -> int | None:
    return max([one.until_ms for one in (hold, breaker) if one is not None and one.until_ms > at_ms], default=None)


def _key(
    key: str, running: int, started: int, held: HeldBacklog | None, until_ms: int | None, *, is_open: bool
) -> LimitKey:
    waiting, since_ms = (0, None) if held is None else (held.jobs, held.since_ms)
    return LimitKey(
        value=value_of(key),
        running=running,
        started=started,
        waiting=waiting,
        since=time_or_none(since_ms),
        held_until=time_or_none(until_ms),
        is_open=is_open,
    )


def _info(quota: Quota, keys: list[LimitKey], hold: Hold | None) -> LimitInfo:
    numbers, declared = quota.numbers, quota.declared
    busy = [
        one for one in keys if one.value is not None and (one.running or one.waiting or one.held_until or one.is_open)
    ]
    busy.sort(key=lambda one: (-one.waiting, -one.running, str(one.value)))
    return LimitInfo(
        name=quota.name,
        concurrency=numbers.concurrency,
        rate=numbers.rate,
        per=numbers.per,
        declared_concurrency=declared.concurrency,
        declared_rate=declared.rate,
        declared_per=declared.per,
        is_set=quota.chosen != Numbers(),
        changed_at=time_or_none(quota.changed_at_ms),
        changed_by=quota.changed_by,
        running=sum(one.running for one in keys),
        started=sum(one.started for one in keys),
        waiting=sum(one.waiting for one in keys),
        since=min((one.since for one in keys if one.since is not None), default=None),
        held_until=max((one.held_until for one in keys if one.held_until is not None), default=None),
        is_open=any(one.is_open for one in keys),
        held_by=None if hold is None else hold.job_id,
        held_reason=None if hold is None else hold.reason,
        by_key=busy[:MOST_KEYS_SHOWN],
    )
