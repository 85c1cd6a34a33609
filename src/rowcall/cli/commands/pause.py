"""`rowcall pause` and `resume`: start nothing of a queue or a task for a while."""

from __future__ import annotations

import difflib
import sys

import click

from rowcall.app import Rowcall
from rowcall.base.text import printable
from rowcall.cli.present.output import console, moment, print_json, text
from rowcall.cli.target import existing, json_option, queue_of, url_option
from rowcall.domain.job import EVERY_QUEUE, what_is_paused

_words = click.argument("words", nargs=-1, metavar="[APP] [QUEUE | '*']")
_task_option = click.option("--task", metavar="NAME", help="This task in all queues, instead of a queue.")


@click.command("pause", short_help="Start no more jobs of a queue or a task.")
@_words
@_task_option
@url_option
@json_option
def pause_command(words: tuple[str, ...], task: str | None, url: str | None, as_json: bool) -> None:
    """Start no more jobs of a queue, or of a task, until it is resumed. What runs goes on. A name that nobody knows yet
    is paused too, with a warning. '*' pauses every queue, also those that do not exist yet.

    With --json: {"kind": "queue" | "task", "name", "actor", "at"}: who has paused it, and when.
    """
    app, queue = _named(words, task, url)
    with existing(app, url) as jobs:
        paused = jobs.pause(queue, task=task)
        doubt = _doubt(jobs, app, queue, task)
    if doubt:
        click.echo(f"warning: {printable(doubt)}", err=True)
    if as_json:
        print_json(paused)
    else:
        said = f"{what_is_paused(paused.kind, paused.name)} is paused, by {paused.actor} at {moment(paused.at)} UTC"
        console().print(text(said))


@click.command("resume", short_help="Go on with a queue or a task that was paused.")
@_words
@_task_option
@url_option
@json_option
def resume_command(words: tuple[str, ...], task: str | None, url: str | None, as_json: bool) -> None:
    """Go on with a queue, or with a task; workers learn it at once. '*' ends a pause of every queue; what was paused by
    its name stays paused, with a warning.

    With --json: {"kind": "queue" | "task", "name", "was_paused"}. Exit code 1 if it was not paused.
    """
    app, queue = _named(words, task, url)
    with existing(app, url) as jobs:
        was_paused = jobs.resume(queue, task=task)
        doubt = _still_paused(jobs, queue) if was_paused or queue != EVERY_QUEUE else ""
    kind, name = ("task", str(task)) if queue is None else ("queue", queue)
    if as_json:
        print_json({"kind": kind, "name": name, "was_paused": was_paused})
    elif was_paused:
        console().print(text(f"{what_is_paused(kind, name)} goes on"))
    else:
        click.echo(f"error: {kind} {printable(name)} was not paused", err=True)
    if doubt:
        click.echo(f"warning: {printable(doubt)}", err=True)
    if not was_paused:
        sys.exit(1)


def _still_paused(jobs: Rowcall, queue: str | None) -> str:
    """Return what other pauses a user who resumes something may overlook."""
    paused = [(one.kind, one.name) for one in jobs.paused()]
    if queue == EVERY_QUEUE and paused:
        return f"still paused: {', '.join(what_is_paused(*one) for one in paused)}"
    return "every queue is still paused" if ("queue", EVERY_QUEUE) in paused else ""


def _doubt(jobs: Rowcall, app: str | None, queue: str | None, task: str | None) -> str:
    """What is said of a name that neither the app nor any job has: it may be misspelt."""
    if queue == EVERY_QUEUE or jobs.list(queue=queue, type=task, limit=1).jobs:
        return ""
    if app is None:
        return f"no job is in queue {queue!r} yet" if task is None else f"there is no job of task {task!r} yet"
    if task is not None:
        known, said = set(queue_of(jobs).tasks), f"{app} declares no task {task!r}"
    else:
        core = queue_of(jobs)
        known = {task.options.queue or core.config.default_queue for task in core.tasks.values()}
        said = f"no task of {app} has queue {queue!r}, and no job is in it"
    name = task or queue or ""
    close = difflib.get_close_matches(name, known, 1)
    return "" if name in known else f"{said}; did you mean {close[0]!r}?" if close else said


def _named(words: tuple[str, ...], task: str | None, url: str | None) -> tuple[str | None, str | None]:
    """The app, if it is named, and the queue."""
    app = words[0] if words and ":" in words[0] and url is None else None
    names = words[1:] if app is not None else words
    if len(names) > 1:
        raise click.UsageError(f"one at a time: {names[1]!r} is one too many")
    if names and task is not None:
        raise click.UsageError(f"both a queue, {names[0]!r}, and --task were given, and only one can be")
    if not names and task is None:
        raise click.UsageError("name a queue, or a task with --task")
    return app, names[0] if names else None
