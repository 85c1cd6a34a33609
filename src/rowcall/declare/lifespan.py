"""The declared lifespan: a function that opens what handlers need, and closes it when the worker ends."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager

from rowcall.domain.errors import InvalidOption, LifespanFailed

Manager = AbstractContextManager[object] | AbstractAsyncContextManager[object]
LifespanFunction = Callable[[], Iterator[object] | AsyncIterator[object] | Manager]
"""A generator function that yields once, or a function that returns a context manager; sync or async."""

_GENERATOR_PROBLEMS = {
    "generator didn't yield": "it must yield once, and it did not yield",
    "generator didn't stop": "it must yield once, and it yielded again",
}


def name_of(function: Callable[..., object]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def checked_lifespan(function: LifespanFunction, declared: LifespanFunction | None) -> LifespanFunction:
    """Return the function, or raise `InvalidOption`. `declared` is the lifespan that the app already has."""
    if not callable(function):
        raise InvalidOption("lifespan", f"must be a function that yields once, got {function!r}")
    if inspect.iscoroutinefunction(function):
        raise InvalidOption("lifespan", f"must yield once, and {name_of(function)} has no yield")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise InvalidOption("lifespan", f"must be callable without arguments: {name_of(function)}: {error}") from None
    if declared is not None:
        raise InvalidOption(
            "lifespan",
            f"is already declared: {name_of(declared)}; an app has one, which can enter several context managers",
        )
    return function


def manager_of(function: LifespanFunction) -> Manager:
    """Return what to enter, or raise `LifespanFailed`."""
    if inspect.isasyncgenfunction(function):
        return asynccontextmanager(function)()
    if inspect.isgeneratorfunction(function):
        return contextmanager(function)()
    manager = function()
    if not isinstance(manager, AbstractContextManager | AbstractAsyncContextManager):
        raise LifespanFailed(name_of(function), f"it must yield once or return a context manager, got {manager!r}")
    return manager


def failed(name: str, error: BaseException, where: str = "") -> LifespanFailed:
    """Return what the worker ends with when the lifespan has raised `error`."""
    if isinstance(error, LifespanFailed):
        return error
    problem = _GENERATOR_PROBLEMS.get(str(error)) or f"{type(error).__name__}: {error}"
    return LifespanFailed(name, problem + where)
