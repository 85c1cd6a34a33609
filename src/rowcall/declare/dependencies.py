"""Dependencies: parameters of a handler that the worker fills in."""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Literal, NamedTuple, Never, cast

from rowcall.context import Context
from rowcall.declare.lifespan import Manager, name_of
from rowcall.declare.middleware import is_async
from rowcall.domain.errors import InvalidOption
from rowcall.domain.payload import hints_of, is_context, parameters_of

Function = Callable[..., object]
Overrides = Mapping[Function, Function]
NO_OVERRIDES: Overrides = {}
SCOPES = ("attempt", "worker")


class Depends:
    """Marks a parameter that the worker fills in with what a function returns or yields.

        def session() -> Iterator[Session]:
            with Session(engine) as opened:
                yield opened

        @jobs.task
        def charge(order_id: int, session: Annotated[Session, Depends(session)] = INJECTED) -> None: ...

    The function is called once for each attempt, or with `scope="worker"` once for each worker process.
    """

    __slots__ = ("function", "scope")

    def __init__(self, function: Function, *, scope: Literal["attempt", "worker"] = "attempt") -> None:
        if not callable(function) or isinstance(function, Depends):
            raise InvalidOption("Depends", f"must have a function, got {function!r}")
        if scope not in SCOPES:
            raise InvalidOption("scope", f"must be one of {', '.join(SCOPES)}, got {scope!r}")
        try:
            hash(function)
        except TypeError:
            raise InvalidOption("Depends", f"must have a function that can be hashed, got {function!r}") from None
        self.function = function
        self.scope = scope

    def __repr__(self) -> str:
        return f"Depends({name_of(self.function)}, scope={self.scope!r})"


class _Injected:
    def __repr__(self) -> str:
        return "INJECTED"

    def __getattr__(self, name: str) -> object:
        raise AttributeError(
            f"INJECTED has no {name}: a worker fills in this parameter; pass a value if you call the function yourself"
        )


INJECTED: Never = cast("Never", _Injected())
"""The default of parameters with `Depends`, so that type checkers let calls of `enqueue` leave them out."""


class DependencyKind(enum.Enum):
    """What a dependency is, and so how its value is made and removed."""

    VALUE = "function"
    COROUTINE = "async function"
    MANAGER = "context manager"
    ASYNC_MANAGER = "async context manager"


class Dependency(NamedTuple):
    """One dependency. The ones that it needs come before it."""

    function: Function
    """As it was declared."""
    scope: str
    kind: DependencyKind
    make: Function
    """What is called: the function, its override, or a context manager of either."""
    context: str | None
    needs: tuple[tuple[str, int], ...]
    """Its parameters, and the nodes that fill them in."""

    @property
    def is_async(self) -> bool:
        return self.kind in (DependencyKind.COROUTINE, DependencyKind.ASYNC_MANAGER)

    @property
    def name(self) -> str:
        return name_of(self.function)


class Graph(NamedTuple):
    """The dependencies of a handler."""

    nodes: tuple[Dependency, ...] = ()
    parameters: tuple[tuple[str, int], ...] = ()
    """The handler's parameters, and the nodes that fill them in."""


class WorkerDependency(NamedTuple):
    """A dependency with `scope="worker"`, which a worker enters before its first job and leaves after its last one."""

    node: Dependency
    needs: tuple[tuple[str, Function], ...]

    def manager(self, values: Mapping[Function, object]) -> Manager:
        """Return what to enter, whatever its kind. `values` are those of the dependencies before it."""
        make, arguments = self.node.make, {name: values[function] for name, function in self.needs}
        match self.node.kind:
            case DependencyKind.VALUE:
                return _holding(make, arguments)
            case DependencyKind.COROUTINE:
                return _awaiting(make, arguments)
        return cast("Manager", make(**arguments))


def held_by_worker(graphs: Iterable[Graph]) -> list[WorkerDependency]:
    """Return the dependencies of several handlers with `scope="worker"`, each once, in the order of their use."""
    held: dict[Function, WorkerDependency] = {}
    for graph in graphs:
        for node in graph.nodes:
            if node.scope == "worker":
                needs = tuple((name, graph.nodes[index].function) for name, index in node.needs)
                held.setdefault(node.function, WorkerDependency(node, needs))
    return list(held.values())


def filled_in(function: Function) -> list[str]:
    """Return the names of the parameters that the worker fills in, or raise `InvalidOption`."""
    return [parameter.name for parameter, _ in _marked(function, f"task {_shown(function)}")]


def graph_of(task: str, function: Function, overrides: Overrides, *, for_async: bool) -> Graph:
    """Return the dependencies of a handler in the order of their use, or raise `InvalidOption`."""
    builder = _Builder(f"task {task!r}", overrides)
    parameters = tuple((parameter.name, builder.add(marker)) for parameter, marker in _marked(function, builder.task))
    graph = Graph(tuple(builder.nodes), parameters)
    for node in graph.nodes:
        if node.is_async and node.scope == "attempt" and not for_async:
            raise InvalidOption(
                builder.task,
                f"is sync, and its dependency {node.name} is async; make the task async, the dependency sync, or open"
                ' it once per worker: Depends(…, scope="worker")',
            )
    return graph


