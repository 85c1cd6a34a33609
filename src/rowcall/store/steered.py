"""What a database must be able to say about what people do to jobs and queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rowcall.domain.job import Job, Paused
from rowcall.store.statement import Plan


class Asked(NamedTuple):
    """A running attempt that somebody has asked to cancel."""

    id: int
    lease: int
    queue: str
    type: str
    attempt: int
    reason: str | None


class Interrupted(NamedTuple):
    """An attempt that is not to go on: somebody asked to cancel it, or it is no longer current."""

    id: int
    lease: int
    is_current: bool
    """False where its job is gone, has another lease, or is not running."""
    reason: str | None


class Rerun(NamedTuple):
    """A finished job that is to run again, at a time or at once."""

    id: int
    more_attempts: int
    run_at_ms: int | None = None


class Obstacle(NamedTuple):
    """Why a finished job cannot run again: another has its key, or a later step of its chain is there."""

    job_id: int
    kind: str
    other_id: int


class FailedAt(NamedTuple):
    """A failed job, and where it stands among those with its code: by the moment of its end, then by its id."""

    moment: int
    job: Job


class Steered(Protocol):
    # cancelling what runs
    def ask_to_cancel(self, job_ids: Sequence[int]) -> Plan[set[int]]:
        """Of locked jobs that run; gives those of which it was not asked before."""

    def asked_to_cancel(self, leases: Sequence[tuple[int, int]]) -> Plan[list[Asked]]:
        """Which of these attempts (ids and leases) were asked to end; nobody can ask until the transaction ends."""

    def interrupted(self, attempts: Sequence[tuple[int, int]]) -> Plan[list[Interrupted]]:
        """Return those of the attempts (ids and leases) that were asked to end or are no longer current."""

    # many at once
    def lock_jobs(self, job_ids: Sequence[int]) -> Plan[list[Job]]:
        """The jobs that there are, in the order of their ids, of which nobody changes any before the end."""

    def cancel_waiting(
        self, job_ids: Sequence[int], error_code: str, reason: str | None, now_ms: int | None
    ) -> Plan[None]:
        """Of locked jobs that wait."""

    def unfinished_with_key(self, kind: str, key: str, before_id: int | None, limit: int) -> Plan[list[Job]]:
        """Newest first."""

    def rerun(self, jobs: Sequence[Rerun], now_ms: int | None) -> Plan[None]:
        """Of locked jobs that have finished; what was said of their ends is kept."""

    def obstacles(self, job_ids: Sequence[int]) -> Plan[list[Obstacle]]: ...
    def failed_with(
        self, error_code: str, queue: str | None, kind: str | None, after: tuple[int, int] | None, limit: int
    ) -> Plan[list[FailedAt]]:
        """Failed jobs with one code, those that failed first before the others."""

    def record_events(
        self, job_ids: Sequence[int], event: str, actor: str | None, detail: str | None, now_ms: int | None
    ) -> Plan[None]: ...

    # changing one that waits
    def reschedule(self, job_id: int, run_at_ms: int | None, delay_ms: int, now_ms: int | None) -> Plan[None]: ...
    def set_priority(self, job_id: int, priority: int) -> Plan[None]: ...

    # pauses
    def pause(self, kind: str, name: str, actor: str | None, now_ms: int | None) -> Plan[Paused]:
        """What is paused already stays as it is."""

    def resume(self, kind: str, name: str) -> Plan[bool]: ...
    def paused(self) -> Plan[list[Paused]]: ...
