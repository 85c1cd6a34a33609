"""Declared tasks: a checked function, its options, and how its arguments become a payload."""

from __future__ import annotations

import enum
import hashlib
import inspect
import sys
import weakref
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import msgspec

from rowcall.context import Context
from rowcall.declare.dependencies import NO_OVERRIDES, Graph, Overrides, filled_in, graph_of
from rowcall.declare.failures import Failures
from rowcall.declare.fairness import sharing_of
from rowcall.declare.injection import injected
from rowcall.declare.isolation import home_of
from rowcall.declare.limits import KnownLimits, bound_to, host_limits
from rowcall.declare.middleware import AnyMiddleware, Handler, chained, is_async
from rowcall.declare.option_table import Options, option_hint
from rowcall.domain.batch_payload import ItemArguments
from rowcall.domain.config import VERSION
from rowcall.domain.defaults import TaskDefaults
from rowcall.domain.errors import InvalidOption
from rowcall.domain.fingerprint import DIGITS
from rowcall.domain.job import JobOutcome
from rowcall.domain.limits import TaskLimit
from rowcall.domain.payload import Arguments, hints_of, is_context, parameters_of, result_decoder, takes_context
from rowcall.domain.push import PushOptions


class Lane(enum.Enum):
    """Where a handler runs."""

    THREAD = "thread"
    LOOP = "loop"
    PROCESS = "process"


class Surroundings(NamedTuple):
    """What an app declares for all of its handlers."""

    middleware: tuple[AnyMiddleware, ...] = ()
    overrides: Overrides = NO_OVERRIDES


class Surrounded(NamedTuple):
    """A handler with all that surrounds it, put together when it is declared."""

    call: Handler
    """The function itself if nothing does."""
    dependencies: Graph
    surroundings: Surroundings


class Declaration:
    """A task as workers and `jobs.enqueue(name)` use it, without the static types of its arguments."""

    failures = Failures()  # replaced by the queue's
    queue: object = None
    defaults: TaskDefaults | None = None
    """What applies where its options say nothing, if the app has defaults."""
    follows_success = False
    """Whether a handler follows its successes."""

    def __init__(self, name: str, function: Callable[..., object], options: Options) -> None:
        self.name = name
        self.function = function
        self.options = options
        self.is_async = is_async(function)
        self.lane = Lane.PROCESS if options.isolated else Lane.LOOP if self.is_async else Lane.THREAD
        self.takes_context = takes_context(function, Context)
        self.preloads: tuple[str, ...] = ()
        self.preloads_steps = False
        if self.is_async and options.batch is None:
            names = _names_in(function)
            self.preloads = tuple(name for name in PRELOADED if {name, f"{name}_as"} & names)
            self.preloads_steps = not names.isdisjoint(READING_STEPS)
        kind = Arguments if options.batch is None else ItemArguments
        self.arguments = kind(
            name, function, skip_first=self.takes_context, filled_in=filled_in(function), hint=option_hint
        )
        self.takes_outcome = JobOutcome in hints_of(function).values()
        self.returns = hints_of(function).get("return") if options.batch is None else None
        self.source = source_of(function)
        self.fingerprints = f"{self.arguments.fingerprint},{self.source}"
        """What refusals of a job list: of its arguments, and of its recorded steps."""
        self.limits = bound_to(options.limits or (), name, self.arguments)
        self.use(self.within(Surroundings()))
        self.sharing = sharing_of(options, name, self.arguments)

    def __repr__(self) -> str:
        return f"<declaration of the task {self.name!r}>"

    def within(self, surroundings: Surroundings) -> Surrounded:
        """Return the function with its dependencies, inside of its middleware, inside of the app's."""
        graph = graph_of(self.name, self.function, surroundings.overrides, for_async=self.is_async)
        call = injected(self.function, graph, for_async=self.is_async)
        middleware = *surroundings.middleware, *self.options.middleware
        call = chained(self.name, call, middleware, for_async=self.is_async)
        return Surrounded(call, graph, surroundings)

    def use(self, surrounded: Surrounded) -> None:
        self.call, self.dependencies, self.surroundings = surrounded

    @property
    def has_middleware(self) -> bool:
        return bool(self.surroundings.middleware or self.options.middleware)

    @property
    def is_overridden(self) -> bool:
        """Whether another function replaces one of its dependencies."""
        overrides = self.surroundings.overrides
        return bool(overrides) and any(node.function in overrides for node in self.dependencies.nodes)

    @cached_property
    def result_decoder(self) -> msgspec.json.Decoder[object] | None:
        """Checks results against the annotation of the function; None if any fits."""
        return result_decoder(self.returns)

    def limits_for(
        self, options: Options, known: KnownLimits, push: PushOptions | None
    ) -> tuple[TaskLimit, ...] | None:
        """Return the limits of a job: those given with it, else those of the task; and of its target's host."""
        bound = self.limits
        if options.limits is not None:
            bound = bound_to(options.limits, self.name, self.arguments)
            known.check_given(options.limits)
        bound += host_limits(options.target or self.options.target, push)
        return None if options.limits is None and not bound else bound

    def payload_of(self, arguments: object) -> str:
        """Return the payload for a dict of arguments."""
        return self.arguments.all_to_json([arguments])[0]  # type: ignore[list-item]


