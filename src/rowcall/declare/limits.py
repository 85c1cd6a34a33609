"""The limits that a process declares: checked against each other, published, and bound to the jobs it enqueues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rowcall.domain.config import queue_complaint
from rowcall.domain.errors import InvalidOption
from rowcall.domain.limits import Limit, LimitOf, Numbers, checked_limits, entries_to_text
from rowcall.domain.payload import Arguments, payload_from_row
from rowcall.store.dialect import NewJob
from rowcall.store.limits.admission import DeclaredLimits

MOST_GIVEN = 10_000


class KnownLimits:
    """What this process knows of limits. Two that have one name must be one limit."""

    def __init__(self) -> None:
        self._by_name: dict[str, Limit] = {}
        self._given: dict[str, Limit] = {}
        self._of_task: dict[str, tuple[LimitOf, ...]] = {}
        self._of_queue: dict[str, tuple[LimitOf, ...]] = {}
        self.declared = DeclaredLimits(self._of_task, self._of_queue)

    def declare_task(self, task: str, limits: tuple[LimitOf, ...]) -> None:
        self._declare([bound.limit for bound in limits])
        self._of_task[task] = limits

    def declare_queue(self, queue: str, limits: Sequence[Limit]) -> None:
        for limit in limits:
            if limit.by is not None:
                raise InvalidOption("limit", f"{limit.name!r}: a limit of a queue is about all its jobs, without by")
        self._declare(limits)
        self._of_queue[queue] = tuple(LimitOf(limit) for limit in limits)

    def check(self, limits: Sequence[Limit]) -> None:
        """Refuse what disagrees with what is declared, or was given before."""
        for limit in limits:
            known = self._by_name.get(limit.name) or self._given.get(limit.name, limit)
            if known != limit:
                raise InvalidOption("limit", f"{limit.name!r} is declared twice, and differently: {known} and {limit}")
        if len(self._given) >= MOST_GIVEN:  # names that are made up as they go: the last ones will do
            self._given.clear()
        self._given.update({limit.name: limit for limit in limits})

    def _declare(self, limits: Sequence[Limit]) -> None:
        self.check(limits)
        self._by_name.update({limit.name: limit for limit in limits})

    @property
    def numbers(self) -> dict[str, Numbers]:
        return {name: limit.numbers for name, limit in sorted(self._by_name.items())}


def bound_to(limits: Sequence[Limit], task: str, arguments: Arguments) -> tuple[LimitOf, ...]:
    """The limits of a task; refused where one counts by an argument that the task does not have."""
    bound = []
    for limit in limits:
        if limit.by is None:
            bound.append(LimitOf(limit))
            continue
        if limit.by not in arguments.names and not arguments.takes_any:
            names = ", ".join(arguments.names) or "none"
            raise InvalidOption(
                "limit", f"{limit.name!r} counts by {limit.by!r}, which {task} does not take (its arguments: {names})"
            )
        bound.append(LimitOf(limit, arguments.value_if_missing(limit.by)))
    return tuple(bound)


def limited(job: NewJob, limits: tuple[LimitOf, ...] | None) -> NewJob:
    return job if limits is None else msgspec.structs.replace(job, limited_by=limits)


def limits_text(job: NewJob, payload: Mapping[str, object]) -> str | None:
    """What the row says of its limits."""
    return None if job.limited_by is None else entries_to_text(one.entry(payload) for one in job.limited_by)


def with_limits(job: NewJob, payload: str) -> NewJob:
    """The job with what its row says of its limits."""
    if job.limited_by is None:
        return job
    return msgspec.structs.replace(job, limits=limits_text(job, payload_from_row(payload)), limited_by=None)


def limits_texts(job: NewJob, payloads: Sequence[str]) -> list[str | None] | None:
    return None if job.limited_by is None else [limits_text(job, payload_from_row(payload)) for payload in payloads]


def checked_queue_limit(queue: object, limit: object) -> tuple[Limit, ...]:
    if complaint := queue_complaint(queue):
        raise InvalidOption("queue", complaint)
    limits = checked_limits(limit)
    if limits is None:
        raise InvalidOption("limit", 'wants a Limit, such as Limit("mail", concurrency=10), not None')
    return limits
