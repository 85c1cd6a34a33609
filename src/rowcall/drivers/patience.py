"""How long a call waits for a server that does not reply, in multiples of `busy_timeout`.

A server whose disk stalls, or whose processes are stopped, still acknowledges TCP: without a limit, a call would wait
as long as that lasts.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from rowcall.base.effects import Effects

P = ParamSpec("P")
W = TypeVar("W")
T = TypeVar("T")

UPKEEP = 2.0
"""For a worker, whose statements may be about many jobs."""
OVERVIEW = 12.0
"""For statements that count rows."""
UNLIMITED = math.inf
"""For statements that go through any number of rows."""
ROWS_IN_TIME = 10_000
"""How many rows a statement writes within one `busy_timeout`, even on a slow disk."""

_factor = ContextVar("rowcall_patience", default=1.0)


def current_patience() -> float:
    return _factor.get()


@contextlib.contextmanager
def patience(factor: float) -> Iterator[None]:
    """Wait longer for replies, in this block and this thread or task."""
    token = _factor.set(factor)
    try:
        yield
    finally:
        _factor.reset(token)


def patience_for(rows: int) -> AbstractContextManager[None]:
    """Wait longer for replies, in this block, as its statements may write this many rows."""
    return patience(current_patience() + rows // ROWS_IN_TIME)


def with_patience(
    factor: float,
) -> Callable[[Callable[P, Effects[W, T]]], Callable[P, Effects[W, T]]]:
    """Decorate an operation that waits longer for replies."""

    def decorate(operation: Callable[P, Effects[W, T]]) -> Callable[P, Effects[W, T]]:
        @functools.wraps(operation)
        def patient(*args: P.args, **kwargs: P.kwargs) -> Effects[W, T]:
            with patience(factor):
                return (yield from operation(*args, **kwargs))

        return patient

    return decorate


def same_patience(call: Callable[[], T]) -> Callable[[], T]:
    """Return the call for another thread, which waits there as long as it would here."""
    factor = current_patience()

    def patient() -> T:
        with patience(factor):
            return call()

    return patient
