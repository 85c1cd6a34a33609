"""Chains, groups and chords: calls as values, and how they become jobs that wait for each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rowcall.app import Rowcall
from rowcall.domain.errors import InvalidOption, UnknownTask
from rowcall.integrations.celery.current import Callee, Takes, current_app
from rowcall.integrations.celery.result import AsyncResult, GroupResult
from rowcall.operations.flows import Flow, Node


class Added(NamedTuple):
    """The jobs that a part of a canvas became; the next part waits for `ends`."""

    ends: list[Node]
    is_group: bool


class Part(ABC):
    """A call, a chain, a group or a chord. `a | b` is a chain."""

    @abstractmethod
    def add_to(self, flow: Flow, before: Added | None) -> Added:
        """Add its jobs to a flow, after those of the part before."""

    def jobs(self) -> Rowcall:
        return current_app().jobs

    def __or__(self, other: Part) -> chain:
        return chain(self, other)

    def delay(self, *args: object, **kwargs: object) -> AsyncResult | GroupResult:
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None, **options: object
    ) -> AsyncResult | GroupResult:
        """Enqueue all of it in one transaction. Arguments and options belong to the first call."""
        part, jobs = self.with_first(args, kwargs or {}, options), self.jobs()
        flow = jobs.flow()
        added = part.add_to(flow, None)
        flow.enqueue()
        results = [AsyncResult(_job_id(node), jobs) for node in added.ends]
        return GroupResult(results) if added.is_group else results[0]

    def with_first(self, args: Sequence[object], kwargs: Mapping[str, object], options: Mapping[str, object]) -> Part:
        if args or kwargs or options:
            raise InvalidOption("apply_async", f"a {type(self).__name__} takes no arguments or options")
        return self


class Signature(Part):
    """A call of a task. In a chain its first argument is the result of the call before, unless it is `immutable`."""

    def __init__(
        self,
        task: Callee,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        immutable: bool = False,
    ) -> None:
        self.task = task
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.options = dict(options or {})
        self.immutable = immutable

    def __repr__(self) -> str:
        values = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.task.name}({', '.join(values)})"

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.task(*args, *self.args, **{**self.kwargs, **kwargs})

    def set(self, **options: object) -> Signature:
        """Return the call with options: `countdown`, `queue`, …"""
        return Signature(self.task, self.args, self.kwargs, {**self.options, **options}, self.immutable)

    def clone(self, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> Signature:
        """Return the call with more arguments, before the others."""
        both = {**self.kwargs, **(kwargs or {})}
        return Signature(self.task, (*args, *self.args), both, self.options, self.immutable)

    def jobs(self) -> Rowcall:
        return self.task.jobs

    def with_first(self, args: Sequence[object], kwargs: Mapping[str, object], options: Mapping[str, object]) -> Part:
        return self.clone(args, kwargs).set(**options)

    def add_to(self, flow: Flow, before: Added | None) -> Added:
        takes: Takes | None = None
        if before is not None and not self.immutable:
            takes = "all" if before.is_group else "one"
        call = self.task.bound(self.args, self.kwargs, self.options, takes)
        return Added([flow.add(call, after=before.ends if before is not None else ())], is_group=False)


class chain(Part):  # noqa: N801 (Celery's name)
    """Calls, each of which starts when the one before has succeeded: `chain(add.s(1, 2), double.s())`."""

    def __init__(self, *parts: Part | Iterable[Part]) -> None:
        self.parts = _flat(parts)
        if not self.parts:
            raise InvalidOption("chain", "must have at least one call")

    def __or__(self, other: Part) -> chain:
        return chain(*self.parts, other)

    def __call__(self, *args: object, **kwargs: object) -> AsyncResult | GroupResult:
        return self.apply_async(args, kwargs)

    def jobs(self) -> Rowcall:
        return self.parts[0].jobs()

    def with_first(self, args: Sequence[object], kwargs: Mapping[str, object], options: Mapping[str, object]) -> Part:
        return chain(self.parts[0].with_first(args, kwargs, options), *self.parts[1:])

    def add_to(self, flow: Flow, before: Added | None) -> Added:
        for part in self.parts:
            before = part.add_to(flow, before)
        assert before is not None
        return before


class group(Part):  # noqa: N801 (Celery's name)
    """Calls that run side by side: `group(resize.s(path) for path in paths)`."""

    def __init__(self, *parts: Part | Iterable[Part]) -> None:
        self.parts = _flat(parts)
        if not self.parts:
            raise InvalidOption("group", "must have at least one call")

    def __call__(self, *args: object, **kwargs: object) -> AsyncResult | GroupResult:
        return self.apply_async(args, kwargs)

    def jobs(self) -> Rowcall:
        return self.parts[0].jobs()

    def with_first(self, args: Sequence[object], kwargs: Mapping[str, object], options: Mapping[str, object]) -> Part:
        return group(part.with_first(args, kwargs, options) for part in self.parts)

    def add_to(self, flow: Flow, before: Added | None) -> Added:
        return Added([node for part in self.parts for node in part.add_to(flow, before).ends], is_group=True)


class chord(Part):  # noqa: N801 (Celery's name)
    """A group, and a call that gets the list of its results: `chord([add.s(1, 1), add.s(2, 2)])(total.s())`."""

    def __init__(self, header: Part | Iterable[Part], body: Part | None = None) -> None:
        self.header = header if isinstance(header, group) else group(header)
        self.body = body

    def __call__(self, body: Part | None = None) -> AsyncResult | GroupResult:
        return chord(self.header, body or self.body).apply_async()

    def jobs(self) -> Rowcall:
        return self.header.jobs()

    def add_to(self, flow: Flow, before: Added | None) -> Added:
        if self.body is None:
            raise InvalidOption("chord", "must have a body: chord(header)(body)")
        return self.body.add_to(flow, self.header.add_to(flow, before))


def signature(
    task: Callee | Signature | str,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    immutable: bool = False,
    **options: object,
) -> Signature:
    """Return a call of a task, or of the task with a name, as a value."""
    if isinstance(task, Signature):
        return task.clone(args, kwargs).set(**options)
    if isinstance(task, str):
        tasks = current_app().tasks
        if task not in tasks:
            raise UnknownTask(task, list(tasks))
        task = tasks[task]
    return Signature(task, args or (), kwargs, options, immutable)


def _flat(parts: Iterable[Part | Iterable[Part]]) -> list[Part]:
    found: list[Part] = []
    for part in parts:
        if isinstance(part, Part):
            found.append(part)
        elif isinstance(part, Iterable):
            found += _flat(part)
        else:
            raise InvalidOption("canvas", f"must be calls such as task.s(…), got {part!r}")
    return found


def _job_id(node: Node) -> int:
    assert node.job is not None
    return node.job.id
