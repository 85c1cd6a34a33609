"""Calls of handlers whose dependencies are filled in: made before the handler is called, removed after it has ended.

Each dependency is a layer around the next one, so nothing but the dependencies themselves is left to do in an attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, cast

from rowcall.context import Attempted, running
from rowcall.declare.dependencies import Dependency, DependencyKind, Graph
from rowcall.declare.middleware import Handler

Values = list[object]
Arguments = tuple[tuple[object, ...], dict[str, object]]
Layer = Callable[[Attempted, Values, Arguments], object]
"""Called with the values of the dependencies so far, and the arguments of the handler. Async if the handler is."""
AsyncLayer = Callable[[Attempted, Values, Arguments], Awaitable[object]]
Make = Callable[[Attempted, Values], object]


def injected(handler: Handler, graph: Graph, *, for_async: bool) -> Handler:
    """Return a call that fills in the parameters. Without dependencies, return the handler."""
    if not graph.parameters:
        return handler
    layer = _filling(handler, graph)
    for node in reversed(graph.nodes):
        layer = _around(node, layer, for_async=for_async)

    def call(*args: object, **kwargs: object) -> object:
        return layer(running.get(), [], (args, kwargs))

    async def acall(*args: object, **kwargs: object) -> object:
        return await cast("Awaitable[object]", layer(running.get(), [], (args, kwargs)))

    return acall if for_async else call


def _filling(handler: Handler, graph: Graph) -> Layer:
    """Return the innermost layer, which calls the handler."""
    parameters = graph.parameters

    def call(attempt: Attempted, values: Values, arguments: Arguments) -> object:
        args, kwargs = arguments
        for name, index in parameters:
            kwargs[name] = values[index]
        return handler(*args, **kwargs)

    return call


def _around(node: Dependency, inner: Layer, *, for_async: bool) -> Layer:
    make = _maker(node)
    if node.scope == "worker" or node.kind is DependencyKind.VALUE:
        return _with_value(make, inner)
    if node.kind is DependencyKind.COROUTINE:
        return _with_awaited(make, cast("AsyncLayer", inner))
    if for_async:
        wrap = _Manager if node.kind is DependencyKind.MANAGER else _AsyncManager
        return _with_async_manager(make, cast("AsyncLayer", inner), wrap)
    return _with_manager(make, inner)


def _maker(node: Dependency) -> Make:
    """Return what makes a dependency of the values before it."""
    make, context, needs = node.make, node.context, node.needs
    if node.scope == "worker":
        return lambda attempt, values: _held(node, attempt)
    if context is None and not needs:
        return lambda attempt, values: make()

    def call(attempt: Attempted, values: Values) -> object:
        arguments = {name: values[index] for name, index in needs}
        if context is not None:
            arguments[context] = attempt.context
        return make(**arguments)

    return call


def _with_value(make: Make, inner: Layer) -> Layer:
    def call(attempt: Attempted, values: Values, arguments: Arguments) -> object:
        values.append(make(attempt, values))
        return inner(attempt, values, arguments)

    return call


def _with_awaited(make: Make, inner: AsyncLayer) -> AsyncLayer:
    async def call(attempt: Attempted, values: Values, arguments: Arguments) -> object:
        values.append(await cast("Awaitable[object]", make(attempt, values)))
        return await inner(attempt, values, arguments)

    return call


def _with_manager(make: Make, inner: Layer) -> Layer:
    def call(attempt: Attempted, values: Values, arguments: Arguments) -> object:
        with _Manager(make(attempt, values)) as made:
            values.append(made)
            return inner(attempt, values, arguments)

    return call


def _with_async_manager(make: Make, inner: AsyncLayer, wrap: type[_Manager] | type[_AsyncManager]) -> AsyncLayer:
    async def call(attempt: Attempted, values: Values, arguments: Arguments) -> object:
        async with wrap(make(attempt, values)) as made:
            values.append(made)
            return await inner(attempt, values, arguments)

    return call


class _Manager:
    """A context manager for `with` and `async with`. If it suppresses an error, that is raised anyway: it does not make
    the handler succeed.
    """

    __slots__ = ("_manager",)

    def __init__(self, manager: object) -> None:
        self._manager = cast("AbstractContextManager[object]", manager)

    def __enter__(self) -> object:
        return self._manager.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._manager.__exit__(*error)

    async def __aenter__(self) -> object:
        return self._manager.__enter__()

    async def __aexit__(self, *error: Any) -> None:
        self._manager.__exit__(*error)


class _AsyncManager:
    __slots__ = ("_manager",)

    def __init__(self, manager: object) -> None:
        self._manager = cast("AbstractAsyncContextManager[object]", manager)

    async def __aenter__(self) -> object:
        return await self._manager.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._manager.__aexit__(*error)


def _held(node: Dependency, attempt: Attempted) -> object:
    try:
        return attempt.worker_values[node.function]
    except KeyError:
        raise RuntimeError(
            f"dependency {node.name} has no value here: it was declared after the worker had started, or the job came"
            " by push"
        ) from None
