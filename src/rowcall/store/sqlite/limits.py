"""Limits in a file: with one writer at a time, what a claim has counted stays true until its commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from rowcall.domain.limits import held_by
from rowcall.store import rows
from rowcall.store.speech import as_json, only, plain
from rowcall.store.spoken_limits import SpokenLimits
from rowcall.store.sqlite.limits_sql import LimitsSql
from rowcall.store.statement import Plan, Statement, execute

_texts = msgspec.json.Decoder(list[str])


class SqliteLimits(SpokenLimits):
    _limits: LimitsSql
    _changes: str

    @property
    def most_keys(self) -> int:
        return 2000

    def lock_limits(self, keys: Sequence[str]) -> Plan[set[str]]:
        yield from ()
        return set(keys)

    def steady_slots(self, used: Mapping[str, int], ours: Collection[int]) -> Plan[Mapping[str, int]]:
        yield from ()
        return used

    def free_slots(self, attempts: Sequence[tuple[int, int | None]]) -> Plan[list[str]]:
        # not as_json of a dict: one job may come with two leases
        leases = ",".join([f'"{job_id}":{lease}' for job_id, lease in set(attempts)]).replace("None", "null")
        given = "{" + leases + "}"
        keys = yield from self._json(_texts, self._limits.slots_of, given)
        if keys:
            yield from execute(plain(self._limits.delete_slots, given))
        return keys

    def hold(self, jobs: Mapping[int, str]) -> Plan[int]:
        given = as_json([(job_id, held_by(key)) for job_id, key in jobs.items()])
        return self._changing(plain(self._limits.hold, given))

    def unhold(self, places: Mapping[str, int]) -> Plan[int]:
        ones = [held_by(key) for key, count in places.items() if count == 1]
        changed = yield from self._changing(plain(self._limits.unhold_first, as_json(ones))) if ones else _none()
        for key, count in places.items():
            if count > 1:
                changed += yield from self._changing(plain(self._limits.unhold_some, held_by(key), count))
        return changed

    def drop_gates(self, keys: Sequence[str]) -> Plan[None]:
        yield from super().drop_gates(keys)
        if any("\ufffd" in key or "\0" in key for key in keys):
            yield from execute(plain(self._limits.drop_unspelled_gates))

    def tidy_starts(self, limit: int, now_ms: int | None) -> Plan[int]:
        return self._changing(plain(self._limits.tidy_starts, now_ms, limit))

    def drop_stale(self, keys: Sequence[str]) -> Plan[int]:
        return self._changing(plain(self._limits.drop_stale, as_json(keys)))

    def _changing(self, statement: Statement[object]) -> Plan[int]:
        yield from execute(statement)
        return (yield from only(Statement(self._changes, (), rows.number_from_row)))


def _none() -> Plan[int]:
    yield from ()
    return 0
