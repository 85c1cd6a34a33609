"""The values that users receive: frozen snapshots. `jobs.get(id)` reads a job again."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple

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
    """The state of a job. It is a `str`: `job.status == "failed"`."""

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
    """A job as it was when it was read. `Job[int]` is a job whose result is an `int`.

    A payload that is not a JSON object, which only plain SQL can write, is shown as `{"__raw__": "the text"}`.
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
    deadline_at: datetime | None = None
    timeout: float | None = None
    retry: str | None = None
    target: str | None = None
    duplicate: bool = False
    batch_id: int | None = None
    parent_id: int | None = None
    lease: int = 0
    holder: int = 0

    _hidden = ("lease", "holder")  # they fence the calls of an attempt, and mean nothing elsewhere

    def __repr__(self) -> str:
        shown = {"id": self.id, "type": self.type, "status": str(self.status), "queue": self.queue}
        if self.attempt:
            shown["attempt"] = self.attempt
        if self.error_code is not None:
            shown["error_code"] = self.error_code
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class Attempt(Value, frozen=True, kw_only=True):
    """One execution of a job. `status` is succeeded, failed, cancelled, running, lost, released or snoozed."""

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
    type: str = ""

    _hidden = ("type",)  # the job has it; what is encrypted is bound to it


class Event(Value, frozen=True, kw_only=True):
    """One line of a job's timeline."""

    at: datetime
    event: str
    actor: str | None = None
    detail: str | None = None
    type: str | None = None
    secret: str | None = None
    secret_kind: str = ""

    _hidden: ClassVar[tuple[str, ...]] = ("type", "secret", "secret_kind")
    # the end of the detail, if it is encrypted, and what it is bound to


class JobEvent(Event, frozen=True, kw_only=True):
    """Something that happened to a job: a line of its timeline, as `jobs.events()` yields it.

    If events were missed, `event` is `"MISSED"`, and there is no job.
    """

    job_id: int | None = None
    type: str | None = None
    queue: str | None = None

    _hidden = ("secret", "secret_kind")


class JobOutcome(Value, frozen=True, kw_only=True):
    """How an attempt at a job ended: what follow-ups (`on_failure`, `on_success`) and observers get.

    `event` is the status in which the job ended. For an observer it can also be `"retried"`, `"recovered"`,
    `"released"` or `"snoozed"`: then the job runs again.
    """

    id: int
    type: str
    queue: str
    event: str
    attempt: int
    max_attempts: int
    arguments: dict[str, object] = msgspec.field(default_factory=dict)
    result: object = None
    error_code: str | None = None
    error_detail: str | None = None


class Rekeyed(Value, frozen=True, kw_only=True):
    """What `jobs.rekey()` did, as numbers of rows. An `unreadable` row has a key that this process does not have."""

    checked: int = 0
    rekeyed: int = 0
    unreadable: int = 0


class Page(Value, frozen=True, kw_only=True):
    """A page of jobs: `for job in page`, `len(page)`. `next_cursor` is None on the last page.

    A `partial` page ended because 100,000 jobs were looked at: more may fit, and `next_cursor` continues there.
    `searched` is how many were looked at.
    """

    jobs: list[Job]
    next_cursor: str | None = None
    partial: bool = False
    searched: int = 0

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


class BlockedBy(Value, frozen=True, kw_only=True):
    """A job or chain that a job waits for, or waited for. It is `open` while the job still waits for it.

    A chain is named by its first job. `status` is the status of the job or the chain, or None if it was deleted.
    """

    id: int
    is_chain: bool
    status: Status | None
    open: bool


class Dependent(Value, frozen=True, kw_only=True):
    """A job that waits, or waited, for another job or for its chain. It is `open` while the job still waits."""

    id: int
    type: str
    queue: str
    status: Status
    of_chain: bool
    open: bool


class Chain(Value, frozen=True, kw_only=True):
    """A sequence of jobs, each of which starts when the previous one has succeeded.

    `id` and `type` are those of the first job. `length` counts the steps so far, `current` is the first step that has
    not succeeded, else the last; `result` is that of the last step. Only `jobs.chain(id)` fills in `steps`.
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
    duplicate: bool = False
    steps: tuple[Job, ...] = ()
    last_type: str = ""

    _hidden = ("last_type",)  # the task whose result and error these are; what is encrypted is bound to it


class ChainPage(Value, frozen=True, kw_only=True):
    """A page of chains, newest first, which can be iterated; `next_cursor` is None on the last page."""

    chains: list[Chain]
    next_cursor: str | None = None

    def __iter__(self) -> Iterator[Chain]:
        return iter(self.chains)

    def __len__(self) -> int:
        return len(self.chains)


class WorkerInfo(Value, frozen=True, kw_only=True):
    """A registered worker process."""

    name: str
    host: str
    pid: int
    queues: str
    concurrency: int
    version: str
    started_at: datetime
    heartbeats: int
    heartbeat_at: datetime
    lease_seconds: float
    lock_path: str | None
    running: int
    buffered: int = 0
    """Jobs that it has claimed, and starts when slots come free."""
    tasks: list[str] | None = None
    """The names of the tasks that it knows; None if it may know any."""


class Schedule(Value, frozen=True, kw_only=True):
    """A schedule as it was when it was read. It ticks by a `cron` line in the time zone `tz`, or with a period `every`.

    `next_run_at` is None while it is paused, or if a `problem` prevents it from ticking. `declaration` is None if
    `add_schedule` wrote it. Of one that an app's code declares, it is "current"; "new" until a worker has written it;
    "gone" if this process declares tasks, but no longer this schedule; "unknown" in a process that declares no tasks.
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
    declaration: str | None = None


