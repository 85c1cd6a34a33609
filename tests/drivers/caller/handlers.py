"""Handlers that complete their jobs on a caller's connection, and what became of those jobs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rowcall import Backoff, Context, Job
from rowcall.domain.job import Summary
from rowcall.task import ContextTask
from tests.drivers.caller.callers.base import Caller, drive
from tests.drivers.caller.queue_site import Case

Body = Callable[[Context, Caller], Coroutine[Any, Any, None]]


def handler_of(case: Case, body: Body, *, max_attempts: int = 1, **options: Any) -> ContextTask[[], None]:
    """A task of the test's own, whose handler opens a connection of the test's kind."""

    async def work(ctx: Context) -> None:
        async with case.kind.opened(case.site.database) as mine:
            try:
                await body(ctx, mine)
            except (AssertionError, pytest.fail.Exception) as error:
                case.troubles.append(error)
                raise

    async def handled_on_the_loop(ctx: Context) -> None:
        await work(ctx)

    def handled_in_a_thread(ctx: Context) -> None:
        drive(work(ctx))

    declare = case.jobs.task(
        name=case.queue, queue=case.queue, max_attempts=max_attempts, retry=Backoff.constant(0), **options
    )
    if case.kind.is_async:
        task: Any = declare(handled_on_the_loop)
    else:
        task = declare(handled_in_a_thread)
    return task  # type: ignore[no-any-return]


def handled(case: Case, body: Body, *, max_attempts: int = 1) -> tuple[Job, Summary]:
    """The job after all its attempts."""
    task = handler_of(case, body, max_attempts=max_attempts)
    job = task.enqueue()
    summary = case.jobs.drain(queues=[case.queue])
    for trouble in case.troubles:  # of the test's own, and not only the end of an attempt
        raise trouble
    return case.jobs.get(job.id), summary


def codes_of(case: Case, job: Job) -> list[str | None]:
    return [attempt.error_code for attempt in case.jobs.attempts(job.id)]
