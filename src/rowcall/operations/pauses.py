"""Pause and resume queues and tasks."""

from __future__ import annotations

from rowcall.base.text import one_line
from rowcall.context import logger
from rowcall.domain import checks
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import EVERY_QUEUE, Paused, what_is_paused
from rowcall.operations.arguments import checked_actor
from rowcall.operations.effects import Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.queries.control import PAUSE, PAUSED, RESUME


def pause(
    this: Queue, /, queue: str | None = None, *, task: str | None = None, actor: str | None = None
) -> Operation[Paused]:
    """Start no more jobs of a queue, or of a task, until it is resumed, neither by workers nor by hand.

    Running jobs continue, and waiting ones still expire. Pausing twice has no further effect. The queue `*` means
    every queue, also queues that do not exist yet.

        jobs.pause("mail")
        jobs.pause(task="send_email")
        jobs.pause("*")
    """
    kind, name = _checked_pause(queue, task)
    (paused,) = yield from Write(this.dialect.ask, PAUSE, kind, name, checked_actor(actor))
    logger.info("paused %s, by %s", one_line(what_is_paused(kind, name)), one_line(str(paused.actor)))
    return paused


def resume(
    this: Queue, /, queue: str | None = None, *, task: str | None = None, actor: str | None = None
) -> Operation[bool]:
    """Resume a queue or a task; return whether it was paused.

    `resume("*")` ends `pause("*")`. A queue that was paused by its name stays paused.
    """
    kind, name = _checked_pause(queue, task)
    who = checked_actor(actor)
    was_paused = bool((yield from Write(this.dialect.ask, RESUME, kind, name)))
    if was_paused:
        logger.info("resumed %s, by %s", one_line(what_is_paused(kind, name)), one_line(who))
    return was_paused


def paused(queue: Queue) -> Operation[list[Paused]]:
    """Return the queues and tasks that are paused now, since when, and by whom."""
    return (yield from Read(queue.dialect.ask(PAUSED)))


def _checked_pause(queue: object, task: object) -> tuple[str, str]:
    """Return the kind and the name of what is to be paused or resumed."""
    if queue is not None and task is not None:
        raise InvalidOption("task", f"cannot be combined with the queue {queue!r}; pause or resume one at a time")
    if queue is None and task is None:
        raise InvalidOption("queue", "must be the name of a queue; for a task, pass task=… instead")
    kind, name = ("queue", queue) if queue is not None else ("task", task)
    if task == EVERY_QUEUE:
        raise InvalidOption("task", f"{task!r} is not a task; to pause or resume everything, name the queue {task!r}")
    return kind, checks.name(kind, name)
