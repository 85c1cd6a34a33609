"""Assertions about what was enqueued, which print what was enqueued instead."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping

from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job
from rowcall.operations.inspect import get, search
from rowcall.queue import Queue
from rowcall.store.jobs.inspect import LONGEST_PAGE
from rowcall.testing.called_task import AnyTask, CalledTask, called_task

MOST_SHOWN = 20
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def assert_enqueued(task: AnyTask, /, **arguments: object) -> list[Job]:
    """Assert that a job of the task was enqueued with these arguments, and return all such jobs, oldest first.

        assert_enqueued(send_email, to="a@example.com")
        assert_enqueued("send_email", to="a@example.com")

    The task is a task of Rowcall, its name, a task of Django or one of `rowcall.compat.celery`. A name is looked for in
    all queues that are clean. Arguments that are not named may have any value. Jobs count in every state, also after
    they have run.
    """
    __tracebackhide__ = True
    called = called_task(task)
    matching = _matching(called, arguments)
    if not matching:
        raise AssertionError(f"no job was enqueued as {_call(called.name, arguments)}\n{_instead(called.queues)}")
    return matching


def assert_not_enqueued(task: AnyTask, /, **arguments: object) -> None:
    """Assert that no job of the task was enqueued with these arguments, or with any if there are none."""
    __tracebackhide__ = True
    called = called_task(task)
    matching = _matching(called, arguments)
    if matching:
        count = "1 job was" if len(matching) == 1 else f"{len(matching)} jobs were"
        raise AssertionError(f"{count} enqueued as {_call(called.name, arguments)}:\n{_lines(matching)}")


def _matching(called: CalledTask, arguments: Mapping[str, object]) -> list[Job]:
    for name in arguments:
        if called.arguments is not None and name not in called.arguments:
            has = f"it has {', '.join(called.arguments)}" if called.arguments else "it has none"
            raise InvalidOption("arguments", f"{called.name!r} has no argument {name!r}; {has}")
    jobs = [queue.run(get(queue, job)) for queue in called.queues for job in _jobs(queue, type=called.name)]
    return [job for job in jobs if all(_has(called, job, name, value) for name, value in arguments.items())]


def _has(called: CalledTask, job: Job, name: str, value: object) -> bool:
    return any(name in form and form[name] == value for form in called.forms(job))


def _instead(queues: Iterable[Queue]) -> str:
    jobs = [job for queue in queues for job in _jobs(queue)]
    return f"enqueued were:\n{_lines(jobs)}" if jobs else "nothing was enqueued"


def _jobs(queue: Queue, **chosen: str) -> Iterator[Job]:
    cursor: str | None = None
    while True:
        page = queue.run(search(queue, "oldest", LONGEST_PAGE, cursor, None, chosen))
        yield from page.jobs
        cursor = page.next_cursor
        if cursor is None:
            return


def _lines(jobs: list[Job]) -> str:
    lines = [f"  {_call(job.type, job.payload)}  {job.status}, queue {job.queue}" for job in jobs[:MOST_SHOWN]]
    more = len(jobs) - MOST_SHOWN
    return "\n".join([*lines, f"  and {more} more"] if more > 0 else lines)


def _call(task: str, arguments: Mapping[str, object]) -> str:
    return f"{task}({', '.join(f'{name}={_short.repr(value)}' for name, value in arguments.items())})"
