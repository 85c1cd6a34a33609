"""`rowcall schedules`: when jobs come by themselves; and running, pausing, resuming and removing one."""

from __future__ import annotations

from datetime import datetime

import click
import msgspec

from rowcall.app import Rowcall
from rowcall.cli.present.output import ago, console, job_as_json, print_json, table, text
from rowcall.cli.target import app_argument, existing, json_option, queue_of, url_option
from rowcall.domain.job import Job, Schedule
from rowcall.overview.liveness import time_there
from rowcall.overview.scrub import scrubbed_job, scrubbed_schedule


@click.command("schedules", short_help="List schedules; run, pause, resume or remove one.")
@app_argument
@url_option
@click.option("--run-now", metavar="NAME", help="Enqueue one more job of this schedule, paused or not.")
@click.option("--pause", metavar="NAME", help="Let this schedule make no jobs until it is resumed.")
@click.option("--resume", metavar="NAME", help="Let it go on, with its next tick from now.")
@click.option("--remove", metavar="NAME", help="Forget it; a worker that declares it writes it anew when it starts.")
@json_option
def schedules_command(
    app: str | None,
    url: str | None,
    run_now: str | None,
    pause: str | None,
    resume: str | None,
    remove: str | None,
    as_json: bool,
) -> None:
    """List the schedules that are written down, by name.

    With --json: {"schedules": [{"name", "task", "arguments", "cron", "every", "tz", "catch_up", "paused", "paused_by",
    "next_run_at", "last_run_at", "last_job_id", "problem"}, …]}, with "every" in seconds. With --pause and --resume:
    {"schedule": {…}}; with --run-now: {"job": {…}}; with --remove: {"removed": "NAME"}. Exit code 1 if there is no such
    schedule.
    """
    asked = {"--run-now": run_now, "--pause": pause, "--resume": resume, "--remove": remove}
    given = [option for option, name in asked.items() if name is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} were given, and only one can be")
    with existing(app, url) as jobs:
        if run_now is not None:
            _say_enqueued(scrubbed_job(queue_of(jobs).failures, jobs.run_schedule_now(run_now)), run_now, as_json)
        elif pause is not None:
            _say_changed(jobs, jobs.pause_schedule(pause), as_json)
        elif resume is not None:
            _say_changed(jobs, jobs.resume_schedule(resume), as_json)
        elif remove is not None:
            jobs.remove_schedule(remove)
            if as_json:
                print_json({"removed": remove})
            else:
                console().print(text(f"schedule {remove} is removed"))
        else:
            _list(jobs, as_json)


def _list(jobs: Rowcall, as_json: bool) -> None:
    schedules = [scrubbed_schedule(queue_of(jobs).failures, schedule) for schedule in jobs.schedules()]
    if as_json:
        print_json({"schedules": [schedule_as_json(schedule) for schedule in schedules]})
    elif not schedules:
        console().print("no schedules")
    else:
        _print(schedules, time_there(queue_of(jobs)))


def _print(schedules: list[Schedule], now: datetime) -> None:
    shown = table("schedule", "task", "when", "zone", "catch up", "next", "last", "last job", right=("last job",))
    for schedule in schedules:
        waits = schedule.paused or schedule.problem is not None
        shown.add_row(
            text(schedule.name),
            text(schedule.task),
            text(when(schedule)),
            text(schedule.tz),
            text(schedule.catch_up),
            text(upcoming(schedule, now), "yellow" if waits else ""),
            "" if schedule.last_run_at is None else ago(schedule.last_run_at, now),
            "" if schedule.last_job_id is None else str(schedule.last_job_id),
        )
    console().print(shown)


def when(schedule: Schedule) -> str:
    """Its line, or its period."""
    return f"every {schedule.every}" if schedule.every is not None else schedule.cron or ""


def upcoming(schedule: Schedule, now: datetime) -> str:
    if schedule.problem is not None:
        return schedule.problem
    if schedule.paused:
        return f"paused by {schedule.paused_by}"
    if schedule.next_run_at is None:
        return "never"
    said = ago(schedule.next_run_at, now)
    return said if schedule.next_run_at > now else f"due {said}"


def schedule_as_json(schedule: Schedule) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(schedule)
    return {**fields, "every": None if schedule.every is None else schedule.every.total_seconds()}


def _say_enqueued(job: Job, name: str, as_json: bool) -> None:
    if as_json:
        print_json({"job": job_as_json(job)})
    else:
        console().print(text(f"job {job.id} of schedule {name} is {job.status}"))


def _say_changed(jobs: Rowcall, schedule: Schedule, as_json: bool) -> None:
    schedule = scrubbed_schedule(queue_of(jobs).failures, schedule)
    if as_json:
        print_json({"schedule": schedule_as_json(schedule)})
    elif schedule.paused:
        console().print(text(f"schedule {schedule.name} is paused"))
    else:
        console().print(text(f"schedule {schedule.name} runs again {upcoming(schedule, time_there(queue_of(jobs)))}"))
