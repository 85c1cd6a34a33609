"""`rowcall workers`: the worker processes that are registered."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from rowcall.cli.output import ago, console, print_json, table, text
from rowcall.cli.target import app_argument, existing, json_option, url_option
from rowcall.job import WorkerInfo


@click.command("workers")
@app_argument
@url_option
@json_option
def workers_command(app: str | None, url: str | None, as_json: bool) -> None:
    """List the worker processes that are registered now.

    With --json: {"workers": [{"name", "host", "pid", "queues", "concurrency", "version", "started_at", "beat",
    "beat_at", "running"}, …]}.
    """
    with existing(app, url) as jobs:
        workers = jobs.workers()
    if as_json:
        print_json({"workers": workers})
        return
    _print(workers)


def _print(workers: list[WorkerInfo]) -> None:
    out = console()
    if not workers:
        out.print("no workers; start one with: rowcall work app:jobs")
        return
    now = datetime.now(UTC)
    shown = table("worker", "pid", "queues", "running", "of", "started", "last beat", right=("pid", "running", "of"))
    for worker in workers:
        shown.add_row(
            text(worker.name),
            str(worker.pid),
            text(worker.queues),
            str(worker.running),
            str(worker.concurrency),
            ago(worker.started_at, now),
            ago(worker.beat_at, now),
        )
    out.print(shown)
