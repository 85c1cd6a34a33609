"""Run jobs where they are enqueued, before `enqueue` returns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from rowcall.app import Rowcall, queue_of
from rowcall.domain.errors import InvalidOption
from rowcall.worker.inline import Inline


@contextmanager
def inline(*apps: Rowcall) -> Iterator[None]:
    """Run jobs as soon as they are enqueued, inside `clean_queue`. What a handler raises, `enqueue` raises.

        with clean_queue(jobs), inline(jobs):
            assert double.enqueue(21).result == 42

    A job with a delay runs when the clock is moved there. The jobs of a `jobs.transaction()` run at its end.
    """
    for jobs in apps:
        if not queue_of(jobs).is_swapped:
            raise InvalidOption("apps", f"{jobs!r} uses its own database: use inline inside clean_queue")
    with ExitStack() as stack:
        for jobs in apps:
            drain, adrain = partial(jobs.drain, raise_errors=True), partial(jobs.adrain, raise_errors=True)
            stack.enter_context(Inline(queue_of(jobs), drain, adrain).on())
        yield
