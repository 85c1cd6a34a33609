"""`rowcall jobs`: a page of jobs, newest first."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

import click

from rowcall.cli.output import ago, console, job_as_json, print_json, span, status_text, table, text
from rowcall.cli.target import app_argument, existing, json_option, url_option
from rowcall.job import Job, Page, Status
from rowcall.store.plans.inspect import LONGEST_PAGE

_DETAIL_LENGTH = 60


@click.command("jobs")
@app_argument
@url_option
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Only jobs in this state.")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--type", "kind", metavar="NAME", help="Only jobs of this task.")
@click.option("--tag", metavar="TAG", help="Only jobs with this tag.")
@click.option("--limit", type=click.IntRange(1, LONGEST_PAGE), default=20, show_default=True, help="Jobs on the page.")
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
        page = jobs.list(status=status, queue=queue, type=kind, tag=tag, limit=limit, cursor=cursor)
    if as_json:
        print_json({"jobs": [job_as_json(job) for job in page.jobs], "next_cursor": page.next_cursor})
        return
    _print(page)


def _print(page: Page) -> None:
    out = console()
    if not page.jobs:
        out.print("no jobs")
        return
    now = datetime.now(UTC)
    shown = table(
        "id", "type", "queue", "status", "attempt", "when", "what", right=("id", "attempt"), whole=("status",)
    )
    for job in page.jobs:
        shown.add_row(
            str(job.id),
            text(job.type),
            text(job.queue),
            status_text(job.status),
            f"{job.attempt}/{job.max_attempts}",
            when(job, now),
            text(what(job)),
        )
    out.print(shown)
    if page.next_cursor is not None:
        out.print(f"\nmore: add --cursor {shlex.quote(page.next_cursor)}", style="dim")


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
            return f"waiting for {span((now - job.run_at).total_seconds())}"


def what(job: Job) -> str:
    """The error, or who is at it."""
    if job.error_code is not None:
        said = f"{job.error_code}: {job.error_detail}" if job.error_detail else job.error_code
        first = said.splitlines()[0]
        return first if len(first) <= _DETAIL_LENGTH else f"{first[: _DETAIL_LENGTH - 1]}…"
    return f"on {job.worker}" if job.status == Status.RUNNING else ""
