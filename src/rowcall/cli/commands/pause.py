"""`rowcall pause` and `resume`: stop starting jobs of a queue or a task, and start them again."""

from __future__ import annotations

import click

from rowcall.app import Rowcall
from rowcall.base.text import one_line
from rowcall.cli.command import Answer, queue_command, warn
from rowcall.cli.present.console import show
from rowcall.cli.target import Target
from rowcall.domain.job import EVERY_QUEUE, what_is_paused
from rowcall.overview.formats import moment

_task_option = click.option("--task", metavar="NAME", help="A task, in all queues, instead of a queue.")
_QUEUE = "[QUEUE | '*']"


@queue_command("pause", "Stop starting jobs of a queue or a task.", words=_QUEUE)
@_task_option
def pause_command(target: Target, words: tuple[str, ...], task: str | None) -> Answer:
    """Stop starting jobs of a queue, or of a task, until it is resumed. Running jobs continue.

    An unknown name is paused too, with a warning. '*' pauses every queue, even future ones.

    With --json: {"kind": "queue" | "task", "name", "actor", "at"}: who paused it, and when.
    """
    queue = _named_queue(words, task)
    paused = target.jobs.pause(queue, task=task)
    if queue != EVERY_QUEUE:
        warn(target.unknown_name(queue, task))
    said = f"{what_is_paused(paused.kind, paused.name)} paused by {paused.actor} at {moment(paused.at)} UTC"
    return Answer(paused, lambda: show(one_line(said)))


@queue_command("resume", "Start jobs of a paused queue or task again.", words=_QUEUE)
@_task_option
def resume_command(target: Target, words: tuple[str, ...], task: str | None) -> Answer:
    """Start jobs of a paused queue, or of a paused task, again. Workers are notified at once.

    '*' ends a pause of every queue; queues and tasks that were paused by name stay paused, with a warning.

    With --json: {"kind": "queue" | "task", "name", "was_paused"}. Exit code 1 if it was not paused.
    """
    queue = _named_queue(words, task)
    was_paused = target.jobs.resume(queue, task=task)
    if was_paused or queue != EVERY_QUEUE:
        warn(_still_paused(target.jobs, queue))
    kind, name = ("task", str(task)) if queue is None else ("queue", queue)

    def print_resumed() -> None:
        if was_paused:
            show(one_line(f"{what_is_paused(kind, name)} resumed"))
        else:
            click.echo(one_line(f"error: {kind} {name} is not paused"), err=True)

    return Answer({"kind": kind, "name": name, "was_paused": was_paused}, print_resumed, was_paused)


def _named_queue(words: tuple[str, ...], task: str | None) -> str | None:
    if len(words) > 1:
        raise click.UsageError(f"give one queue, got {', '.join(map(repr, words))}")
    if words and task is not None:
        raise click.UsageError(f"give a queue or --task, not both; got the queue {words[0]!r}")
    if not words and task is None:
        raise click.UsageError("give a queue, or a task with --task")
    return words[0] if words else None


def _still_paused(jobs: Rowcall, queue: str | None) -> str:
    """Return what other pauses a user who resumes something may overlook."""
    paused = [(one.kind, one.name) for one in jobs.paused()]
    if queue == EVERY_QUEUE and paused:
        return f"still paused: {', '.join(what_is_paused(*one) for one in paused)}"
    return "every queue is still paused" if ("queue", EVERY_QUEUE) in paused else ""
