"""`rowcall jobs`: a page of jobs, newest first."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import click

from rowcall.cli.present.output import (
    NARROW_COLUMNS,
    ago,
    console,
    job_as_json,
    print_json,
    span,
    status_text,
    table,
    text,
)
from rowcall.cli.target import app_argument, existing, json_option, queue_of, url_option
from rowcall.domain.job import Job, Page, Status
from rowcall.domain.payload import MISMATCH_CODE
from rowcall.overview.liveness import Liveness, described, time_there
from rowcall.overview.scrub import scrubbed_job

if TYPE_CHECKING:
    from rich.table import Table

_DETAIL_LENGTH = 60


@click.command("jobs")
@app_argument
@url_option
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Only jobs in this state.")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--type", "kind", metavar="NAME", help="Only jobs of this task.")
@click.option("--tag", metavar="TAG", help="Only jobs with this tag.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Jobs on the page.")
@click.option("--cursor", metavar="CURSOR", help="Go on after an earlier page, by the cursor it ended with.")
@json_option
def jobs_command(
    app: str | None,
    url: str | None,
    status: str | None,
    queue: str | None,
    kind: str | None,
    tag: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List jobs, newest first.

    With --json: {"jobs": [{"id", "type", "queue", "payload", "status", …}, …], "next_cursor": "…" or null}.
    """
    with existing(app, url) as jobs:
        found = jobs.list(status=status, queue=queue, type=kind, tag=tag, limit=limit, cursor=cursor)
        failures = queue_of(jobs).failures
        page = Page(jobs=[scrubbed_job(failures, job) for job in found.jobs], next_cursor=found.next_cursor)
        workers = jobs.workers() if any(job.status == Status.RUNNING for job in page.jobs) else []
        now = time_there(queue_of(jobs))
    if as_json:
        print_json({"jobs": [job_as_json(job) for job in page.jobs], "next_cursor": page.next_cursor})
        return
    states = {worker.name: described(worker, now) for worker in workers}
    _print(page, {name: state for name, state in states.items() if state != Liveness.ALIVE}, now)


def _print(page: Page, missing: Mapping[str, str], now: datetime) -> None:
    out = console()
    if not page.jobs:
        out.print("no jobs")
        return
    narrow = out.width < NARROW_COLUMNS
    said = {job.id: what(job, missing) for job in page.jobs}
    out.print(_table(page.jobs, {} if narrow else said, now))
    if narrow and any(said.values()):
        out.print()
        out.print(_notes(said))
    if page.next_cursor is not None:
        out.print(f"\nmore: add --cursor {shlex.quote(page.next_cursor)}", style="dim")


def _table(jobs: list[Job], said: Mapping[int, str], now: datetime) -> Table:
    columns = ["id", "type", "queue", "status", "attempt", "when", *(["what"] if said else [])]
    shown = table(*columns, right=("id", "attempt"), whole=("status",))
    for job in jobs:
        shown.add_row(
            str(job.id),
            text(job.type),
            text(job.queue),
            status_text(job.status),
            f"{job.attempt}/{job.max_attempts}",
            when(job, now),
            *([text(said[job.id])] if said else []),
        )
    return shown


def _notes(said: Mapping[int, str]) -> Table:
    """What a narrow terminal has no column for."""
    shown = table("id", "what", right=("id",))
    for job_id, note in said.items():
        if note:
            shown.add_row(str(job_id), text(note))
    return shown


def when(job: Job, now: datetime) -> str:
    """The moment that matters most in the job's state."""
    match job.status:
        case Status.SUCCEEDED | Status.FAILED | Status.CANCELLED:
            return f"ended {ago(job.finished_at or job.run_at, now)}"
        case Status.RUNNING:
            return f"for {span((now - (job.claimed_at or job.run_at)).total_seconds())}"
        case Status.SCHEDULED if job.run_at > now:
            return f"due {ago(job.run_at, now)}"
        case _:
            return f"waiting for {span((now - max(job.run_at, job.created_at)).total_seconds())}"


def what(job: Job, missing: Mapping[str, str]) -> str:
    """The error, or who is at it; `missing` are the workers that do not live, and what is known of them."""
    if job.status == Status.RUNNING:
        state = missing.get(job.worker or "")
        return f"on {job.worker} ({state})" if state else f"on {job.worker}"
    if job.error_code is None:
        return ""
    said = f"{job.error_code}: {job.error_detail}" if job.error_detail else job.error_code
    if job.status == Status.PENDING and job.error_code == MISMATCH_CODE:
        said = f"waits for a worker that fits: {job.error_detail}"
    first = said.splitlines()[0]
    return first if len(first) <= _DETAIL_LENGTH else f"{first[: _DETAIL_LENGTH - 3]}..."
