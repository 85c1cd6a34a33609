"""`rowcall jobs`: a page of jobs, newest first."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import Any

import click

from rowcall.cli.command import Answer, given_options, limit_option, local_option, queue_command, selecting_options
from rowcall.cli.present.console import console, show
from rowcall.cli.present.text_tables import status_text, table_of
from rowcall.cli.target import Target
from rowcall.domain.job import WAITING, Job, Status, Why
from rowcall.overview.jobs import arguments, detail, when
from rowcall.overview.liveness import database_time, described
from rowcall.overview.reasons import why_each
from rowcall.overview.scrub import scrubbed

WIDE_COLUMNS = 140


@queue_command("jobs")
@click.option(
    "--status",
    type=click.Choice([status.value for status in Status]),
    multiple=True,
    help="Only jobs in this state; may be given several times.",
)
@selecting_options
@click.option("--order", type=click.Choice(["newest", "oldest"]), default="newest", help="Which jobs come first.")
@limit_option
@local_option
@click.option("--cursor", metavar="CURSOR", help="Continue from the next_cursor of an earlier page.")
def jobs_command(target: Target, zone: tzinfo | None, **options: Any) -> Answer:
    """List jobs, newest first.

    With --json: {"jobs": [{"id", "type", "queue", "payload", "status", …}, …], "next_cursor": "…" or null,
    "partial"}: whether the page ended because 100,000 jobs were looked at.
    """
    page = target.jobs.list(**given_options(options))
    jobs = [scrubbed(target.queue.declared.failures, job) for job in page.jobs]
    now = database_time(target.queue)
    running = any(job.status == Status.RUNNING for job in jobs)
    states = {worker.name: described(worker, now) for worker in target.jobs.workers()} if running else {}
    hint = target.unknown_name(options["queue"], options["type"]) if not jobs else ""
    waiting = [job for job in jobs if job.status in WAITING]

    def whys() -> dict[int, Why]:
        if not waiting:
            return {}
        found = target.queue.run(why_each(target.queue, waiting, zone))
        return {job_id: scrubbed(target.queue.declared.failures, why) for job_id, why in found.items()}

    data = {"jobs": [job_as_json(job) for job in jobs], "next_cursor": page.next_cursor, "partial": page.partial}

    def print_page() -> None:
        if jobs:
            _show(jobs, states, whys(), now)
        else:
            show(hint or "no jobs")
        if page.next_cursor is not None:
            more = "looked at 100,000 jobs, and more may match" if page.partial else "more"
            show(f"\n{more}: add --cursor {shlex.quote(page.next_cursor)}", style="dim")

    return Answer(data, print_page)


def job_as_json(job: Job) -> dict[str, object]:
    return {name: value for name, value in job.to_dict().items() if name != "duplicate"}


def attempts(job: Job) -> str:
    """Return which attempt it is, and of how many: of a failed job, none follow."""
    return str(job.attempt) if job.status is Status.FAILED else f"{job.attempt}/{job.max_attempts}"


def _show(jobs: list[Job], states: Mapping[str, str], whys: Mapping[int, Why], now: datetime) -> None:
    columns: dict[str, Callable[[Job], object]] = {
        "id": lambda job: str(job.id),
        "type": lambda job: job.type,
        "queue": lambda job: job.queue,
        "status": lambda job: status_text(job.status),
        "attempt": attempts,
        "when": lambda job: when(job, now),
    }
    if console().width >= WIDE_COLUMNS and sys.stdout.isatty():
        columns["arguments"] = lambda job: arguments(job)
    columns["detail"] = lambda job: detail(job, states, whys.get(job.id))
    show(table_of(jobs, columns, right=("id", "attempt"), whole=("status", "when"), notes=("detail",)))
