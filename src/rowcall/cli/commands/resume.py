"""`rowcall resume`: start jobs of a paused queue or task again."""

from __future__ import annotations

import click

from rowcall.app import Rowcall
from rowcall.base.text import one_line
from rowcall.cli.command import Answer, queue_command
from rowcall.cli.commands.pause import QUEUE_WORDS, named_queue, task_option, warn
from rowcall.cli.present.console import show
from rowcall.cli.target import Target
from rowcall.domain.job import EVERY_QUEUE, what_is_paused


@queue_command("resume", "Start jobs of a paused queue or task again.", words=QUEUE_WORDS)
@task_option
def command(target: Target, words: tuple[str, ...], task: str | None) -> Answer:
    """Start jobs of a paused queue, or of a paused task, again. Workers are notified at once.

    '*' ends a pause of every queue; queues and tasks that were paused by name stay paused, with a warning.

    With --json: {"kind": "queue" | "task", "name", "was_paused"}. Exit code 1 if it was not paused.
    """
    queue = named_queue(words, task)
    was_paused = target.jobs.resume(queue, task=task)
    if (was_paused or queue != EVERY_QUEUE) and (doubt := _still_paused(target.jobs, queue)):
        warn(doubt)
    kind, name = ("task", str(task)) if queue is None else ("queue", queue)

    def _show() -> None:
        if was_paused:
            show(one_line(f"{what_is_paused(kind, name)} resumed"))
        else:
            click.echo(one_line(f"error: {kind} {name} is not paused"), err=True)

    return Answer({"kind": kind, "name": name, "was_paused": was_paused}, _show, was_paused)


def _still_paused(jobs: Rowcall, queue: str | None) -> str:
    """Return what other pauses a user who resumes something may overlook."""
    paused = [(one.kind, one.name) for one in jobs.paused()]
    if queue == EVERY_QUEUE and paused:
        return f"still paused: {', '.join(what_is_paused(*one) for one in paused)}"
    return "every queue is still paused" if ("queue", EVERY_QUEUE) in paused else ""
