"""Pause queues and tasks, so that no more of their jobs are started, and resume them."""

from __future__ import annotations

from rowcall.base.text import one_line
from rowcall.context import logger
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import EVERY_QUEUE, Paused, what_is_paused
from rowcall.domain.names import name_problem
from rowcall.operations.arguments import checked_actor
from rowcall.operations.steps import Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.control.queries import PAUSE, PAUSED, RESUME


def pause(queue: Queue, queue_name: str | None, task: str | None, actor: str | None) -> Operation[Paused]:
    kind, name = _checked(queue_name, task)
    (paused,) = yield from Write(queue.dialect.ask, PAUSE, queue.now_ms(), kind, name, checked_actor(actor))
    logger.info("paused %s, by %s", one_line(what_is_paused(kind, name)), one_line(str(paused.actor)))
    return paused


def resume(queue: Queue, queue_name: str | None, task: str | None, actor: str | None) -> Operation[bool]:
    kind, name = _checked(queue_name, task)
    who = checked_actor(actor)
    was_paused = bool((yield from Write(queue.dialect.ask, RESUME, kind, name)))
    if was_paused:
        logger.info("resumed %s, by %s", one_line(what_is_paused(kind, name)), one_line(who))
    return was_paused


def paused(queue: Queue) -> Operation[list[Paused]]:
    return (yield from Read(queue.dialect.ask(PAUSED)))


def _checked(queue: object, task: object) -> tuple[str, str]:
    """Return the kind and the name of what is to be paused or resumed."""
    if (queue is None) == (task is None):
        raise InvalidOption("queue", "must be the name of a queue; for a task, pass task=… instead")
    kind, name = ("queue", queue) if queue is not None else ("task", task)
    if task == EVERY_QUEUE:
        raise InvalidOption("task", f"{task!r} is not a task; to pause or resume everything, name the queue {task!r}")
    if problem := name_problem(name):
        raise InvalidOption(kind, problem)
    return kind, str(name)