class _Builder:
    def __init__(self, task: str, overrides: Overrides) -> None:
        self.task = task
        self.nodes: list[Dependency] = []
        self._overrides = overrides
        self._index: dict[tuple[Function, str], int] = {}
        self._open: list[Function] = []

    def add(self, marker: Depends) -> int:
        """Return where the node of a dependency is. Add it, after the ones that it needs."""
        function, scope = marker.function, marker.scope
        if function in self._open:
            cycle = [*self._open[self._open.index(function) :], function]
            raise InvalidOption(self.task, f"has a dependency cycle: {' → '.join(map(name_of, cycle))}")
        if (function, scope) not in self._index:
            self._open.append(function)
            node = self._node(function, scope)
            self._open.pop()
            self._index[function, scope] = len(self.nodes)
            self.nodes.append(node)
        return self._index[function, scope]

    def _node(self, function: Function, scope: str) -> Dependency:
        called = self._overrides.get(function, function)
        what = f"dependency {name_of(called)}"
        context, needs = None, []
        markers = dict(_marked(called, what))
        for parameter in parameters_of(called):
            if parameter in markers:
                marker = markers[parameter]
                if scope == "worker" and marker.scope != "worker":
                    raise InvalidOption(
                        what,
                        f"has scope='worker', and {parameter.name} has scope='attempt'; a dependency of the worker can"
                        " only depend on others of the worker",
                    )
                needs.append((parameter.name, self.add(marker)))
            elif is_context(_hints(called).get(parameter.name), Context):
                if scope == "worker":
                    raise InvalidOption(what, f"has scope='worker', so there is no job for {parameter.name}: Context")
                context = parameter.name
            elif parameter.default is parameter.empty and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                raise InvalidOption(
                    what,
                    f"has a parameter {parameter.name} that nothing fills in; annotate it as Context or with"
                    " Depends(…), or set a default",
                )
        kind, make = _kind_of(called)
        return Dependency(function, scope, kind, make, context, tuple(needs))


def _kind_of(function: Function) -> tuple[DependencyKind, Function]:
    """Only what is declared as a context manager is entered: a connection that a function returns may be one, too."""
    if isinstance(function, type):
        if hasattr(function, "__aenter__"):
            return DependencyKind.ASYNC_MANAGER, function
        return DependencyKind.MANAGER if hasattr(function, "__enter__") else DependencyKind.VALUE, function
    called = function, getattr(function, "__call__", None)  # noqa: B004
    if any(map(inspect.isasyncgenfunction, called)):
        return DependencyKind.ASYNC_MANAGER, asynccontextmanager(cast("Callable[..., AsyncIterator[object]]", function))
    if any(map(inspect.isgeneratorfunction, called)):
        return DependencyKind.MANAGER, contextmanager(cast("Callable[..., Iterator[object]]", function))
    if is_async(function):
        return DependencyKind.COROUTINE, function
    inner = inspect.unwrap(function)  # of @contextmanager and @asynccontextmanager
    if inspect.isasyncgenfunction(inner):
        return DependencyKind.ASYNC_MANAGER, function
    return DependencyKind.MANAGER if inspect.isgeneratorfunction(inner) else DependencyKind.VALUE, function


def _marked(function: Function, what: str) -> list[tuple[inspect.Parameter, Depends]]:
    """Return the parameters with `Depends`."""
    hints, marked = _hints(function), []
    for parameter in parameters_of(function):
        if isinstance(parameter.default, Depends):
            shown = f"{parameter.name}: Annotated[…, {parameter.default!r}]"
            raise InvalidOption(what, f"the default of {parameter.name} is a Depends; write {shown}")
        hint = hints.get(parameter.name)
        if typing.get_origin(hint) is not Annotated:
            continue
        markers = [one for one in typing.get_args(hint)[1:] if isinstance(one, Depends) or one is Depends]
        if not markers:
            _refuse_other_depends(parameter.name, hint, what)
            continue
        if len(markers) > 1 or not isinstance(markers[0], Depends):
            raise InvalidOption(what, f"the annotation of {parameter.name} must have one Depends(function)")
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD and parameter.kind is not parameter.KEYWORD_ONLY:
            raise InvalidOption(what, f"{parameter.name} is filled in by name, so it cannot be positional-only")
        marked.append((parameter, markers[0]))
    return marked


def _refuse_other_depends(name: str, hint: object, what: str) -> None:
    for one in typing.get_args(hint)[1:]:
        if type(one).__name__ == "Depends":
            module = type(one).__module__
            raise InvalidOption(what, f"the Depends of {name} is from {module}; a worker knows rowcall.Depends only")


def _hints(function: Function) -> dict[str, object]:
    return hints_of(function.__init__ if isinstance(function, type) else function)  # type: ignore[misc]


def _shown(function: Function) -> str:
    return repr(getattr(function, "__name__", function))


@contextmanager
def _holding(make: Function, given: Mapping[str, object]) -> Iterator[object]:
    yield make(**given)


@asynccontextmanager
async def _awaiting(make: Function, given: Mapping[str, object]) -> AsyncIterator[object]:
    yield await cast("Awaitable[object]", make(**given))
