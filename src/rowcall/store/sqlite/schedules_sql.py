"""Statements about schedules."""

from __future__ import annotations

from rowcall.store.sqlite.words import render

_COLUMNS = (
    "name, task, payload, options, cron, every_ms, zone, catch_up, paused, actor, next_run_at, last_run_at,"
    " last_job_id, problem"
)


class SchedulesSql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))

    schedules = f"select {_COLUMNS} from <schedule> order by name"
    lock_schedule = f"select {_COLUMNS} from <schedule> where name = ?1"
    due_schedules = f"""
        select {_COLUMNS} from <schedule> indexed by <prefix>schedule_due
        where paused = 0 and next_run_at is not null and next_run_at <= <now> and (cron is null or ?3)
        order by next_run_at limit ?2"""
    move_on = """
        update <schedule> set next_run_at = ?2, last_run_at = coalesce(?3, last_run_at),
          last_job_id = coalesce(?4, last_job_id)
        where name = ?1"""
    stop_schedule = "update <schedule> set next_run_at = null, problem = ?2 where name = ?1"
    put_schedule = """
        insert into <schedule> (name, task, payload, options, cron, every_ms, zone, catch_up, next_run_at)
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        on conflict (name) do update set task = excluded.task, payload = excluded.payload, options = excluded.options,
          cron = excluded.cron, every_ms = excluded.every_ms, zone = excluded.zone, catch_up = excluded.catch_up,
          problem = null,
          next_run_at = case
            when cron is excluded.cron and every_ms is excluded.every_ms and zone = excluded.zone
            then coalesce(next_run_at, excluded.next_run_at) else excluded.next_run_at end"""
    pause_schedule = "update <schedule> set paused = 1, actor = ?2 where name = ?1"
    resume_schedule = """
        update <schedule> set paused = 0, actor = ?3, next_run_at = ?2, problem = null
        where name = ?1"""
    remove_schedule = "delete from <schedule> where name = ?1 returning name"


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    found = vars(SchedulesSql).items()
    return {name: text for name, text in found if isinstance(text, str) and not name.startswith("_")}
