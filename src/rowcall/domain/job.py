"""The values a user sees. All are frozen snapshots; reading again is `jobs.get(id)`."""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from rowcall.domain.value import Value

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # so that `job = jobs.get(job.id)` is the same type again
    R = TypeVar("R", covariant=True, default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R", covariant=True)  # defaults came with Python 3.13


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


class Job(Value, Generic[R], frozen=True, kw_only=True):
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
    progress_message: str | None = None
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


class Attempt(Value, frozen=True, kw_only=True):
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


class Event(Value, frozen=True, kw_only=True):
    """One line of a job's timeline."""

    at: datetime
    event: str
    actor: str | None = None
    detail: str | None = None


class Page(Value, frozen=True, kw_only=True):
    """Some jobs, newest first; `next_cursor` is None on the last page."""

    jobs: list[Job]
    next_cursor: str | None = None


class BlockedBy(Value, frozen=True, kw_only=True):
    """What a job waits for, or waited for: a job, or the chain that this job began. `open` while it keeps it waiting.

    `status` is None once it is deleted; that of a chain is the `status` of the `Chain`.
    """

    id: int
    is_chain: bool
    status: Status | None
    open: bool


class Chain(Value, frozen=True, kw_only=True):
    """Steps of which each goes on from the one before. Its id is that of its first job, and so is its type.

    `length` counts the steps there are so far, `current` is the first that has not succeeded, or the last; `result` is
    that of the last. Only `jobs.chain(id)` fills in `steps`.
    """

    id: int
    type: str
    queue: str
    status: Status
    length: int
    current: int
    created_at: datetime
    finished_at: datetime | None = None
    result: object = None
    error_code: str | None = None
    error_detail: str | None = None
    steps: tuple[Job, ...] = ()


class ChainPage(Value, frozen=True, kw_only=True):
    """Some chains, newest first; `next_cursor` is None on the last page."""

    chains: list[Chain]
    next_cursor: str | None = None


class WorkerInfo(Value, frozen=True, kw_only=True):
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


class Schedule(Value, frozen=True, kw_only=True):
    """A schedule as it was when it was read. It ticks by a `cron` line in the zone `tz`, or `every` so often.

    `next_run_at` is None while it is paused, and where a `problem` keeps it from ticking.
    """

    name: str
    task: str
    arguments: dict[str, object]
    cron: str | None = None
    every: timedelta | None = None
    tz: str = "UTC"
    catch_up: str = "one"
    paused: bool = False
    paused_by: str | None = None
    next_run_at: datetime | None = None
    last_run_at: datetime | None = None
    last_job_id: int | None = None
    problem: str | None = None


class Percentiles(Value, frozen=True):
    """Durations in seconds: half of all stay within `p50`, 99 of 100 within `p99`."""

    p50: float
    p95: float
    p99: float


class Pace(Value, frozen=True, kw_only=True):
    """How things went during the last minutes: jobs that came, attempts that ended, how long they waited and ran."""

    arrived: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    wait: Percentiles | None = None
    run: Percentiles | None = None


EVERY_QUEUE = "*"
"""What `pause` takes instead of a name."""


class Paused(Value, frozen=True, kw_only=True):
    """What no worker starts jobs of until it is resumed. `kind` is queue or task; the queue `*` is every queue."""

    kind: str
    name: str
    actor: str | None
    at: datetime


def what_is_paused(kind: str, name: str) -> str:
    """
    >>> what_is_paused("queue", "mail"), what_is_paused("queue", "*")
    ('queue mail', 'every queue')
    """
    return "every queue" if (kind, name) == ("queue", EVERY_QUEUE) else f"{kind} {name}"


def is_paused(queue: str, task: str, paused: Collection[tuple[str, str]]) -> bool:
    """Whether jobs of this queue and task are not started, given the kinds and names of what is paused."""
    return not {("queue", EVERY_QUEUE), ("queue", queue), ("task", task)}.isdisjoint(paused)


class Stats(Value, frozen=True, kw_only=True):
    """How many jobs there are in each state, how long the oldest has been waiting, and how fast they come and go.

    `window` is the time that the paces are about, in seconds, up to now; arrivals are counted over `arrival_window`,
    which is shorter where very many came.
    """

    total: int
    by_status: dict[str, int]
    by_queue: dict[str, dict[str, int]]
    by_type: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    oldest_waiting: float | None = None
    oldest_waiting_by_queue: dict[str, float] = msgspec.field(default_factory=dict)
    window: float = 0.0
    arrival_window: float = 0.0
    arrivals_per_second: float = 0.0
    completions_per_second: float = 0.0
    pace: Pace = Pace()
    pace_by_queue: dict[str, Pace] = msgspec.field(default_factory=dict)
    pace_by_type: dict[str, Pace] = msgspec.field(default_factory=dict)
    paused: list[Paused] = msgspec.field(default_factory=list)


class InProgress(Job, frozen=True, kw_only=True):
    """A running job with what is known of its worker, and since when nothing was heard of it, in seconds."""

    silent_for: float
    host: str | None = None
    worker_silent_for: float | None = None


class Retries(Value, frozen=True, kw_only=True):
    """How many jobs have used how many attempts, in all and by type; 100 stands for 100 or more."""

    by_attempts: dict[int, int]
    by_type: dict[str, dict[int, int]]


class ErrorGroup(Value, frozen=True, kw_only=True):
    """Failed jobs with one error code; `sample` is the detail of the last."""

    error_code: str
    count: int
    types: dict[str, int]
    first_at: datetime | None
    last_at: datetime | None
    sample: str | None


class Kept(Value, frozen=True, kw_only=True):
    """Finished jobs that one rule of retention is about. `keep` is in seconds, None for ever."""

    status: Status
    queue: str
    type: str
    keep: float | None
    jobs: int
    prunable: int
    oldest_at: datetime | None


class RetentionReport(Value, frozen=True, kw_only=True):
    """What is kept, for how long, and what the next prune deletes."""

    kept: list[Kept]
    jobs: int
    prunable: int
    size_bytes: int


class Pruned(Value, frozen=True, kw_only=True):
    """What a prune deleted, or with `dry_run` would have."""

    jobs: int
    by_status: dict[str, int]
    dry_run: bool = False


class Summary(Value, frozen=True, kw_only=True):
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
