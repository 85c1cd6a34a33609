"""Limits on a server, where many claim at once: keys are locked without waiting, and counted after that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from rowcall.domain.limits import held_by
from rowcall.store import rows
from rowcall.store.dialect import Ready
from rowcall.store.postgres.limits_sql import LimitsSql
from rowcall.store.postgres.rows import ready_from_row
from rowcall.store.speech import as_json, only
from rowcall.store.spoken_limits import SpokenLimits
from rowcall.store.statement import Plan, Row, Statement, fetch

_texts = msgspec.json.Decoder(list[str])


class PostgresLimits(SpokenLimits):
    _limits: LimitsSql

    @property
    def most_keys(self) -> int:
        return 200  # all locks of a server share one table, which is small

    def ready_ahead(self, queue: str, types: Sequence[str], limit: int, now_ms: int | None) -> Plan[list[Ready]]:
        parameters = (now_ms, queue, limit, as_json(types))
        found = yield from fetch(Statement(self._limits.ready_ahead, parameters, ready_from_row))
        return sorted(found, key=lambda job: (-job.priority, job.place, job.id))[:limit]

    def lock_limits(self, keys: Sequence[str]) -> Plan[set[str]]:
        return set((yield from self._json(_texts, self._limits.lock_limits, as_json(keys))))

    def steady_slots(self, used: Mapping[str, int], ours: Collection[int]) -> Plan[Mapping[str, int]]:
        return Counter((yield from self._json(_texts, self._limits.steady_slots, as_json(list(used)), _array(ours))))

    def free_slots(self, attempts: Sequence[tuple[int, int | None]]) -> Plan[list[str]]:
        return self._json(_texts, self._limits.free_slots, as_json(attempts))

    def hold(self, jobs: Mapping[int, str]) -> Plan[int]:
        document = as_json({str(job_id): held_by(key) for job_id, key in jobs.items()})
        return only(Statement(self._limits.hold, (_array(jobs), document), rows.number_from_row))

    def unhold(self, places: Mapping[str, int]) -> Plan[int]:
        given = as_json([(held_by(key), count) for key, count in places.items()])
        return only(Statement(self._limits.unhold, (given,), rows.number_from_row, _any))


def _any(found: list[Row]) -> bool:
    return bool(found[0][0])


def _array(numbers: Collection[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
