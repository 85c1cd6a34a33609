"""A context manager as a middleware of sync and async tasks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import update_wrapper
from typing import Never, TypeVar

from rowcall.context import Context
from rowcall.declare.middleware import AsyncCallNext, CallNext, Middleware

R = TypeVar("R")


def around(manager: Callable[[Context[R]], AbstractContextManager[object]], /) -> Middleware:
    """Return a middleware for sync and async tasks that runs each attempt inside a sync context manager.

        @jobs.middleware
        @around
        @contextmanager
        def in_english(ctx: Context) -> Iterator[None]:
            with translation.override("en"):
                yield

    Around an async handler it is entered and left on the event loop, so it must not wait there.
    """

    def sync(ctx: Context[Never], call_next: CallNext) -> object:
        with manager(ctx):
            return call_next()

    async def asynchronous(ctx: Context[Never], call_next: AsyncCallNext) -> object:
        with manager(ctx):
            return await call_next()

    return Middleware(_named(sync, manager), _named(asynchronous, manager))


F = TypeVar("F", bound=Callable[..., object])


def _named(function: F, manager: Callable[..., object]) -> F:
    """Let errors name what the user wrote, and keep the signature."""
    update_wrapper(function, manager, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    del function.__wrapped__  # type: ignore[attr-defined]
    return function
