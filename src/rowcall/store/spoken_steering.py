"""What people do to jobs and queues, as every database is asked alike: only the words of the statements differ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, cast

from rowcall.base.times import time_of
from rowcall.domain.job import Job, Paused
from rowcall.store import rows
from rowcall.store.speech import as_json, only, plain
from rowcall.store.statement import Plan, Row, Statement, execute, fetch, no_row
from rowcall.store.steered import Asked, FailedAt, Interrupted, Obstacle, Rerun


class SteerStatements(Protocol):
    ask_to_cancel: str
    asked_to_cancel: str
    cancel_waiting: str
    failed_with: str
    interrupted: str
    keep_ends: str
    lock_jobs: str
    obstacles: str
    pause: str
    paused: str
    record_events: str
    record_last_attempts: str
    rerun: str
    reschedule: str
    resume: str
    set_priority: str
    unfinished_with_key: str


class SpokenSteering:
    _steering: SteerStatements

    def _retag(self, job_ids: Collection[int]) -> Plan[None]:
        """Let the tags of these jobs say what has become of them, where that does not happen by itself."""
        yield from ()

    def ask_to_cancel(self, job_ids: Sequence[int]) -> Plan[set[int]]:
        statement = Statement(self._steering.ask_to_cancel, (as_json(job_ids),), rows.number_from_row)
        return set((yield from fetch(statement)))

    def asked_to_cancel(self, leases: Sequence[tuple[int, int]]) -> Plan[list[Asked]]:
        return fetch(Statement(self._steering.asked_to_cancel, (as_json(leases),), asked_from_row))

    def interrupted(self, attempts: Sequence[tuple[int, int]]) -> Plan[list[Interrupted]]:
        return fetch(Statement(self._steering.interrupted, (as_json(attempts),), _interrupted))

    def lock_jobs(self, job_ids: Sequence[int]) -> Plan[list[Job]]:
        return fetch(Statement(self._steering.lock_jobs, (as_json(job_ids),), rows.job_from_row))

    def cancel_waiting(
        self, job_ids: Sequence[int], error_code: str, reason: str | None, now_ms: int | None
    ) -> Plan[None]:
        yield from execute(plain(self._steering.cancel_waiting, now_ms, as_json(job_ids), error_code, reason))
        yield from self._retag(job_ids)

    def unfinished_with_key(self, kind: str, key: str, before_id: int | None, limit: int) -> Plan[list[Job]]:
        return fetch(Statement(self._steering.unfinished_with_key, (kind, key, before_id, limit), rows.job_from_row))

    def rerun(self, jobs: Sequence[Rerun], now_ms: int | None) -> Plan[None]:
        job_ids = [job.id for job in jobs]
        yield from execute(plain(self._steering.record_last_attempts, as_json(job_ids)))
        yield from execute(plain(self._steering.keep_ends, as_json(job_ids)))
        given = as_json({str(job.id): [job.more_attempts, job.run_at_ms] for job in jobs})
        yield from execute(Statement(self._steering.rerun, (now_ms, given), no_row, _always))
        yield from self._retag(job_ids)

    def obstacles(self, job_ids: Sequence[int]) -> Plan[list[Obstacle]]:
        return fetch(Statement(self._steering.obstacles, (as_json(job_ids),), _obstacle))

    def failed_with(
        self, error_code: str, queue: str | None, kind: str | None, after: tuple[int, int] | None, limit: int
    ) -> Plan[list[FailedAt]]:
        parameters = (error_code, *(after or (0, 0)), queue, kind, limit)
        return fetch(Statement(self._steering.failed_with, parameters, _failed_at))

    def record_events(
        self, job_ids: Sequence[int], event: str, actor: str | None, detail: str | None, now_ms: int | None
    ) -> Plan[None]:
        return execute(plain(self._steering.record_events, now_ms, as_json(job_ids), event, actor, detail))

    def reschedule(self, job_id: int, run_at_ms: int | None, delay_ms: int, now_ms: int | None) -> Plan[None]:
        parameters = (now_ms, job_id, run_at_ms, delay_ms)
        yield from execute(Statement(self._steering.reschedule, parameters, no_row, _always))
        yield from self._retag([job_id])

    def set_priority(self, job_id: int, priority: int) -> Plan[None]:
        return execute(plain(self._steering.set_priority, job_id, priority))

    def pause(self, kind: str, name: str, actor: str | None, now_ms: int | None) -> Plan[Paused]:
        return only(Statement(self._steering.pause, (now_ms, kind, name, actor), _paused))

    def resume(self, kind: str, name: str) -> Plan[bool]:
        return bool((yield from fetch(Statement(self._steering.resume, (kind, name), no_row, bool))))

    def paused(self) -> Plan[list[Paused]]:
        return fetch(Statement(self._steering.paused, (), _paused))


def _always(found: list[Row]) -> bool:
    return True


def asked_from_row(row: Row) -> Asked:
    return Asked(*cast("tuple[int, int, str, str, int, str | None]", row))


def _interrupted(row: Row) -> Interrupted:
    job_id, lease, is_current, reason = cast("tuple[int, int, int, str | None]", row)
    return Interrupted(job_id, lease, bool(is_current), reason)


def _obstacle(row: Row) -> Obstacle:
    return Obstacle(*cast("tuple[int, str, int]", row))


def _failed_at(row: Row) -> FailedAt:
    return FailedAt(cast("int", row[0]), rows.job_from_row(row[1:]))


def _paused(row: Row) -> Paused:
    kind, name, actor, at = cast("tuple[str, str, str | None, int]", row)
    return Paused(kind=kind, name=name, actor=actor, at=time_of(at))