def fingerprints(tasks: Mapping[str, Declaration]) -> dict[str, str]:
    """Return the fingerprints of what fits each task. Other threads may declare tasks now."""
    return {name: task.fingerprints for name, task in list(tasks.items())}


def source_of(function: Callable[..., object]) -> str:
    """Return a short text that changes with the source of the function's module."""
    module = inspect.unwrap(function).__module__ or ""
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    try:
        return _source_at(path, Path(path).stat().st_mtime_ns)
    except OSError:  # it has no file, as on an interactive prompt
        return hashlib.sha256(module.encode()).hexdigest()[:DIGITS]


@lru_cache
def _source_at(path: str, changed_ns: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:DIGITS]


def code_of(tasks: Mapping[str, Declaration]) -> str:
    """Return a short text that changes with the version of Rowcall, and with the source of the tasks' modules."""
    modules = {inspect.unwrap(task.function).__module__ or "" for task in list(tasks.values())}
    digest = hashlib.sha256()
    for module in sorted(modules):
        try:
            digest.update(Path(getattr(sys.modules.get(module), "__file__", None) or "").read_bytes())
        except OSError:  # it has no file, as on an interactive prompt
            digest.update(module.encode())
    return f"{VERSION} {digest.hexdigest()[:8]}"


PRELOADED = ("previous", "blockers", "batch")
"""What an async handler must not read from the database on the event loop: it is read before the handler starts."""
READING_STEPS = ("patched", "call")
"""Methods of a context that use what is recorded at once, not when they are awaited."""


def _names_in(function: Callable[..., object]) -> set[str]:
    """Return the names in the code of a handler, functions inside it included."""
    target = inspect.unwrap(function)
    names: set[str] = set()
    codes: list[object] = [getattr(target if inspect.isroutine(target) else type(target).__call__, "__code__", None)]
    while codes:
        if isinstance(code := codes.pop(), CodeType):
            names.update(code.co_names)
            codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return names


def declare(function: Callable[..., object], options: Options) -> Declaration:
    """Return the declaration of a function, or raise `InvalidOption`."""
    if isinstance(function, classmethod):
        raise _method_refused(function.__qualname__)
    if not callable(function):
        raise InvalidOption("task", f"must be a function, got {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidOption("task", f"{function.__qualname__} is a generator: its body would never run")
    name = options.name or getattr(function, "__name__", None)
    if not name or name == "<lambda>":
        raise InvalidOption("name", f"{function!r} has no name; give it one with task(name=…)")
    if name in options.aliases:
        raise InvalidOption("aliases", f"must differ from the task's own name, got {name!r}")
    _check_first_parameters(name, function)
    if options.isolated:
        home_of(function)
    return Declaration(name, function, options)


def _check_first_parameters(name: str, function: Callable[..., object]) -> None:
    parameters = parameters_of(function)
    hints = hints_of(function)
    for index, parameter in enumerate(parameters):
        if index == 0 and parameter.name in ("self", "cls") and parameter.name not in hints:
            raise _method_refused(getattr(function, "__qualname__", name))
        if index == 0 and parameter.name in ("ctx", "context") and parameter.name not in hints:
            raise InvalidOption(
                f"task {name!r}",
                f"the parameter {parameter.name} has no annotation; write {parameter.name}: Context to receive the"
                " context, or annotate it as an argument",
            )
        if index > 0 and is_context(hints.get(parameter.name), Context):
            raise InvalidOption(f"task {name!r}", f"{parameter.name}: Context must be the first parameter")


def _method_refused(name: str) -> InvalidOption:
    return InvalidOption(
        "task",
        f"{name} is a method, and a worker has no object to call it on; declare a function or a @staticmethod,"
        " and pass what it needs as arguments",
    )


declared_here: weakref.WeakValueDictionary[tuple[str, str, str], Declaration] = weakref.WeakValueDictionary()
"""The isolated tasks of this process, by module, qualified name and task name, for child processes."""


def remember(declaration: Declaration) -> None:
    target = inspect.unwrap(declaration.function)
    for name in (declaration.name, *declaration.options.aliases):
        declared_here[target.__module__, target.__qualname__, name] = declaration
