"""What people do to jobs and queues, where many write at once."""

from __future__ import annotations

from collections.abc import Sequence

from rowcall.store.postgres.steer_sql import SteerSql
from rowcall.store.speech import as_json, plain
from rowcall.store.spoken_steering import SpokenSteering, asked_from_row
from rowcall.store.statement import Plan, Statement, fetch
from rowcall.store.steered import Asked


class PostgresSteering(SpokenSteering):
    _steering: SteerSql

    def asked_to_cancel(self, leases: Sequence[tuple[int, int]]) -> Plan[list[Asked]]:
        locked = yield from fetch(plain(self._steering.lock_attempts, as_json(leases)))
        asked = [job_id for job_id, was_asked in locked if was_asked]
        if not asked:
            return []
        return (yield from fetch(Statement(self._steering.asked_to_cancel, (as_json(asked),), asked_from_row)))
