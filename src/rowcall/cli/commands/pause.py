"""`rowcall pause`: start no more jobs of a queue or a task."""

from __future__ import annotations

import click

from rowcall.base.text import one_line
from rowcall.cli.command import Answer, queue_command
from rowcall.cli.present.console import show
from rowcall.cli.target import Target
from rowcall.cli.unknown_names import unknown_name
from rowcall.domain.job import EVERY_QUEUE, what_is_paused
from rowcall.overview.formats import moment

task_option = click.option("--task", metavar="NAME", help="This task in all queues, instead of a queue.")
QUEUE_WORDS = "[QUEUE | '*']"


@queue_command("pause", "Start no more jobs of a queue or a task.", words=QUEUE_WORDS)
@task_option
def command(target: Target, words: tuple[str, ...], task: str | None) -> Answer:
    """Start no more jobs of a queue, or of a task, until it is resumed. Running jobs continue.

    An unknown name is paused too, with a warning. '*' pauses every queue, even future ones.

    With --json: {"kind": "queue" | "task", "name", "actor", "at"}: who paused it, and when.
    """
    queue = named_queue(words, task)
    paused = target.jobs.pause(queue, task=task)
    if queue != EVERY_QUEUE and (doubt := unknown_name(target, queue, task)):
        warn(doubt)
    said = f"{what_is_paused(paused.kind, paused.name)} paused by {paused.actor} at {moment(paused.at)} UTC"
    return Answer(paused, lambda: show(one_line(said)))


def named_queue(words: tuple[str, ...], task: str | None) -> str | None:
    if len(words) > 1:
        raise click.UsageError(f"give one queue, got {', '.join(map(repr, words))}")
    if words and task is not None:
        raise click.UsageError(f"give a queue or --task, not both; got the queue {words[0]!r}")
    if not words and task is None:
        raise click.UsageError("give a queue, or a task with --task")
    return words[0] if words else None


def warn(doubt: str) -> None:
    click.echo(f"warning: {one_line(doubt)}", err=True)
