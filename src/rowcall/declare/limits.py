"""The limits that a process declares, and how they apply to the jobs it enqueues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rowcall.base.text import did_you_mean
from rowcall.domain import checks
from rowcall.domain.errors import InvalidOption
from rowcall.domain.fairness import OrderedBy
from rowcall.domain.limits import Breaker, JobLimit, Limit, Numbers, TaskLimit, checked_limits, job_limits_to_text
from rowcall.domain.payload import Arguments, payload_from_row
from rowcall.domain.push import PushOptions
from rowcall.store.limits.admission import DeclaredLimits
from rowcall.store.new_job import Derived, NewJob
from rowcall.store.queries.claims import Ready

MOST_GIVEN = 10_000


class KnownLimits:
    """The limits of this process. Two limits with the same name must be equal."""

    def __init__(self) -> None:
        self._by_name: dict[str, Limit] = {}
        self._given: dict[str, Limit] = {}
        self._of_task: dict[str, tuple[TaskLimit, ...]] = {}
        self._of_queue: dict[str, tuple[TaskLimit, ...]] = {}
        self._ordered: dict[str, OrderedBy] = {}
        self.breakers: dict[str, Breaker] = {}
        self.declared = DeclaredLimits(self._of_task, self._of_queue, self._ordered)

    def declare_task(self, task: str, limits: tuple[TaskLimit, ...]) -> None:
        self._declare([bound.limit for bound in limits])
        self._of_task[task] = limits

    def declare_order(self, task: str, order: OrderedBy) -> None:
        self._ordered[task] = order

    def declare_queue(self, queue: str, limits: Sequence[Limit]) -> None:
        for limit in limits:
            if limit.by is not None:
                raise InvalidOption(
                    "limit",
                    f"{limit.name!r}: a limit of a queue cannot have by={limit.by!r}; it counts all jobs of the queue",
                )
            if limit.unit_arguments:
                raise InvalidOption("limit", f"{limit.name!r}: units of a queue's limit must be a number")
        if queue in self._of_queue:
            known = ", ".join(repr(one.limit.name) for one in self._of_queue[queue])
            new = ", ".join(repr(limit.name) for limit in limits)
            raise InvalidOption("queue", f"{queue!r} is limited twice: by {known}, and now by {new}; pass one list")
        self._declare(limits)
        self._of_queue[queue] = tuple(TaskLimit(limit) for limit in limits)

    def check(self, limits: Sequence[Limit]) -> None:
        """Refuse a limit that differs from one with the same name."""
        for limit in limits:
            known = self._by_name.get(limit.name) or self._given.get(limit.name, limit)
            if known != limit:
                raise InvalidOption(
                    "limit", f"{limit.name!r} is declared twice with different values: {known} and {limit}"
                )
        if len(self._given) >= MOST_GIVEN:  # names are generated, perhaps one per job: keep the recent ones
            self._given.clear()
        self._given.update({limit.name: limit for limit in limits})

    def _declare(self, limits: Sequence[Limit]) -> None:
        self.check(limits)
        self._by_name.update({limit.name: limit for limit in limits})
        self.breakers.update({limit.name: limit.breaker for limit in limits if limit.breaker is not None})

    def check_hold(self, name: str, limits: Iterable[JobLimit] | None) -> None:
        """Refuse to hold an unknown limit, or one with keys of which the job has none. `limits` are those of the job,
        if they are known.
        """
        if any(limit.name == name for limit in limits or ()):
            return
        known = self._given | self._by_name
        if name not in known:
            raise InvalidOption("hold", f"unknown limit {name!r}{did_you_mean(name, known)}; the job has no such limit")
        if limits is not None and (by := known[name].by) is not None:
            raise InvalidOption("hold", f"cannot be {name!r}: that limit counts by {by!r}, and the job is not under it")

    def check_given(self, limits: Sequence[Limit]) -> None:
        """Check the limits of a call. The workers that end its job must know their breakers."""
        self.check(limits)
        for limit in limits:
            if limit.breaker is not None and limit.name not in self._by_name:
                raise InvalidOption("limit", f"{limit.name!r}: declare a limit with a breaker, with task(limit=…)")

    def breakers_of(self, job: Ready) -> Mapping[str, Breaker]:
        """Return the breakers of a job's limits, by name."""
        return {one.name: self.breakers[one.name] for one in self.declared.of(job) if one.name in self.breakers}

    @property
    def known(self) -> dict[str, Numbers]:
        """The numbers of the declared limits, and of the limits in calls of this process."""
        return {name: limit.numbers for name, limit in (self._given | self._by_name).items()}

    @property
    def numbers(self) -> dict[str, Numbers]:
        return {name: limit.numbers for name, limit in sorted(self._by_name.items())}


def bound_to(limits: Sequence[Limit], task: str, arguments: Arguments) -> tuple[TaskLimit, ...]:
    """Return the limits of a task, or raise `InvalidOption` if one counts by an argument that the task lacks."""
    return tuple(_bound_to(limit, task, arguments) for limit in limits)


def _bound_to(limit: Limit, task: str, arguments: Arguments) -> TaskLimit:
    named = [("by", limit.by)] if limit.by is not None else []
    for option, name in (*named, *(("units", name) for name in limit.unit_arguments)):
        if name not in arguments.names and not arguments.takes_any:
            names = ", ".join(arguments.names) or "none"
            raise InvalidOption(
                "limit", f"{limit.name!r}: {option}={name!r} is not an argument of {task} (arguments: {names})"
            )
    missing = None if limit.by is None else arguments.value_if_missing(limit.by)
    defaults = {name: arguments.value_if_missing(name) for name in limit.unit_arguments}
    return TaskLimit(limit, missing, defaults=defaults)


def host_limits(target: str | None, push: PushOptions | None) -> tuple[TaskLimit, ...]:
    """Return the limits of the host that jobs are delivered to."""
    return () if target is None or push is None else push.host_limits(target)


def limited(job: NewJob, limits: tuple[TaskLimit, ...] | None) -> NewJob:
    return job if limits is None else msgspec.structs.replace(job, limited_by=limits)


def derived(job: NewJob, payload: Mapping[str, object]) -> Derived:
    """Return the columns that follow from the arguments."""
    limits = None if job.limited_by is None else job_limits_to_text(one.for_job(payload) for one in job.limited_by)
    return Derived(limits) if job.shared_by is None else Derived(limits, *job.shared_by.for_job(job.type, payload))


def with_derived(job: NewJob, payload: str) -> NewJob:
    """Return the job with the columns that follow from its arguments."""
    if job.is_derived:
        return job
    columns = derived(job, payload_from_row(payload))
    if job.limited_by is None:
        columns = columns._replace(limits=job.limits)
    return msgspec.structs.replace(job, **columns._asdict(), limited_by=None, shared_by=None)


def checked_queue_limit(queue: object, limit: object) -> tuple[Limit, ...]:
    checks.queue("queue", queue)
    return checked_limits(limit)