class Percentiles(Value, frozen=True):
    """Durations in seconds: half of all are at most `p50`, 99 of 100 at most `p99`."""

    p50: float
    p95: float
    p99: float


class Pace(Value, frozen=True, kw_only=True):
    """Recent activity: jobs that arrived, attempts that ended, and how long they waited and ran."""

    arrived: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    wait: Percentiles | None = None
    run: Percentiles | None = None


EVERY_QUEUE = "*"
"""Given to `pause` instead of a name."""


class Paused(Value, frozen=True, kw_only=True):
    """A paused queue or task, of which no worker starts jobs. `kind` is queue or task; the queue `*` is every queue."""

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
    """Return whether jobs of this queue and task are paused, given the kinds and names of all pauses."""
    return not {("queue", EVERY_QUEUE), ("queue", queue), ("task", task)}.isdisjoint(paused)


def paused_by(queue: str, task: str, paused: Iterable[Paused]) -> Paused | None:
    """Return the first of the pauses that concerns jobs of this queue and task."""
    return next((one for one in paused if is_paused(queue, task, [(one.kind, one.name)])), None)


def serves(queues: str, queue: str) -> bool:
    """Return whether a worker serves a queue, given what its registration says: `mail=10,default`, or `*`.

    In doubt it does: a name that was given by a mapping may have a comma or an equals sign in it.
    """
    if queues == EVERY_QUEUE or queue in (part.partition("=")[0] for part in queues.split(",")):
        return True
    return ("," in queue or "=" in queue) and queue in queues


def most_of_queue(queues: str, queue: str) -> int | None:
    """Return how many jobs of a queue a worker runs at a time, given what its registration says; None if not limited.

    >>> most_of_queue("mail=10,default", "mail"), most_of_queue("mail=10,default", "default"), most_of_queue("*", "a")
    (10, None, None)
    """
    most = dict(part.rpartition("=")[::2] for part in queues.split(",")).get(queue, "")
    return int(most) if most.isdecimal() else None


class Reason(StrEnum):
    """Why a job waits, or that it does not. It is a `str`."""

    SCHEDULED = "scheduled"
    RETRY = "retry"
    SIGNAL = "signal"
    CHILD = "child"
    BLOCKED = "blocked"
    PAUSED = "paused"
    LIMIT = "limit"
    ORDER = "order"
    MISMATCH = "mismatch"
    HELD = "held"
    NO_WORKER = "no worker"
    NO_WORKER_FOR_QUEUE = "no worker for the queue"
    NO_WORKER_FOR_TASK = "no worker for the task"
    BEHIND = "behind"
    NEXT = "next"
    BUFFERED = "buffered"
    RUNNING = "running"
    FINISHED = "finished"


class Why(Value, frozen=True, kw_only=True):
    """Why a job waits, as one `sentence` and as values. `until` is when it may run at the earliest, if that is known.

    `ahead` has the number of jobs that come first, by priority; 1,000 in total means 1,000 or more. `error_code` is
    that of the last attempt, `limit` the key of a full limit, `first` the job that comes first in order, and `blockers`
    has the open ones.
    """

    job_id: int
    status: Status
    reason: Reason
    sentence: str
    until: datetime | None = None
    error_code: str | None = None
    paused: Paused | None = None
    limit: str | None = None
    first: int | None = None
    blockers: list[BlockedBy] = msgspec.field(default_factory=list)
    ahead: dict[int, int] = msgspec.field(default_factory=dict)
    worker: str | None = None

    def __str__(self) -> str:
        return self.sentence


class StackFrame(Value, frozen=True):
    """A line that a function has reached. `code` is its text, if the source is there."""

    file: str
    line: int
    function: str
    module: str = ""
    code: str = ""

    def __str__(self) -> str:
        said = f'  File "{self.file}", line {self.line}, in {self.function}'
        return f"{said}\n    {self.code}" if self.code else said


class Stack(Value, frozen=True, kw_only=True):
    """Where a running handler is: `frames`, outermost first. As a text it looks like a traceback."""

    job_id: int
    type: str
    attempt: int
    worker: str
    started_at: datetime | None
    frames: list[StackFrame]

    def __str__(self) -> str:
        return "\n".join(map(str, self.frames))


