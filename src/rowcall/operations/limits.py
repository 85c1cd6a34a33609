"""Levers: change limits while jobs run, without a deploy."""

from __future__ import annotations

from datetime import timedelta

from rowcall.base.text import one_line
from rowcall.context import logger
from rowcall.domain.checks import checked_text, name_problem
from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.limits import LONGEST_NAME, LimitChange, LimitInfo, Numbers, numbers_text
from rowcall.operations.arguments import checked_actor, checked_limit
from rowcall.operations.effects import Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.limits.audit import MOST_AUDITED
from rowcall.store.limits.levers import NewNumbers, read_limits, reset_numbers, set_numbers
from rowcall.store.queries.limits import AUDITED


def set_limit(
    queue: Queue,
    name: str,
    *,
    concurrency: int | None = None,
    rate: int | None = None,
    per: float | timedelta | None = None,
    actor: str | None = None,
) -> Operation[LimitInfo]:
    """Replace the numbers of a limit, for all workers at once, until `reset_limit`. What is not given stays.

    They replace the numbers that tasks declare and that rows of jobs have. Running jobs continue.
    `LimitNotFound` if no worker has published such a limit, this process does not declare it, and no job is under it.

    >>> jobs.set_limit("stripe", concurrency=5, rate=100, per=60)  # doctest: +SKIP
    """
    name, who = _checked_name(name), checked_actor(actor)
    if concurrency is None and rate is None and per is None:
        raise InvalidOption("limit", "needs concurrency=…, or rate=… and per=…; reset_limit(…) ends a change")
    seconds = None if per is None else seconds_of("per", per)
    new = NewNumbers(concurrency, rate, seconds)
    new.over(name, Numbers(1, 1, 1000))  # wrong numbers are refused before anything is read
    declared = queue.declared.limits.known
    yield from Write(set_numbers, queue.dialect, name, new, declared, who)
    changed = yield from limit(queue, name)
    numbers = Numbers(changed.concurrency, changed.rate, None if changed.per is None else round(changed.per * 1000))
    logger.info("limit %s is now %s, set by %s", one_line(name), numbers_text(numbers), one_line(who))
    return changed


def reset_limit(queue: Queue, name: str, *, actor: str | None = None) -> Operation[bool]:
    """Let the declared numbers of a limit count again, and end its holds; return whether there was any of both.

    >>> jobs.reset_limit("stripe")  # doctest: +SKIP
    True
    """
    name, who = _checked_name(name), checked_actor(actor)
    was_set = yield from Write(reset_numbers, queue.dialect, name, queue.declared.limits.known, who)
    if was_set:
        logger.info("limit %s was reset by %s", one_line(name), one_line(who))
    return was_set


def limits(queue: Queue) -> Operation[list[LimitInfo]]:
    """Return all limits by name: their numbers, what is used, and how many jobs wait for them.

    >>> [(one.name, one.running, one.waiting) for one in jobs.limits()]  # doctest: +SKIP
    [('stripe', 5, 199)]
    """
    return (yield from Read(read_limits(queue.dialect, queue.declared.limits.numbers), snapshot=True))


def limit_changes(queue: Queue, *, limit: int = 50) -> Operation[list[LimitChange]]:
    """Return the last changes of limits, newest first: who set or reset which, and which jobs held one."""
    return (yield from Read(queue.dialect.ask(AUDITED, checked_limit(limit, MOST_AUDITED))))


def limit(queue: Queue, name: str) -> Operation[LimitInfo]:
    found = yield from limits(queue)
    return next((one for one in found if one.name == name), LimitInfo(name=name))


def _checked_name(name: object) -> str:
    problem = name_problem(name, LONGEST_NAME)
    return checked_text("limit", name, None if problem is None else f"the name {problem}")
