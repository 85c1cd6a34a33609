"""Calls of handlers whose dependencies are filled in: made before the handler is called, removed after it has ended."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack
from typing import cast

from rowcall.context import Attempted, running
from rowcall.declare.dependencies import Function, Graph, Kind, Node
from rowcall.declare.middleware import Handler


def injected(handler: Handler, graph: Graph, *, for_async: bool) -> Handler:
    """Return a call that fills in the parameters. Without dependencies, return the handler."""
    if not graph.parameters:
        return handler
    return _injected_async(handler, graph) if for_async else _injected(handler, graph)


def _injected(handler: Handler, graph: Graph) -> Handler:
    nodes, parameters = graph.nodes, graph.parameters

    def call(*args: object, **kwargs: object) -> object:
        attempt, values = running.get(), list[object]()
        failure: BaseException | None = None
        result: object = None
        try:
            with ExitStack() as stack:
                try:
                    for node in nodes:
                        made = _made(node, attempt, values)
                        if node.kind is Kind.MANAGER and node.scope == "attempt":
                            made = stack.enter_context(cast("AbstractContextManager[object]", made))
                        values.append(made)
                    for name, index in parameters:
                        kwargs[name] = values[index]
                    result = handler(*args, **kwargs)
                except BaseException as error:
                    failure = error
                    raise
            if failure is not None:  # one has caught it, and that does not make the handler succeed
                raise failure
            return result
        finally:
            failure = None  # its traceback refers to this frame

    return call


def _injected_async(handler: Handler, graph: Graph) -> Handler:
    nodes, parameters = graph.nodes, graph.parameters

    async def call(*args: object, **kwargs: object) -> object:
        attempt, values = running.get(), list[object]()
        failure: BaseException | None = None
        result: object = None
        try:
            async with AsyncExitStack() as stack:
                try:
                    for node in nodes:
                        made = _made(node, attempt, values)
                        if node.scope == "attempt":
                            made = await _opened(node, made, stack)
                        values.append(made)
                    for name, index in parameters:
                        kwargs[name] = values[index]
                    result = await cast("Awaitable[object]", handler(*args, **kwargs))
                except BaseException as error:
                    failure = error
                    raise
            if failure is not None:  # one has caught it, and that does not make the handler succeed
                raise failure
            return result
        finally:
            failure = None  # its traceback refers to this frame

    return call


def _made(node: Node, attempt: Attempted, values: list[object]) -> object:
    """Return what the function of a dependency returns, or what the worker holds of it."""
    if node.scope == "worker":
        return _held(node.function, attempt)
    given = {name: values[index] for name, index in node.needs}
    if node.context is not None:
        given[node.context] = attempt.context
    return node.make(**given)


async def _opened(node: Node, made: object, stack: AsyncExitStack) -> object:
    match node.kind:
        case Kind.COROUTINE:
            return await cast("Awaitable[object]", made)
        case Kind.MANAGER:
            return stack.enter_context(cast("AbstractContextManager[object]", made))
        case Kind.ASYNC_MANAGER:
            return await stack.enter_async_context(cast("AbstractAsyncContextManager[object]", made))
    return made


def _held(function: Function, attempt: Attempted) -> object:
    try:
        return attempt.worker_values[function]
    except KeyError:
        name = getattr(function, "__qualname__", function)
        raise RuntimeError(f"the worker has no {name}: it was declared after the worker had started") from None
