"""`rowcall events`: what happens to jobs, one line for each event, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from itertools import islice
from typing import Any

import click

from rowcall.base.text import one_line
from rowcall.cli.command import Answer, given_options, local_option, queue_command, warn
from rowcall.cli.present.console import print_json, show
from rowcall.cli.processes import interruptible
from rowcall.cli.target import Target
from rowcall.domain.job import JobEvent
from rowcall.overview.formats import moment
from rowcall.overview.scrub import scrubbed


@queue_command("events", "Print what happens to jobs, as it happens.")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--task", metavar="NAME", help="Only jobs of this task.")
@click.option("--id", type=click.IntRange(min=1), metavar="ID", help="Only this job.")
@click.option(
    "--kind", multiple=True, metavar="WORD", help="Only this kind, such as FAILED; may be given several times."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="End after N events.")
@local_option
def events_command(target: Target, limit: int | None, zone: tzinfo | None, **filters: Any) -> Answer:
    """Print what happens to jobs from now on, in any process, until Ctrl-C.

    Each event is printed at most once; MISSED says that some were missed.

    With --json: {"at", "event", "actor", "detail", "job_id", "type", "queue"}, one object on each line.
    """
    warn(target.unknown_name(filters["queue"], filters["task"]))
    follow = partial(_follow, target, given_options(filters), limit)
    return Answer(partial(follow, print_json), partial(follow, partial(_show, zone)))


def _follow(target: Target, filters: dict[str, Any], limit: int | None, put: Callable[[JobEvent], None]) -> None:
    try:
        with interruptible(), target.jobs, target.jobs.events(**filters) as events:
            for event in islice(events, limit):
                put(scrubbed(target.queue.declared.failures, event))
    except KeyboardInterrupt:
        pass  # the way to leave


def _show(zone: tzinfo | None, event: JobEvent) -> None:
    about = "" if event.job_id is None else f" job {event.job_id} {event.type} in {event.queue}"
    by = "" if event.actor is None else f" by {event.actor}"
    detail = "" if event.detail is None else f": {event.detail}"
    show(one_line(f"{moment(event.at, zone)} {event.event}{about}{by}{detail}"), wrap=False)
