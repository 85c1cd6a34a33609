"""`rowcall workers`: the worker processes that are registered, and whether they live."""

from __future__ import annotations

from datetime import datetime

import click
import msgspec

from rowcall.cli.present.output import ago, console, print_json, table, text
from rowcall.cli.target import app_argument, existing, json_option, queue_of, url_option, work_command_for
from rowcall.domain.job import WorkerInfo
from rowcall.overview.liveness import Liveness, described, liveness_of, time_there


@click.command("workers")
@app_argument
@url_option
@json_option
def workers_command(app: str | None, url: str | None, as_json: bool) -> None:
    """List the worker processes that are registered now.

    A worker that was killed stays on the list, as "gone", until another one gives its jobs back.

    With --json: {"workers": [{"name", "host", "pid", "queues", "concurrency", "version", "started_at", "beat",
    "beat_at", "lease_seconds", "lock_path", "running", "state": "alive" | "gone" | "silent"}, …]}.
    """
    with existing(app, url) as jobs:
        workers, now = jobs.workers(), time_there(queue_of(jobs))
    if as_json:
        shown = [{**msgspec.to_builtins(worker), "state": liveness_of(worker, now)} for worker in workers]
        print_json({"workers": shown})
    elif not workers:
        console().print(text(f"no workers; start one with: {work_command_for(app)}"))
    else:
        _print(workers, now)


def _print(workers: list[WorkerInfo], now: datetime) -> None:
    shown = table(
        *("worker", "pid", "state", "queues", "running", "of", "started", "last beat"), right=("pid", "running", "of")
    )
    for worker in workers:
        state = described(worker, now)
        shown.add_row(
            text(worker.name),
            str(worker.pid),
            text(state, "" if state == Liveness.ALIVE else "red"),
            text(worker.queues),
            str(worker.running),
            str(worker.concurrency),
            ago(worker.started_at, now),
            ago(worker.beat_at, now),
        )
    console().print(shown)
