"""The values that an enqueue writes, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import msgspec

from rowcall.domain.fairness import Sharing
from rowcall.domain.limits import TaskLimit
from rowcall.store.statement import Parameter

KeyOf = Callable[..., str]
OnEnd = Callable[[str, str], str | None]
"""Returns what follows the end of a job, given its task and its queue: see `NewJob.on_end`."""


class Blocker(NamedTuple):
    """A job, or with `of_chain` the chain that it began."""

    job_id: int
    of_chain: bool = False


class Awaited(NamedTuple):
    """A blocker as it was passed: its fields show whether it belongs to this database."""

    blocker: Blocker
    type: str | None = None
    created_at_ms: int | None = None


class Unique(msgspec.Struct, frozen=True, kw_only=True):
    """When another job with the same key is a duplicate, and what happens then."""

    scope: str = "active"
    window_ms: int | None = None
    on_duplicate: str = "return"
    keep_run_at: bool = False
    """Whether a job that is replaced keeps its time."""
    longest_delay_ms: int | None = None
    """How long after its enqueue a job that is replaced runs at the latest."""


class Derived(NamedTuple):
    """The columns of a job that follow from its arguments."""

    limits: str | None = None
    fair: str | None = None
    weight: int | None = None
    ordered: str | None = None
    order_blocks: int | None = None


class NewJob(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The values that an enqueue writes for a job, except its payload."""

    type: str
    queue: str
    priority: int = 0
    max_attempts: int = 5
    run_at_ms: int | None = None
    delay_ms: int = 0
    expires_at_ms: int | None = None
    expires_in_ms: int | None = None
    timeout_seconds: float | None = None
    retry: str | None = None
    tags: str | None = None
    trace_context: str | None = None
    on_end: str | None = None
    """What follows its end: for each status, the job to enqueue."""
    key: str | None = None
    limits: str | None = None
    target: str | None = None
    limited_by: tuple[TaskLimit, ...] | None = None
    """Makes `limits` from the payload; None where the claimer does that."""
    fair: str | None = None
    weight: int | None = None
    ordered: str | None = None
    order_blocks: int | None = None
    shared_by: Sharing | None = None
    """Makes the four fields before it from the payload."""
    unique: Unique | None = None
    key_of: KeyOf | None = None
    after: tuple[Awaited, ...] = ()
    on_blocker_failure: str = "fail"
    blocked: bool = False
    chain_id: int | None = None
    chain_index: int | None = None
    batch_id: int | None = None
    deadline_ms: int | None = None
    """How long after its first `run_at` it must have ended."""
    parent_id: int | None = None
    parent_step: int | None = None
    detached: int | None = None
    """1 if the end of its parent leaves it alone."""

    @cached_property
    def is_derived(self) -> bool:
        """Whether nothing is left to be made from its payload."""
        return self.limited_by is None and self.shared_by is None

    @cached_property
    def is_alone(self) -> bool:
        """Whether it can be written without reading other rows, and has none of the rarest columns."""
        detached = self.detached is not None and self.parent_id is None  # which is refused
        alone = self.unique is None and not self.after and not detached
        return alone and self.batch_id is None and self.deadline_ms is None

    @cached_property
    def is_plain(self) -> bool:
        """Whether it is due at once and has no rare option."""
        special = (self.run_at_ms, self.expires_at_ms, self.expires_in_ms, self.timeout_seconds, self.retry, self.tags)
        others = (self.trace_context, self.on_end, self.target, self.limits, self.limited_by, self.shared_by)
        return self.delay_ms == 0 and all(value is None for value in (*special, *others))


class RelatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be written. It waits for `job.after` and then `after`, in this order.

    A number in `after` is the position of an earlier job of the same call. `chain` is the position of the first step of
    its chain, of which it is step `chain_index`.
    """

    job: NewJob
    payload: str
    after: tuple[Awaited | int, ...] = ()
    chain: int | None = None
    chain_index: int = 0


_schedule_of = attrgetter("priority", "max_attempts", "run_at_ms", "delay_ms", "timeout_seconds", "retry", "tags")
_expiry_of = attrgetter("expires_at_ms", "expires_in_ms", "trace_context", "on_end", "target")


def fields_of(job: NewJob, payload: str) -> tuple[Parameter, ...]:
    """Return a job as the statements that insert any take it, in the order of their parameters."""
    return job.type, job.queue, payload, *_schedule_of(job), *_expiry_of(job)


class Inserted(msgspec.Struct, frozen=True, gc=False):
    id: int
    status: str
    run_at_ms: int
    created_at_ms: int
    expires_at_ms: int | None
    batch_id: int | None = None
