"""`rowcall reschedule`: change the time of waiting jobs."""

from __future__ import annotations

from datetime import datetime

import click

from rowcall.app import Rowcall
from rowcall.cli.act_on_ids import act_on
from rowcall.cli.command import Answer, job_ids, queue_command
from rowcall.cli.options import typed_seconds
from rowcall.cli.target import Target
from rowcall.domain.job import Job
from rowcall.overview.formats import moment


@queue_command("reschedule", "Change the time of waiting jobs.", words="ID…", parse=job_ids)
@click.option("--delay", type=typed_seconds, metavar="DURATION", help="From now: 90s, 5m, 1h, 2d, …")
@click.option("--run-at", metavar="TIME", help="With a time zone: 2026-01-02T09:00+00:00")
def command(target: Target, words: list[int], delay: float | None, run_at: str | None) -> Answer:
    """Change the time at which waiting jobs run: give --delay or --run-at.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if a job could not be rescheduled.
    """
    if (delay is None) == (run_at is None):
        raise click.UsageError(f"give --delay or --run-at{', not both' if run_at is not None else ''}")
    at = None if run_at is None else _time(run_at)

    def reschedule(jobs: Rowcall, job_id: int) -> tuple[Job, str]:
        job = jobs.reschedule(job_id, run_at=at, delay=delay)
        return job, f"is {job.status} for {moment(job.run_at)} UTC"

    return act_on(target, words, reschedule)


def _time(given: str) -> datetime:
    example = "write it as 2026-01-02T09:00Z, or with +01:00 instead of Z"
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise click.UsageError(f"--run-at: {given!r} is not a time; {example}") from None
    if found.tzinfo is None:
        raise click.UsageError(f"--run-at: {given!r} has no time zone; {example}")
    return found
