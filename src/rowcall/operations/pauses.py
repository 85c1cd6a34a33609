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


def pause(queue: Queue, queue_name: str | None, task: str | None, actor: str | None) -> Operation[Paused]:
    kind, name = _checked_pause(queue_name, task)
    (paused,) = yield from Write(queue.dialect.ask, PAUSE, queue.now_ms(), kind, name, checked_actor(actor))
    logger.info("paused %s, by %s", one_line(what_is_paused(kind, name)), one_line(str(paused.actor)))
    return paused


def resume(queue: Queue, queue_name: str | None, task: str | None, actor: str | None) -> Operation[bool]:
    kind, name = _checked_pause(queue_name, task)
    who = checked_actor(actor)
    was_paused = bool((yield from Write(queue.dialect.ask, RESUME, kind, name)))
    if was_paused:
        logger.info("resumed %s, by %s", one_line(what_is_paused(kind, name)), one_line(who))
    return was_paused


def paused(queue: Queue) -> Operation[list[Paused]]:
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
