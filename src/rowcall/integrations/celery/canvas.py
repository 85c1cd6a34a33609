"""Chains, groups and chords: calls as values, and how they become jobs that wait for each other."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, overload

from rowcall.domain.errors import InvalidOption, UnknownTask
from rowcall.integrations.celery.current import App, Callee, Takes, current_app
from rowcall.integrations.celery.eager import EagerResult, failed_call
from rowcall.integrations.celery.result import AsyncResult, GroupResult
from rowcall.operations.flows import Flow, Node

P = TypeVar("P", bound="CanvasPart")

Ran = EagerResult | GroupResult
"""What a part of a canvas returned that ran at once, with `task_always_eager`."""


class Added(NamedTuple):
    """The jobs that a part of a canvas became; the next part waits for `ends`, and gets their results."""

    ends: list[Node]
    is_group: bool
    passes_results: bool = True


class CanvasPart(Mapping[str, Any]):
    """A call, a chain, a group or a chord. `a | b` is a chain. `dict(part)` can be stored; `signature` reads it."""

    links: tuple[CanvasPart, ...] = ()
    """What follows when it has succeeded; a group passes no results on to it."""
    errbacks: tuple[Signature, ...] = ()
    """What follows each of its ends that fails."""

    @abstractmethod
    def add_to(self, flow: Flow, before: Added | None) -> Added:
        """Add its jobs to a flow, after those of the part before."""

    @abstractmethod
    def run_eagerly(self, before: Ran | None) -> Ran:
        """Run it here, after the part before has succeeded."""

    @abstractmethod
    def app(self) -> App: ...

    @abstractmethod
    def stored(self) -> tuple[str, str | None, dict[str, object]]:
        """Return the name of its task and of its type, and what else differs between dicts of parts."""

    def _dict(self) -> dict[str, object]:
        task, kind, fields = self.stored()
        options = {**getattr(self, "options", {})}
        options |= {"link": [dict(part) for part in self.links]} if self.links else {}
        options |= {"link_error": [dict(part) for part in self.errbacks]} if self.errbacks else {}
        common: dict[str, object] = {
            "task": task,
            "args": [],
            "kwargs": {},
            "options": options,
            "subtask_type": kind,
            "immutable": False,
        }
        return {**common, **fields}

    def __getitem__(self, name: str) -> Any:
        return self._dict()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dict())

    def __len__(self) -> int:
        return len(self._dict())

    def add(self, flow: Flow, before: Added | None) -> Added:
        """`add_to`, with what follows."""
        added = self.add_to(flow, before)
        for part in self.links:
            part.add(flow, added._replace(passes_results=not added.is_group))
        for end in added.ends:
            for errback in self.errbacks:
                errback.add_errback(flow, end)
        return added

    def run(self, before: Ran | None = None) -> Ran:
        """`run_eagerly`, with what follows."""
        ran = self.run_eagerly(before)
        for result in _eager(ran):
            if result.failed():
                for errback in self.errbacks:
                    errback.run_errback(result)
        if ran.successful():
            for part in self.links:
                part.run(None if isinstance(ran, GroupResult) else ran)
        return ran

    def __or__(self, other: CanvasPart) -> chain:
        return chain(self, other)

    def __invert__(self) -> object:
        """Enqueue it, and wait for the result: `~add.s(1, 2)`."""
        return self.apply_async().get()

    def delay(self, *args: object, **kwargs: object) -> AsyncResult | Ran:
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        *,
        connection: object = None,
        **options: Any,
    ) -> AsyncResult | Ran:
        """Enqueue all of it in one transaction. Arguments and options belong to the first call."""
        if self.app().conf.task_always_eager:
            return self.apply(args, kwargs, **options)
        return self.enqueue(args, kwargs, connection=connection, **options)

    def enqueue(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        *,
        connection: object = None,
        **options: object,
    ) -> AsyncResult | GroupResult:
        """`apply_async`, whatever `task_always_eager` says."""
        part, jobs = self._given(args, kwargs, options), self.app().jobs
        flow = jobs.flow(connection=connection)
        added = part.add(flow, None)
        flow.enqueue()
        results = [AsyncResult(_job_id(node), jobs) for node in added.ends]
        return GroupResult(results) if added.is_group else results[0]

    def apply(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        *,
        throw: bool | None = None,
        **options: object,
    ) -> Ran:
        """Run it here and now. What it raises is raised by `get()`, or at once with `task_eager_propagates`."""
        ran = self._given(args, kwargs, options).run()
        if self.app().conf.task_eager_propagates if throw is None else throw:
            for one in _eager(ran):
                if one.failed():
                    one.get()
        return ran

    def _given(
        self, args: Sequence[object] | None, kwargs: Mapping[str, object] | None, options: Mapping[str, object]
    ) -> CanvasPart:
        """Return it with more arguments and options, of which `link` and `link_error` belong to all of it."""
        plain = {name: value for name, value in options.items() if name not in ("link", "link_error")}
        return self.with_first(args or (), kwargs or {}, plain).linked(options.get("link"), options.get("link_error"))

    def linked(self: P, link: object = None, link_error: object = None) -> P:
        """Return it with more that follows."""
        changed = copy.copy(self)
        changed.links = (*self.links, *_parts(link))
        changed.errbacks = (*self.errbacks, *_calls(link_error))
        return changed

    def on_error(self: P, errback: object) -> P:
        """`link_error`, which returns this part: `chain(…).on_error(report.s())()`."""
        self.link_error(errback)
        return self

    def link(self, part: object) -> object:
        """Add a call that follows if this one succeeds, and return that call."""
        self.links = (*self.links, *_parts(part))
        return part

    def link_error(self, errback: object) -> object:
        """Add a call that follows if this one fails, and return that call.

        It gets the request, the error and the traceback; only the id, if its function takes one argument.
        """
        self.errbacks = (*self.errbacks, *_calls(errback))
        return errback

    def with_first(
        self, args: Sequence[object], kwargs: Mapping[str, object], options: Mapping[str, object]
    ) -> CanvasPart:
        if args or kwargs or options:
            raise InvalidOption("apply_async", f"a {type(self).__name__} takes no arguments or options")
        return self


class Signature(CanvasPart):
    """A call of a task. In a chain its first argument is the result of the call before, unless it is `immutable`."""

    def __init__(
        self,
        task: Callee,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        immutable: bool = False,
    ) -> None:
        remaining = dict(options or {})
        self.task = task
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.links, self.errbacks = _parts(remaining.pop("link", None)), _calls(remaining.pop("link_error", None))
        self.options = remaining
        self.immutable = immutable

    def __repr__(self) -> str:
        values = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.task.name}({', '.join(values)})"

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.task(*args, *self.args, **{**self.kwargs, **kwargs})

    def set(self, *, immutable: Any = None, **options: object) -> Signature:
        """Add options to the call: `countdown`, `queue`, … Return the call itself."""
        self.link(options.pop("link", None))
        self.link_error(options.pop("link_error", None))
        self.options = {**self.options, **options}
        self.immutable = self.immutable if immutable is None else immutable
        return self

    def clone(
        self, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None, **options: object
    ) -> Signature:
        """Return another call with more arguments, before the others, unless it is `immutable`."""
        changed = copy.copy(self)
        if not self.immutable:
            changed.args, changed.kwargs = (*args, *self.args), {**self.kwargs, **(kwargs or {})}
        return changed.set(**options)

    def app(self) -> App:
        return self.task.app

    def stored(self) -> tuple[str, str | None, dict[str, object]]:
        fields = {"args": list(self.args), "kwargs": dict(self.kwargs), "immutable": self.immutable}
        return self.task.name, None, fields

    def with_first(
        self, args: Sequence[object], kwargs: Mapping[str, object], options: Mapping[str, object]
    ) -> CanvasPart:
        return self.clone(args, kwargs, **options)

    def add_to(self, flow: Flow, before: Added | None) -> Added:
        takes: Takes | None = None
        if before is not None and before.passes_results and not self.immutable:
            takes = "all" if before.is_group else "one"
        return self._add(flow, takes, before.ends if before is not None else [])

    def add_errback(self, flow: Flow, failing: Node) -> None:
        self._add(flow, "failure" if self.immutable else "error", [failing])

    def _add(self, flow: Flow, takes: Takes | None, after: list[Node]) -> Added:
        call = self.task.bound(self.args, self.kwargs, self.options, takes)
        return Added([flow.add(call, after=after)], is_group=False)

    def run_eagerly(self, before: Ran | None) -> Ran:
        given = [] if before is None or self.immutable else [before.get()]
        return self.task.run_eagerly((*given, *self.args), self.kwargs)

    def run_errback(self, failed: EagerResult) -> None:
        self.task.run_eagerly(self.args, self.kwargs, None if self.immutable else "error", failed_call(failed))


class Spread(CanvasPart):
    """One job that calls a function for each item: `task.map` and `task.starmap`."""

    def __init__(self, task: Callee, rows: Sequence[object], takes: Literal["map", "starmap"]) -> None:
        self.task = task
        self.rows = rows
        self.takes = takes

    def __repr__(self) -> str:
        return f"{self.task.name}.{self.takes}({len(self.rows)} items)"

    def __call__(self) -> AsyncResult | Ran:
        return self.apply_async()

    def app(self) -> App:
        return self.task.app

    def stored(self) -> tuple[str, str | None, dict[str, object]]:
        fields = {"task": dict(Signature(self.task)), "it": list(self.rows)}
        return f"celery.{self.takes}", f"x{self.takes}", {"kwargs": fields}

    def add_to(self, flow: Flow, before: Added | None) -> Added:
        call = self.task.bound([self.rows], {}, {}, self.takes)
        return Added([flow.add(call, after=before.ends if before is not None else [])], is_group=False)

    def run_eagerly(self, before: Ran | None) -> Ran:
        return self.task.run_eagerly([self.rows], {}, self.takes)


class chain(CanvasPart):  # noqa: N801 (Celery's name)
    """Calls, each of which starts when the one before has succeeded: `chain(add.s(1, 2), double.s())`."""

    def __init__(self, *parts: CanvasPart | Iterable[CanvasPart]) -> None:
        self.parts = _flat(parts)
        if not self.parts:
            raise InvalidOption("chain", "must have at least one call")

    def __or__(self, other: CanvasPart) -> chain:
        return chain(*self.parts, other).linked(self.links, self.errbacks)

    def __call__(self, *args: object, **kwargs: object) -> AsyncResult | Ran:
        return self.apply_async(args, kwargs)

    def app(self) -> App:
        return self.parts[0].app()

    def stored(self) -> tuple[str, str | None, dict[str, object]]:
        return "celery.chain", "chain", {"kwargs": {"tasks": [dict(part) for part in self.parts]}}

    def with_first(
        self, args: Sequence[object], kwargs: Mapping[str, object], options: Mapping[str, object]
    ) -> CanvasPart:
        first = self.parts[0].with_first(args, kwargs, options)
        return chain(first, *self.parts[1:]).linked(self.links, self.errbacks)

    def add_to(self, flow: Flow, before: Added | None) -> Added:
        for part in self.parts:
            before = part.add(flow, before)
        assert before is not None
        return before

    def run_eagerly(self, before: Ran | None) -> Ran:
        for part in self.parts:
            before = part.run(before)
            if not before.successful():
                break
        assert before is not None
        return before


class group(CanvasPart):  # noqa: N801 (Celery's name)
    """Calls that run side by side: `group(resize.s(path) for path in paths)`."""

    def __init__(self, *parts: CanvasPart | Iterable[CanvasPart]) -> None:
        self.parts = _flat(parts)
        if not self.parts:
            raise InvalidOption("group", "must have at least one call")

    def __call__(self, *args: object, **kwargs: object) -> AsyncResult | Ran:
        return self.apply_async(args, kwargs)

    def app(self) -> App:
        return self.parts[0].app()

    def stored(self) -> tuple[str, str | None, dict[str, object]]:
        return "celery.group", "group", {"kwargs": {"tasks": [dict(part) for part in self.parts]}}

    def with_first(
        self, args: Sequence[object], kwargs: Mapping[str, object], options: Mapping[str, object]
    ) -> CanvasPart:
        parts = [part.with_first(args, kwargs, options) for part in self.parts]
        return group(parts).linked(self.links, self.errbacks)

    def add_to(self, flow: Flow, before: Added | None) -> Added:
        return Added([node for part in self.parts for node in part.add(flow, before).ends], is_group=True)

    def run_eagerly(self, before: Ran | None) -> Ran:
        return GroupResult([one for part in self.parts for one in _eager(part.run(before))])


class chord(CanvasPart):  # noqa: N801 (Celery's name)
    """A group, and a call that gets the list of its results: `chord([add.s(1, 1), add.s(2, 2)])(total.s())`."""

    def __init__(self, header: CanvasPart | Iterable[CanvasPart], body: CanvasPart | None = None) -> None:
        first = _flat([header])
        self.header = first[0] if len(first) == 1 and isinstance(first[0], group) else group(first)
        self.body: CanvasPart | None = maybe_signature(body)

    def __call__(self, body: CanvasPart | None = None) -> AsyncResult | Ran:
        return chord(self.header, body or self.body).linked(self.links, self.errbacks).apply_async()

    def app(self) -> App:
        return self.header.app()

    def stored(self) -> tuple[str, str | None, dict[str, object]]:
        body = None if self.body is None else dict(self.body)
        return "celery.chord", "chord", {"kwargs": {"header": dict(self.header), "body": body}}

    def add_to(self, flow: Flow, before: Added | None) -> Added:
        return self._body().add(flow, self.header.add(flow, before))

    def run_eagerly(self, before: Ran | None) -> Ran:
        return chain(self.header, self._body()).run(before)

    def _body(self) -> CanvasPart:
        if self.body is None:
            raise InvalidOption("chord", "must have a body: chord(header)(body)")
        return self.body


@overload
def signature(
    task: Callee | Signature | str,
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    immutable: bool = False,
    **options: object,
) -> Signature: ...
@overload
def signature(
    task: Mapping[str, Any],
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    immutable: bool = False,
    **options: object,
) -> CanvasPart: ...


def signature(
    task: Callee | Mapping[str, Any] | str,
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    immutable: bool = False,
    **options: object,
) -> CanvasPart:
    """Return a call of a task, or of the task with a name, as a value; or the part that `dict(part)` was made of."""
    if isinstance(task, Mapping):
        part: CanvasPart = task if isinstance(task, CanvasPart) else _read(task)
        return part._given(args, kwargs, options)
    if isinstance(task, str):
        tasks = current_app().tasks
        if task not in tasks:
            raise UnknownTask(task, list(tasks))
        task = tasks[task]
    return Signature(task, args or (), kwargs, options, immutable)


def maybe_signature(d: Any, app: object = None, clone: bool = False) -> Any:
    """Return the part that a dict was made of, and anything else as it is."""
    return signature(d) if isinstance(d, Mapping) and (clone or not isinstance(d, CanvasPart)) else d


def _read(stored: Mapping[str, Any]) -> CanvasPart:
    args, kwargs, options = (stored.get(name) or {} for name in ("args", "kwargs", "options"))
    match stored.get("subtask_type"):
        case None if isinstance(name := stored.get("task"), str):
            part: CanvasPart = signature(name, list(args), kwargs, bool(stored.get("immutable")), **options)
            return part
        case "chain" if "tasks" in kwargs:
            part = chain(kwargs["tasks"])
        case "group" if "tasks" in kwargs:
            part = group(kwargs["tasks"])
        case "chord" if "header" in kwargs:
            part = chord(kwargs["header"], kwargs.get("body"))
        case "xmap" | "xstarmap" as kind:
            part = Spread(signature(kwargs["task"]["task"]).task, kwargs["it"], "map" if kind == "xmap" else "starmap")
        case _:
            raise InvalidOption("signature", f"must be a call, or a dict of one, got {stored!r}")
    return part.linked(options.get("link"), options.get("link_error"))


def _flat(parts: Iterable[CanvasPart | Iterable[CanvasPart]]) -> list[CanvasPart]:
    flat: list[CanvasPart] = []
    for part in parts:
        if isinstance(part, Mapping):
            flat.append(maybe_signature(part))
        elif isinstance(part, Iterable) and not isinstance(part, str | bytes):
            flat += _flat(part)
        else:
            raise InvalidOption("canvas", f"must be calls such as task.s(…), got {part!r}")
    return flat


def _parts(given: object) -> tuple[CanvasPart, ...]:
    return () if given is None else tuple(_flat([given]))  # type: ignore[list-item]


def _calls(given: object) -> tuple[Signature, ...]:
    parts = _parts(given)
    for part in parts:
        if not isinstance(part, Signature):
            raise InvalidOption("link_error", f"must be calls such as task.s(), got {part!r}")
    return parts  # type: ignore[return-value]


def _eager(ran: Ran) -> list[EagerResult]:
    results = ran.results if isinstance(ran, GroupResult) else [ran]
    return [one for one in results if isinstance(one, EagerResult)]


def _job_id(node: Node) -> int:
    assert node.job is not None
    return node.job.id
