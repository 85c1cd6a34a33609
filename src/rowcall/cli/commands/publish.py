"""`rowcall publish`: enqueue one job for each task that runs on an event."""

from __future__ import annotations

from typing import Any

import click

from rowcall.cli.command import Answer, given_options, queue_command, typed_object, typed_seconds, typed_time
from rowcall.cli.commands.enqueue import described
from rowcall.cli.commands.jobs import job_as_json
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import text
from rowcall.cli.target import Target, find


def _event_and_arguments(words: tuple[str, ...]) -> tuple[str, dict[str, object]]:
    if not 1 <= len(words) <= 2:
        raise click.UsageError("give APP, an event, and its arguments as one JSON object")
    return words[0], typed_object(words[1]) if len(words) == 2 else {}


@queue_command(
    "publish",
    "Enqueue jobs of the tasks that run on an event.",
    words="EVENT [JSON]",
    parse=_event_and_arguments,
    opened=find,
)
@click.option("--delay", type=typed_seconds, metavar="DURATION", help="Run the jobs so much later: 90s, 5m, 1h, 2d.")
@click.option("--run-at", type=typed_time, metavar="TIME", help="Run the jobs at this time.")
@click.option("--priority", type=int, metavar="N", help="Higher priorities run first.")
@click.option("--key", metavar="KEY", help="Enqueue no task that has an unfinished job with this key.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Add a tag; may be given several times.")
def publish_command(target: Target, words: tuple[str, dict[str, object]], **options: Any) -> Answer:
    """Enqueue one job for each task of APP that runs on an event, all in one transaction.

    The arguments are a JSON object: rowcall publish app:jobs order.paid '{"order_id": 7}'

    With --json: {"jobs": [{"id", "type", "queue", "payload", "status", …, "duplicate"}, …]}.
    """
    event, arguments = words
    published = target.jobs.publish(event, arguments, **given_options(options))
    data = {"jobs": [{**job_as_json(job), "duplicate": job.duplicate} for job in published]}

    def print_jobs() -> None:
        for job in published:
            show(text(described(job)))

    return Answer(data, print_jobs)
