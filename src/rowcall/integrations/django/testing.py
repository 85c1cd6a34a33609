"""For tests of Django apps: run the jobs that a test has enqueued, at the end of its request or at once."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from django.db import DatabaseError, connections, transaction
from django.utils.module_loading import autodiscover_modules

from rowcall.app import queue_of
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Summary
from rowcall.integrations.django.connection import in_thread
from rowcall.integrations.django.queue import jobs
from rowcall.integrations.django.site import alias, is_testing
from rowcall.testing.calling_thread import CallingThreadWorker
from rowcall.testing.inline import Inline


def run_jobs(*, raise_errors: bool = True) -> Summary:
    """Run all jobs that are due now, in this thread and inside the test's transaction. Return how their attempts ended.

        def test_an_order_is_confirmed(self):
            self.client.post("/orders", {"item": "book"})
            run_jobs()
            self.assertEqual(len(mail.outbox), 1)

    An exception of a handler is raised here, after its attempt was settled; with `raise_errors=False`, the job fails or
    waits for its retry, as usual.
    """
    if not is_testing():
        raise InvalidOption("run_jobs", "works only in Django's tests; elsewhere call jobs.drain()")
    autodiscover_modules("tasks")
    return _drain(raise_errors=raise_errors)


@contextlib.contextmanager
def immediate(*, raise_errors: bool = True) -> Iterator[None]:
    """Run jobs as soon as they are enqueued, inside the block or the decorated test.

        @immediate()
        def test_an_order_is_confirmed(self):
            self.client.post("/orders", {"item": "book"})
            self.assertEqual(len(mail.outbox), 1)

    A job runs even before the `atomic()` block ends that enqueues it. What its handler raises, `enqueue` raises; with
    `raise_errors=False`, the job fails or waits for its retry.
    """
    if not is_testing():
        raise InvalidOption("immediate", "works only in Django's tests")
    drain = partial(_drain, raise_errors=raise_errors)
    with Inline(queue_of(jobs), drain, partial(in_thread, drain)).on():
        yield


def _drain(*, raise_errors: bool) -> Summary:
    return CallingThreadWorker(queue_of(jobs), _run_async, _kept_usable).drain(raise_errors=raise_errors)


def _run_async(coroutine: Coroutine[Any, Any, object]) -> object:
    async def wait() -> object:
        return await coroutine

    return async_to_sync(wait)()  # its database calls come back to this thread


@contextlib.contextmanager
def _kept_usable() -> Iterator[None]:
    """Keep the test's transaction usable after a database error, which outside of tests breaks none."""
    connection = connections[alias()]
    if not connection.in_atomic_block:
        yield
        return
    savepoint = connection.savepoint()
    try:
        yield
    except BaseException as error:
        if connection.needs_rollback or isinstance(error, DatabaseError):
            transaction.set_rollback(False, using=alias())
            connection.savepoint_rollback(savepoint)
        raise
