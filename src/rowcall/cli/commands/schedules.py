"""`rowcall schedules`: list schedules; run, pause, resume or remove one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import click
import msgspec

from rowcall.base.text import duration, one_line
from rowcall.base.times import time_of
from rowcall.cli.command import Answer, queue_command, typed_option
from rowcall.cli.commands.jobs import job_as_json
from rowcall.cli.present.console import is_narrow, show
from rowcall.cli.present.text_tables import table_of, text
from rowcall.cli.target import Target, declaring, existing, has_tables
from rowcall.domain.job import Schedule
from rowcall.operations.schedules import unwritten_schedules
from rowcall.overview.formats import ago
from rowcall.overview.liveness import database_time
from rowcall.overview.scrub import scrubbed


@queue_command("schedules", "List schedules; run, pause, resume or remove one.", opened=declaring)
@click.option("--run-now", metavar="NAME", help="Enqueue one more job of this schedule, even if it is paused.")
@click.option("--pause", metavar="NAME", help="Enqueue no jobs of this schedule until it is resumed.")
@click.option("--resume", metavar="NAME", help="Resume this schedule; its next tick is after now.")
@click.option(
    "--remove", metavar="NAME", help="Remove this schedule. A starting worker that declares it adds it again."
)
def schedules_command(target: Target, **options: str | None) -> Answer:
    """List the schedules in the database, by name, and those of APP that no worker has written yet.

    With --json: {"schedules": [{"name", "task", "arguments", "cron", "every", "tz", "catch_up", "paused", "paused_by",
    "next_run_at", "last_run_at", "last_job_id", "problem", "declaration": "current" | "new" | "gone" | "unknown" |
    null}, …]}, with "every" in seconds. The declaration is "gone" if APP no longer declares the schedule. With --pause
    and --resume: {"schedule": {…}}; with --run-now: {"job": {…}}; with --remove: {"removed": "NAME"}. Exit code 1 if
    there is no such schedule.
    """
    chosen = {option: name for option, name in options.items() if name is not None}
    if len(chosen) > 1:
        raise click.UsageError(f"give only one of {' and '.join(map(typed_option, chosen))}")
    is_written = has_tables(target)
    for option, name in chosen.items():
        return _change(target if is_written else existing(target.app, None), option, name)
    found = target.jobs.schedules(unwritten=True) if is_written else unwritten_schedules(target.queue)
    schedules = [scrubbed(target.queue.declared.failures, schedule) for schedule in found]
    data = {"schedules": [_as_json(schedule) for schedule in schedules]}
    now = database_time(target.queue) if is_written else time_of(int(target.queue.clock.wall() * 1000))
    return Answer(data, lambda: _show(target, schedules, now) if schedules else show("no schedules"))


def _change(target: Target, option: str, name: str) -> Answer:
    jobs, failures, label = target.jobs, target.queue.declared.failures, f"schedule {one_line(name)}"
    if option == "remove":
        jobs.remove_schedule(name)
        return Answer({"removed": name}, lambda: show(f"{label} removed"))
    if option == "run_now":
        job = scrubbed(failures, jobs.run_schedule_now(name))
        return Answer({"job": job_as_json(job)}, lambda: show(f"{label}: job {job.id} is {job.status}"))
    schedule = scrubbed(failures, jobs.pause_schedule(name) if option == "pause" else jobs.resume_schedule(name))
    state = "paused" if schedule.paused else f"resumed; it runs {_next(schedule, database_time(target.queue))}"
    return Answer({"schedule": _as_json(schedule)}, lambda: show(f"{label} {state}"))


def _show(target: Target, schedules: list[Schedule], now: datetime) -> None:
    def upcoming(schedule: Schedule) -> object:
        return text(_next(schedule, now), "yellow" if schedule.paused or schedule.problem is not None else "")

    columns: dict[str, Callable[[Schedule], object]] = {
        "schedule": lambda schedule: schedule.name,
        "task": lambda schedule: schedule.task,
        "when": lambda schedule: _when(schedule),
        "zone": lambda schedule: schedule.tz,
        "catch up": lambda schedule: schedule.catch_up,
        "next": upcoming,
        "last": lambda schedule: None if schedule.last_run_at is None else ago(schedule.last_run_at, now),
        "last job": lambda schedule: None if schedule.last_job_id is None else str(schedule.last_job_id),
    }
    if is_narrow() and all(schedule.task == schedule.name for schedule in schedules):
        del columns["task"]
    show(table_of(schedules, columns, right=("last job",), whole=("schedule", "task", "when", "zone")))
    for schedule in schedules:
        if schedule.declaration == "gone":
            remove = target.command("schedules", "--remove", schedule.name)
            show("")
            show(text(f"no longer declared here: {schedule.name}; remove it with: {remove}", "yellow"))


def _when(schedule: Schedule) -> str | None:
    return schedule.cron if schedule.every is None else f"every {duration(schedule.every.total_seconds())}"


def _next(schedule: Schedule, now: datetime) -> str:
    if schedule.problem is not None:
        return schedule.problem
    if schedule.paused:
        return f"paused by {schedule.paused_by}"
    if schedule.declaration == "new":
        return "after a worker has started"
    if schedule.next_run_at is None:
        return "never"
    said = ago(schedule.next_run_at, now)
    return said if schedule.next_run_at > now else f"due {said}"


def _as_json(schedule: Schedule) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(schedule)
    return {**fields, "every": None if schedule.every is None else schedule.every.total_seconds()}
