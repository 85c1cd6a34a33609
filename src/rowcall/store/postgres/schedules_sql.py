"""Statements about schedules."""

from __future__ import annotations

from rowcall.store.postgres.words import milliseconds_of, milliseconds_or_null, render, time_of

_COLUMNS = (
    "name, task, payload::text, options::text, cron, every_ms, zone, catch_up, paused, actor,"
    f" {milliseconds_or_null('next_run_at')}, {milliseconds_of('last_run_at')}, last_job_id, problem"
)


class SchedulesSql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))

    schedules = f"select {_COLUMNS} from <schedule> order by name"
    lock_schedule = f"select {_COLUMNS} from <schedule> where name = $1::text for update"
    due_schedules = f"""
        select {_COLUMNS} from <schedule>
        where paused = 0 and next_run_at is not null and next_run_at <= (select <now>)
          and (cron is null or $3::int <> 0)
        order by next_run_at limit $2::int
        for update skip locked"""
    move_on = f"""
        update <schedule> set next_run_at = {time_of("$2")}, last_run_at = coalesce({time_of("$3")}, last_run_at),
          last_job_id = coalesce($4::bigint, last_job_id)
        where name = $1::text"""
    stop_schedule = "update <schedule> set next_run_at = null, problem = $2::text where name = $1::text"
    put_schedule = f"""
        insert into <schedule> as schedule
          (name, task, payload, options, cron, every_ms, zone, catch_up, next_run_at)
        values ($1::text, $2::text, $3::text::jsonb, $4::text::jsonb, $5::text, $6::bigint, $7::text, $8::text,
                {time_of("$9")})
        on conflict (name) do update set task = excluded.task, payload = excluded.payload, options = excluded.options,
          cron = excluded.cron, every_ms = excluded.every_ms, zone = excluded.zone, catch_up = excluded.catch_up,
          problem = null,
          next_run_at = case
            when schedule.cron is not distinct from excluded.cron
              and schedule.every_ms is not distinct from excluded.every_ms and schedule.zone = excluded.zone
            then coalesce(schedule.next_run_at, excluded.next_run_at) else excluded.next_run_at end"""
    pause_schedule = """
        update <schedule> set paused = 1, actor = $2::text where name = $1::text"""
    resume_schedule = f"""
        update <schedule> set paused = 0, actor = $3::text, next_run_at = {time_of("$2")},
          problem = null
        where name = $1::text"""
    remove_schedule = "delete from <schedule> where name = $1::text returning name"


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    found = vars(SchedulesSql).items()
    return {name: text for name, text in found if isinstance(text, str) and not name.startswith("_")}
