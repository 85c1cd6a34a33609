"""Declare a method once, for sync and async code: `get, aget = both(inspect.get)`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from types import FunctionType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from rowcall.queue import Operation, Queue

P = ParamSpec("P")
T = TypeVar("T", covariant=True)


class HasQueue(Protocol):
    _queue: Queue


class Method(Generic[P, T]):
    """A method whose parameters are those of an operation, except the queue."""

    def __init__(self, function: Callable[..., object], signature: inspect.Signature, doc: str | None) -> None:
        self._function = cast("FunctionType", function)
        self._function.__dict__["__signature__"] = signature
        self._doc = doc

    def __set_name__(self, owner: type, name: str) -> None:
        function = self._function
        function.__module__, function.__name__ = owner.__module__, name
        function.__qualname__ = f"{owner.__qualname__}.{name}"
        if self._doc is not None:
            function.__doc__ = self._doc.format(name[1:])

    def __get__(self, instance: object, owner: type) -> Callable[P, T]:
        """Return the plain method: `help`, `inspect` and documentation tools find its signature and docstring."""
        return self._function.__get__(instance, owner)


def both(
    operation: Callable[Concatenate[Queue, P], Operation[T]], note: str = ""
) -> tuple[Method[P, T], Method[P, Coroutine[Any, Any, T]]]:
    """Return the method that runs an operation, and its async twin. `note` is about the twin alone."""

    @functools.wraps(operation)
    def method(self: HasQueue, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._queue.call(lambda: operation(self._queue, *args, **kwargs))

    @functools.wraps(operation)
    async def twin(self: HasQueue, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._queue.acall(lambda: operation(self._queue, *args, **kwargs))

    signature = _signature(operation)
    return Method(method, signature, None), Method(twin, signature, f"`{{}}`, for async code. {note}".strip())


def _signature(operation: Callable[..., object]) -> inspect.Signature:
    signature = inspect.signature(operation)
    _, *parameters = signature.parameters.values()
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    returned = str(signature.return_annotation).removeprefix("Operation[").removesuffix("]")
    return signature.replace(parameters=[itself, *parameters], return_annotation=returned)
