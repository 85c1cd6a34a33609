"""Assertions about what was enqueued, which print what was enqueued instead."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping

import msgspec

from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job
from rowcall.domain.payload import PayloadUnfit
from rowcall.operations.inspect import get, list_jobs
from rowcall.queue import Queue
from rowcall.store.jobs.inspect import LONGEST_PAGE
from rowcall.task import BaseTask

MOST_SHOWN = 20
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
AnyTask = BaseTask[..., object]


def assert_enqueued(task: AnyTask, /, **arguments: object) -> list[Job]:
    """Assert that a job of the task was enqueued with these arguments, and return all such jobs, oldest first.

        assert_enqueued(send_email, to="a@example.com")

    Arguments that are not named may have any value. Jobs count in every state, also after they have run.
    """
    __tracebackhide__ = True
    found = _matching(task, arguments)
    if not found:
        raise AssertionError(f"no job was enqueued as {_call(task.name, arguments)}\n{_instead(task._queue)}")
    return found


def assert_not_enqueued(task: AnyTask, /, **arguments: object) -> None:
    """Assert that no job of the task was enqueued with these arguments, or with any if there are none."""
    __tracebackhide__ = True
    found = _matching(task, arguments)
    if found:
        count = "1 job was" if len(found) == 1 else f"{len(found)} jobs were"
        raise AssertionError(f"{count} enqueued as {_call(task.name, arguments)}:\n{_lines(found)}")


def _matching(task: AnyTask, arguments: Mapping[str, object]) -> list[Job]:
    if not isinstance(task, BaseTask):
        raise InvalidOption("task", f"must be a task, such as the function under @jobs.task, got {task!r}")
    known = task._declared.arguments.names
    for name in arguments:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InvalidOption("arguments", f"{task.name!r} has no argument {name!r}; {has}")
    jobs = (task._queue.run(get(task._queue, job)) for job in _jobs(task._queue, type=task.name))
    return [job for job in jobs if all(_has(task, job, name, value) for name, value in arguments.items())]


def _has(task: AnyTask, job: Job, name: str, value: object) -> bool:
    """Compare with the JSON value, and with what the handler gets."""
    declared = task._declared.arguments
    stored = job.payload.get(name, declared.value_if_missing(name))
    return stored == value or _decoded(task, job).get(name, stored) == value


def _decoded(task: AnyTask, job: Job) -> dict[str, object]:
    arguments = task._declared.arguments
    try:
        positional, named = arguments.from_json(msgspec.json.encode(job.payload).decode())
    except PayloadUnfit:
        return {}
    return dict(zip(arguments.names, positional, strict=False)) | named


def _instead(queue: Queue) -> str:
    jobs = list(_jobs(queue))
    return f"enqueued were:\n{_lines(jobs)}" if jobs else "nothing was enqueued"


def _jobs(queue: Queue, **chosen: str) -> Iterator[Job]:
    cursor: str | None = None
    while True:
        page = queue.run(list_jobs(queue, "oldest", LONGEST_PAGE, cursor, None, chosen))
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
