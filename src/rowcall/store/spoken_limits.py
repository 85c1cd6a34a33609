"""Limits, as every database is asked alike: only the words of the statements differ. All that is read comes as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from rowcall.domain.limits import HELD_PREFIX, Numbers, held_by
from rowcall.store import rows
from rowcall.store.limiting import Held, KeyState, Starts
from rowcall.store.speech import as_json, only, plain
from rowcall.store.statement import Parameter, Plan, Row, Statement, execute

T = TypeVar("T")

_states = msgspec.json.Decoder(list[tuple[str, Numbers | None, int]])
_starts = msgspec.json.Decoder(list[tuple[str, int, int | None, list[tuple[int, int]]]])
_attempts = msgspec.json.Decoder(list[tuple[int, int]])
_texts = msgspec.json.Decoder(list[str])
_held = msgspec.json.Decoder(list[tuple[str, str | None]])
_quotas = msgspec.json.Decoder(list[tuple[str, Numbers]])


class LimitStatements(Protocol):
    drop_gates: str
    drop_stale: str
    due_gates: str
    first_held: str
    forget_starts: str
    held_keys: str
    hold: str
    key_states: str
    put_gates: str
    put_quotas: str
    quotas: str
    recent_starts: str
    record_starts: str
    rewind_starts: str
    slots_of_worker: str
    stale_keys: str
    take_slots: str
    tidy_starts: str


class SpokenLimits:
    _limits: LimitStatements

    def key_states(self, keys: Mapping[str, str], now_ms: int | None) -> Plan[tuple[int, dict[str, KeyState]]]:
        statement = Statement(self._limits.key_states, (now_ms, as_json(list(keys.items()))), _states_from_row)
        return only(statement)

    def take_slots(self, slots: Sequence[tuple[str, int, int]], worker: str | None) -> Plan[None]:
        return execute(plain(self._limits.take_slots, as_json(slots), worker))

    def slots_of_worker(self, worker: str) -> Plan[list[tuple[int, int]]]:
        return self._json(_attempts, self._limits.slots_of_worker, worker)

    def recent_starts(self, asked: Sequence[tuple[str, int, int]]) -> Plan[dict[str, Starts]]:
        found = yield from self._json(_starts, self._limits.recent_starts, as_json(asked))
        return {key: Starts(last, last_at or 0, dict(before)) for key, last, last_at, before in found}

    def record_starts(self, starts: Sequence[tuple[str, int, int, int]]) -> Plan[None]:
        return execute(plain(self._limits.record_starts, as_json(starts)))

    def forget_starts(self, numbers: Mapping[str, int]) -> Plan[None]:
        return execute(plain(self._limits.forget_starts, as_json(list(numbers.items()))))

    def rewind_starts(self, key: str, at_ms: int) -> Plan[None]:
        return execute(plain(self._limits.rewind_starts, key, at_ms))

    def tidy_starts(self, limit: int, now_ms: int | None) -> Plan[int]:
        return only(Statement(self._limits.tidy_starts, (now_ms, limit), rows.number_from_row))

    def stale_keys(self, limit: int) -> Plan[list[str]]:
        return self._json(_texts, self._limits.stale_keys, limit)

    def drop_stale(self, keys: Sequence[str]) -> Plan[int]:
        return only(Statement(self._limits.drop_stale, (as_json(keys),), rows.number_from_row))

    def put_gates(self, opens_at_ms: Mapping[str, int]) -> Plan[None]:
        return execute(plain(self._limits.put_gates, as_json(list(opens_at_ms.items()))))

    def drop_gates(self, keys: Sequence[str]) -> Plan[None]:
        return execute(plain(self._limits.drop_gates, as_json(keys)))

    def due_gates(self, limit: int, now_ms: int | None) -> Plan[list[str]]:
        return self._json(_texts, self._limits.due_gates, now_ms, limit)

    def held_keys(self, after: str, limit: int) -> Plan[list[Held]]:
        found = yield from self._json(_held, self._limits.held_keys, held_by(after) if after else "", limit)
        return _keys_of(found)

    def first_held(self, keys: Sequence[str]) -> Plan[list[Held]]:
        found = yield from self._json(_held, self._limits.first_held, as_json([held_by(key) for key in keys]))
        return _keys_of(found)

    def quotas(self) -> Plan[dict[str, Numbers]]:
        return dict((yield from self._json(_quotas, self._limits.quotas)))

    def put_quotas(self, quotas: Mapping[str, Numbers], now_ms: int | None) -> Plan[None]:
        given = [(name, numbers.concurrency, numbers.rate, numbers.per_ms) for name, numbers in quotas.items()]
        return execute(plain(self._limits.put_quotas, as_json(given)))

    def _json(self, decoder: msgspec.json.Decoder[T], sql: str, *parameters: Parameter) -> Plan[T]:
        return decoder.decode((yield from only(Statement(sql, parameters, rows.text_from_row))))


def _states_from_row(row: Row) -> tuple[int, dict[str, KeyState]]:
    now_ms, states = row
    assert isinstance(now_ms, int)
    assert isinstance(states, str)
    return now_ms, {key: KeyState(published, used) for key, published, used in _states.decode(states)}


def _keys_of(found: Sequence[tuple[str, str | None]]) -> list[Held]:
    """What plain SQL has held for a reason of its own is not ours."""
    return [Held(held.removeprefix(HELD_PREFIX), limits) for held, limits in found if held.startswith(HELD_PREFIX)]
