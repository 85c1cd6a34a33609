"""Endpoints: functions whose annotations say what a request must have and what the answer is."""

from __future__ import annotations

import re
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from rowcall.domain.attention import Finding
from rowcall.domain.job import Stats
from rowcall.domain.value import Value
from rowcall.http.access import Access
from rowcall.http.problems import Problem
from rowcall.http.shared_counts import SharedCounts
from rowcall.operations.effects import reading_within
from rowcall.operations.stats import stats_of
from rowcall.overview.attention.queue_waits import QueueWait
from rowcall.overview.scrub import V, scrubbed
from rowcall.queue import Operation, Queue

T = TypeVar("T")

READ_SECONDS, ANSWER_SECONDS = 3.0, 10.0
SEARCH_SECONDS = 0.1
"""How long jobs are compared with a filter that no index knows, before a page or a count ends."""
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_MULTIPLE = (list, tuple)


class Call(NamedTuple):
    """A request to an endpoint: the queue, who asks, the counts of the app, and the `Idempotency-Key` header."""

    queue: Queue
    access: Access
    counts: SharedCounts
    idempotency_key: str | None = None
    patience_seconds: float = ANSWER_SECONDS
    """How long to wait for counts, if there are none of the last minute."""

    @property
    def actor(self) -> str:
        return self.access.actor

    async def read(self, operation: Operation[T]) -> T:
        """Return what an operation reads, or raise `StoreUnavailable` or `TimeoutError`."""
        limited = reading_within(operation, READ_SECONDS)
        return await self.queue.clock.within(self.queue.arun(limited), ANSWER_SECONDS)

    async def write(self, operation: Operation[T]) -> T:
        return await self.queue.arun(operation)

    async def change(self, operation: Operation[T]) -> T:
        """Write what a person has asked for, who then looks at new counts."""
        try:
            return await self.write(operation)
        finally:
            self.counts.forget()

    async def stats(self, window: float) -> Stats:
        """Return the statistics. Their counts are some seconds old if counting is slow."""
        counts = await self.counts.jobs.read(self.patience_seconds)
        return await self.read(stats_of(self.queue, window, counts))

    async def attention(self) -> list[Finding]:
        """Return what needs attention, as it may be shown."""
        return self.all_scrubbed(await self.counts.attention.read(self.patience_seconds))

    async def waits(self) -> dict[str, list[QueueWait]]:
        """Return why due jobs wait, by queue, as it may be shown."""
        found = await self.counts.waits.read(self.patience_seconds)
        return {name: self.all_scrubbed(waits) for name, waits in found.items()}

    def scrubbed(self, value: V) -> V:
        return scrubbed(self.queue.declared.failures, value)

    def all_scrubbed(self, values: Iterable[V]) -> list[V]:
        return [scrubbed(self.queue.declared.failures, value) for value in values]


class EndpointInput(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The base class of what is given in a query or a body."""


class Nothing(Value, frozen=True):
    """An answer without content."""


Handler = Callable[..., Awaitable[Value]]


class Endpoint:
    """A function of a `Call`, of the parameters in its path, and of a `query` or a `body`, which it names so."""

    def __init__(self, method: str, path: str, handler: Handler, *, status: int = 200) -> None:
        self.method = method
        self.path = path
        self.handler = handler
        self.status = status
        hints = typing.get_type_hints(handler)
        self.parameters: dict[str, type] = {name: hints[name] for name in _PARAMETER.findall(path)}
        self.query: type[EndpointInput] | None = hints.get("query")
        self.body: type[EndpointInput] | None = hints.get("body")
        self.answer: type[Value] = hints["return"]

    @property
    def changes(self) -> bool:
        return self.method != "GET"

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def summary(self) -> str:
        return str(self.handler.__doc__).strip()

    @property
    def template(self) -> str:
        """Return the path as OpenAPI writes it."""
        return _PARAMETER.sub(r"{\1}", self.path)

    async def run(
        self,
        call: Call,
        path: Mapping[str, str],
        query: Sequence[tuple[str, str]] = (),
        body: object = None,
        *,
        lax: bool = False,
    ) -> Value:
        """Check what was given, and call the function. With `lax`, texts of a form become numbers."""
        if self.changes and not call.access.may_operate:
            raise Problem(403, "Forbidden", f"{call.actor} may read, but not change anything")
        arguments: dict[str, object] = {}
        for name, kind in self.parameters.items():
            arguments[name] = msgspec.convert(path[name], kind, strict=False)
        if self.query is not None:
            arguments["query"] = converted(query, self.query)
        if self.body is not None:
            arguments["body"] = msgspec.convert({} if body is None else body, self.body, strict=not lax)
        return await self.handler(call, **arguments)


Q = TypeVar("Q", bound=EndpointInput)


def converted(pairs: Sequence[tuple[str, str]], kind: type[Q]) -> Q:
    """Return the fields of a query or a form. Lists may repeat; empty texts are left out."""
    multiple = {
        field.name for field in msgspec.structs.fields(kind) if typing.get_origin(_plain(field.type)) in _MULTIPLE
    }
    values: dict[str, object] = {}
    for name, value in pairs:
        if value and name in multiple:
            values.setdefault(name, [])
            typing.cast("list[str]", values[name]).append(value)
        elif value:
            values[name] = value
    return msgspec.convert(values, kind, strict=False)


def _plain(annotation: object) -> object:
    """Return an optional type without its None."""
    parts = [part for part in typing.get_args(annotation) if part is not type(None)]
    is_union = type(None) in typing.get_args(annotation)
    return parts[0] if is_union and len(parts) == 1 else annotation