class Counts(NamedTuple):
    """How many jobs of each status, queue and type there were at a time, and since when the first of a queue waits."""

    at_ms: int
    jobs: Counter[tuple[str, str, str]]
    oldest_ms: dict[str, int]


class Stats(Value, frozen=True, kw_only=True):
    """Counts of jobs by state, the age of the oldest waiting job, and recent rates.

    `window` is the period of the rates, in seconds, up to now. Arrivals are counted over `arrival_window`, which is
    shorter if very many jobs arrived. `counted_at` is when the jobs were counted: the dashboard counts millions of
    unfinished jobs only now and then.
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
    counted_at: datetime | None = None


class Period(Value, frozen=True, kw_only=True):
    """What happened from a time on, for the `span` of its `Activity`: jobs that arrived, and attempts that ended.

    `arrived` is None if it is not known: before the oldest job that exists. `pending` is how many jobs were pending on
    average, or None if no worker has counted them. `wait` and `run` are how long attempts waited and ran.
    """

    at: datetime
    arrived: int | None
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    pending: float | None = None
    wait: Percentiles | None = None
    run: Percentiles | None = None


class ActivityMark(Value, frozen=True, kw_only=True):
    """What else happened: workers with new code began ("deploy"), or no worker was alive for minutes ("no worker").

    `until` is when it was over, or None if it is not, or took no time. `detail` is the version of Rowcall and a number
    for the code.
    """

    at: datetime
    kind: str
    until: datetime | None = None
    detail: str = ""


class Activity(Value, frozen=True, kw_only=True):
    """What happened over time, oldest period first. `span` is the length of a period in seconds.

    `errors` has the attempts that failed, for good or not, by error code, one number for each period.
    `arrivals_known_since` is when the oldest job that exists arrived, or None if arrivals are known for all periods or
    no job exists. If `arrivals_estimated`, more than 30,000 jobs arrived: their ids are counted, not the jobs.
    """

    span: float
    periods: list[Period]
    errors: dict[str, list[int]] = msgspec.field(default_factory=dict)
    arrivals_known_since: datetime | None = None
    arrivals_estimated: bool = False
    marks: list[ActivityMark] = msgspec.field(default_factory=list)


class InProgress(Job, frozen=True, kw_only=True):
    """A running job, with its worker's host and the seconds since the last heartbeat of both."""

    silent_for: float
    host: str | None = None
    worker_silent_for: float | None = None


class Retries(Value, frozen=True, kw_only=True):
    """Counts of jobs by number of attempts, in total and by type; 100 means 100 or more."""

    by_attempts: dict[int, int]
    by_type: dict[str, dict[int, int]]
    counted_at: datetime | None = None


class ErrorGroup(Value, frozen=True, kw_only=True):
    """Failed jobs with the same error code; `sample` is the detail of the latest."""

    error_code: str
    count: int
    types: dict[str, int]
    first_at: datetime | None
    last_at: datetime | None
    sample: str | None
    sample_type: str = ""

    _hidden = ("sample_type",)  # what is encrypted is bound to it


class Failing(Value, frozen=True, kw_only=True):
    """Attempts that failed with one error code within a window, and the jobs that wait after such an attempt.

    `attempts` includes `failed`, the attempts that were the last of their jobs; `waiting` is the number of jobs that
    wait now, for a retry or for a worker that accepts them. If there are very many, not all of them are counted, and
    `more_waiting` is true. `types` has the attempts of each task, and `sample` is the
    error detail of one job.
    """

    error_code: str
    attempts: int
    failed: int
    waiting: int
    more_waiting: bool = False
    types: dict[str, int]
    sample: str | None
    sample_type: str = ""

    _hidden = ("sample_type",)  # what is encrypted is bound to it


class Kept(Value, frozen=True, kw_only=True):
    """Finished jobs under one retention rule. `keep` is in seconds; None means forever.

    `prunable` is what the next prune deletes. If that is very much, it is only counted up to a number, and
    `more_prunable` is true.
    """

    status: Status
    queue: str
    type: str
    keep: float | None
    jobs: int
    prunable: int
    more_prunable: bool = False
    oldest_at: datetime | None


class RetentionReport(Value, frozen=True, kw_only=True):
    """Which finished jobs are kept, for how long, and which the next prune deletes."""

    kept: list[Kept]
    jobs: int
    prunable: int
    more_prunable: bool = False
    size_bytes: int


class Pruned(Value, frozen=True, kw_only=True):
    """What a prune deleted, or would delete with `dry_run`."""

    jobs: int
    by_status: dict[str, int]
    dry_run: bool = False


class Summary(Value, frozen=True, kw_only=True):
    """The attempts of a `drain`, counted by how they ended."""

    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    cancelled: int = 0
    released: int = 0

    @property
    def total(self) -> int:
        return self.succeeded + self.failed + self.retried + self.snoozed + self.cancelled + self.released
