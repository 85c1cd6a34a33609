"""Schedules, as every database is asked alike: only the words of the statements differ."""

from __future__ import annotations

from typing import Protocol, cast

from rowcall.domain.schedule import Timing
from rowcall.store.schedules.contract import Entry, ScheduleRow
from rowcall.store.speech import plain
from rowcall.store.statement import Plan, Row, Statement, execute, fetch, first, no_row


class ScheduleStatements(Protocol):
    due_schedules: str
    lock_schedule: str
    move_on: str
    pause_schedule: str
    put_schedule: str
    remove_schedule: str
    resume_schedule: str
    schedules: str
    stop_schedule: str


class SpokenSchedules:
    _schedules: ScheduleStatements

    def schedules(self) -> Plan[list[ScheduleRow]]:
        return fetch(Statement(self._schedules.schedules, (), schedule_from_row))

    def lock_schedule(self, name: str) -> Plan[ScheduleRow | None]:
        return first(Statement(self._schedules.lock_schedule, (name,), schedule_from_row))

    def due_schedules(self, limit: int, now_ms: int | None, *, lines: bool) -> Plan[list[ScheduleRow]]:
        return fetch(Statement(self._schedules.due_schedules, (now_ms, limit, int(lines)), schedule_from_row))

    def move_on(
        self, name: str, next_run_at_ms: int | None, last_run_at_ms: int | None, last_job_id: int | None
    ) -> Plan[None]:
        return execute(plain(self._schedules.move_on, name, next_run_at_ms, last_run_at_ms, last_job_id))

    def stop_schedule(self, name: str, problem: str) -> Plan[None]:
        return execute(plain(self._schedules.stop_schedule, name, problem))

    def put_schedule(self, entry: Entry, next_run_at_ms: int | None, now_ms: int | None) -> Plan[None]:
        timing = entry.timing
        parameters = (
            entry.name,
            entry.task,
            entry.payload,
            entry.options,
            timing.cron,
            timing.every_ms,
            timing.zone,
            timing.catch_up,
            next_run_at_ms,
        )
        return execute(Statement(self._schedules.put_schedule, parameters, no_row, _tell))

    def pause_schedule(self, name: str, actor: str, now_ms: int | None) -> Plan[None]:
        return execute(plain(self._schedules.pause_schedule, name, actor))

    def resume_schedule(self, name: str, next_run_at_ms: int | None, actor: str, now_ms: int | None) -> Plan[None]:
        parameters = (name, next_run_at_ms, actor)
        return execute(Statement(self._schedules.resume_schedule, parameters, no_row, _tell))

    def remove_schedule(self, name: str) -> Plan[bool]:
        return bool((yield from fetch(plain(self._schedules.remove_schedule, name))))


def _tell(found: list[Row]) -> bool:
    """Those who wait may have to wake sooner than they think."""
    return True


def schedule_from_row(row: Row) -> ScheduleRow:
    (
        name, task, payload, options, cron, every_ms, zone, catch_up, paused, actor, next_run_at, last_run_at,
        last_job_id, problem,
    ) = row  # fmt: skip
    return ScheduleRow(
        name=cast("str", name),
        task=cast("str", task),
        payload=cast("str", payload),
        options=cast("str", options),
        timing=Timing(
            cron=cast("str | None", cron),
            every_ms=cast("int | None", every_ms),
            zone=cast("str", zone),
            catch_up=cast("str", catch_up),
        ),
        paused=bool(paused),
        actor=cast("str | None", actor),
        next_run_at_ms=cast("int | None", next_run_at),
        last_run_at_ms=cast("int | None", last_run_at),
        last_job_id=cast("int | None", last_job_id),
        problem=cast("str | None", problem),
    )
