"""Schedules as they are kept: one row each.

The contract
------------
* **Once.** `DUE_SCHEDULES` returns a schedule to one ticker only, until its transaction ends; another ticker gets the
  others. `MOVE_ON` follows in the same transaction as the jobs of the ticks.
* **Kept.** `PUT_SCHEDULE` leaves the next tick alone where line, period and zone are unchanged, and never changes
  whether the schedule is paused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rowcall.domain.schedule import Timing
from rowcall.store.statement import Int, Ms, Now, Query, Row, Text, always_notify


class DeclaredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is declared. `options` are the options of its jobs, as JSON."""

    name: str
    task: str
    payload: str
    options: str
    timing: Timing


class ScheduleRow(DeclaredSchedule, frozen=True, kw_only=True):
    """A schedule as it is kept. `actor` is who paused it; one with a `problem` does not tick."""

    paused: bool
    declared: bool
    """Whether an app wrote it because its code declares it."""
    actor: str | None
    next_run_at_ms: int | None
    last_run_at_ms: int | None
    last_job_id: int | None
    problem: str | None


_FIELDS = (
    "name task payload options cron every_ms zone catch_up paused declared actor next_run_at_ms last_run_at_ms"
    " last_job_id problem"
)


def schedule_from_row(row: Row) -> ScheduleRow:
    fields: dict[str, Any] = dict(zip(_FIELDS.split(), row, strict=True))
    timing = Timing(**{name: fields.pop(name) for name in Timing.__struct_fields__})
    paused, declared = bool(fields.pop("paused")), bool(fields.pop("declared"))
    return ScheduleRow(timing=timing, paused=paused, declared=declared, **fields)


_SELECT = """
    select name, task, <text_of:payload>, <text_of:options>, cron, every_ms, zone, catch_up, paused, declared,
           actor, <ms_or_null:next_run_at>, <ms:last_run_at>, last_job_id, problem
    from <schedule>"""

SCHEDULES = Query("schedules", (), schedule_from_row, text=f"{_SELECT} order by name")
LOCK_SCHEDULE = Query("lock_schedule", (Text,), schedule_from_row, text=f"{_SELECT} where name = <text:1> <for_update>")
# now, at most how many, and whether cron lines can be read
_DUE_SCHEDULES = f"""{_SELECT} <indexed:schedule_due>
    where paused = 0 and next_run_at is not null and next_run_at <= (select <now>) and (cron is null or <int:3> <> 0)
    order by next_run_at limit <int:2> <for_update> <skip_locked>"""
DUE_SCHEDULES = Query("due_schedules", (Now, Int, Int), schedule_from_row, text=_DUE_SCHEDULES)
# name, next tick, and the last tick and its job unless they are null
_MOVE_ON = """
    update <schedule> set next_run_at = <time:2>, last_run_at = coalesce(<time:3>, last_run_at),
      last_job_id = coalesce(<bigint:4>, last_job_id)
    where name = <text:1>"""
MOVE_ON = Query("move_on", (Text, Ms, Ms, Int), text=_MOVE_ON)
_STOP_SCHEDULE = "update <schedule> set next_run_at = null, problem = <text:2> where name = <text:1>"
STOP_SCHEDULE = Query("stop_schedule", (Text, Text), text=_STOP_SCHEDULE)
# Waiting workers may have to wake sooner than they planned. The next tick is first: MariaDB assigns one after another.
PUT_SCHEDULE = Query(
    "put_schedule",
    (Text, Text, Text, Text, Text, Int, Text, Text, Int, Ms),
    text="""
    insert into <schedule> as schedule
      (name, task, payload, options, cron, every_ms, zone, catch_up, declared, next_run_at)
    values (<text:1>, <text:2>, <json:3>, <json:4>, <text:5>, <bigint:6>, <text:7>, <text:8>, <int:9>, <time:10>)
    on conflict (name) do update set
      next_run_at = case
        when <same:schedule.cron, excluded.cron> and <same:schedule.every_ms, excluded.every_ms>
          and schedule.zone = excluded.zone
        then coalesce(schedule.next_run_at, excluded.next_run_at) else excluded.next_run_at end,
      task = excluded.task, payload = excluded.payload, options = excluded.options, cron = excluded.cron,
      every_ms = excluded.every_ms, zone = excluded.zone, catch_up = excluded.catch_up, declared = excluded.declared,
      problem = null""",
    notifies=always_notify,
)
_PAUSE_SCHEDULE = "update <schedule> set paused = 1, actor = <text:2> where name = <text:1>"
PAUSE_SCHEDULE = Query("pause_schedule", (Text, Text), text=_PAUSE_SCHEDULE)
_RESUME_SCHEDULE = """
    update <schedule> set paused = 0, actor = <text:3>, next_run_at = <time:2>, problem = null
    where name = <text:1>"""
RESUME_SCHEDULE = Query("resume_schedule", (Text, Ms, Text), notifies=always_notify, text=_RESUME_SCHEDULE)
REMOVE_SCHEDULE = Query("remove_schedule", (Text,), text="delete from <schedule> where name = <text:1> returning name")
