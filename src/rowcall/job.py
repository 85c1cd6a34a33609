"""The values a user sees. All are frozen snapshots; reading again is `jobs.get(id)`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec


class Status(StrEnum):
    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


WAITING = (Status.BLOCKED, Status.SCHEDULED, Status.PENDING)
FINISHED = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job as it was when it was read.

    A payload that is not a JSON object (only plain SQL can write one) is shown as `{"__raw__": "the text"}`.
    """

    id: int
    type: str
    queue: str
    payload: dict[str, object]
    status: Status
    priority: int = 0
    attempt: int = 0
    max_attempts: int = 5
    run_at: datetime
    created_at: datetime
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    worker: str | None = None
    heartbeat_at: datetime | None = None
    progress: float | None = None
    result: object = None
    error_code: str | None = None
    error_detail: str | None = None
    key: str | None = None
    tags: tuple[str, ...] = ()
    chain_id: int | None = None
    chain_index: int | None = None
    expires_at: datetime | None = None
    timeout: float | None = None
    retry: str | None = None
    duplicate: bool = False
    lease: int = 0


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try at a job. `status` is succeeded, failed, cancelled, running, lost, released or snoozed."""

    job_id: int
    attempt: int
    status: str
    claimed_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    worker: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    traceback: str | None = None
    next_run_at: datetime | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a job's timeline."""

    at: datetime
    event: str
    actor: str | None = None
    detail: str | None = None


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Some jobs, newest first; `next_cursor` is None on the last page."""

    jobs: list[Job]
    next_cursor: str | None = None


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process that is registered now."""

    name: str
    host: str
    pid: int
    queues: str
    concurrency: int
    version: str
    started_at: datetime
    beat: int
    beat_at: datetime
    lease_seconds: float
    lock_path: str | None
    running: int


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs there are in each state, in all and by queue."""

    total: int
    by_status: dict[str, int]
    by_queue: dict[str, dict[str, int]]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a `drain` did, counted in attempts."""

    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    cancelled: int = 0
    released: int = 0

    @property
    def total(self) -> int:
        return self.succeeded + self.failed + self.retried + self.snoozed + self.cancelled + self.released
