"""Middleware: functions around the call of a handler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Never

from rowcall.context import Context, current
from rowcall.declare.lifespan import name_of
from rowcall.domain.errors import InvalidOption

CallNext = Callable[[], object]
"""What a sync middleware calls: the next middleware, or the handler."""
AsyncCallNext = Callable[[], Coroutine[object, object, object]]
"""What an async middleware calls and awaits."""
MiddlewareFunction = Callable[[Context[Never], AsyncCallNext], object]
"""Sync or async. The type fits functions that take a `CallNext`, and any `Context[Resources]`."""
Handler = Callable[..., object]


class Middleware:
    """Two functions, for sync and for async tasks: what an app with both kinds of tasks registers.

    jobs.middleware(Middleware(measure, ameasure))
    """

    def __init__(self, sync: MiddlewareFunction, asynchronous: MiddlewareFunction) -> None:
        if is_async(_checked("sync", sync)):
            raise InvalidOption("sync", f"must be a plain function, and {name_of(sync)} is async")
        if not is_async(_checked("asynchronous", asynchronous)):
            raise InvalidOption("asynchronous", f"must be an async function, and {name_of(asynchronous)} is not")
        self.sync = sync
        self.asynchronous = asynchronous

    def __repr__(self) -> str:
        return f"<middleware {name_of(self.sync)}>"


AnyMiddleware = MiddlewareFunction | Middleware


def is_async(function: Callable[..., object]) -> bool:
    """Return whether calling it returns a coroutine, as its definition says."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )


def checked_middleware(option: str, value: object) -> AnyMiddleware:
    """Return one middleware, or raise `InvalidOption`."""
    return value if isinstance(value, Middleware) else _checked(option, value)


def checked_several(option: str, value: object) -> tuple[AnyMiddleware, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidOption(option, f"must be a list of functions, got {value!r}")
    return tuple(checked_middleware(option, one) for one in value)


def _checked(option: str, value: object) -> MiddlewareFunction:
    if not callable(value):
        raise InvalidOption(option, f"must be a function such as `def timed(ctx, call_next)`, got {value!r}")
    if inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        raise InvalidOption(
            option,
            f"must call its second argument, and {name_of(value)} yields; for a context manager use"
            " rowcall.middleware.around",
        )
    try:
        inspect.signature(value).bind(None, None)
    except TypeError as error:
        raise InvalidOption(option, f"must take ctx and call_next: {name_of(value)}: {error}") from None
    return value


def chained(task: str, handler: Handler, middleware: Sequence[AnyMiddleware], *, for_async: bool) -> Handler:
    """Return a call of the handler within all of them, the first one outermost. Without any, return the handler."""
    for one in reversed(middleware):
        handler = _linked(_function_for(task, one, for_async=for_async), handler)
    return handler


def _function_for(task: str, middleware: AnyMiddleware, *, for_async: bool) -> MiddlewareFunction:
    if isinstance(middleware, Middleware):
        return middleware.asynchronous if for_async else middleware.sync
    if is_async(middleware) is for_async:
        return middleware
    kind, wrong = ("async", "sync") if for_async else ("sync", "async")
    raise InvalidOption(
        "middleware",
        f"{name_of(middleware)} is {wrong}, and the task {task!r} is {kind}; write one function for each kind, and"
        " combine them: rowcall.middleware.Middleware(sync, asynchronous)",
    )


def _linked(middleware: MiddlewareFunction, inner: Handler) -> Handler:
    def call(*args: object, **kwargs: object) -> object:
        return middleware(current(), _Next(middleware, inner, args, kwargs))  # type: ignore[arg-type]

    return call


class _Next:
    """Calls the next middleware or the handler, once."""

    __slots__ = ("_args", "_inner", "_kwargs", "_middleware")

    def __init__(
        self, middleware: MiddlewareFunction, inner: Handler, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        self._middleware = middleware
        self._inner: Handler | None = inner
        self._args = args
        self._kwargs = kwargs

    def __call__(self) -> object:
        inner = self._inner
        if inner is None:
            raise RuntimeError(
                f"middleware {name_of(self._middleware)} called call_next twice; an attempt calls its handler once:"
                " raise Retry for another attempt"
            )
        self._inner = None
        return inner(*self._args, **self._kwargs)
