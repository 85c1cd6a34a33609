"""What every database must be able to say, and the promises that the plans build on.

The contract
------------
* A method gives a plan. The caller runs all plans of one operation in one transaction.
* Times are whole milliseconds since 1970 in UTC. `now_ms` is None in production: the database's own clock is asked.
* **Fence.** `lease` goes up at claim, settle, release and recovery, and never falls. Settling matches `id` and `lease`
  together and nothing else, and gives back the ids that it changed; of all others nothing is written at all.
* **Claim.** `ready_jobs` followed by `mark_claimed` gives a job to one claimer only. A database without a single
  writer locks the rows in `ready_jobs` and skips those that are locked.
* **Cost.** Staging, claiming, settling and recovering cost in proportion to the rows they touch, whatever waits, is
  finished or lies in the future.
* Order of a claim: highest priority first, then lowest id, within one queue; a job that was blocked counts as if it had
  been enqueued when it was unblocked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from rowcall.domain.errors import SchemaMismatch
from rowcall.domain.job import Attempt, Event, Job, Status, WorkerInfo
from rowcall.store.flows.queries import Touched
from rowcall.store.new_job import Awaited as Awaited
from rowcall.store.new_job import Inserted as Inserted
from rowcall.store.new_job import KeyOf as KeyOf
from rowcall.store.new_job import NewJob as NewJob
from rowcall.store.statement import Change, Plan, Query, Row, Statement

R = TypeVar("R")


class Ready(msgspec.Struct, array_like=True, gc=False):
    """A job that may be claimed. `lease` and `attempt` are those it will have once claimed."""

    id: int
    type: str
    queue: str
    payload: str
    attempt: int
    max_attempts: int
    lease: int
    lost: int
    priority: int
    run_at_ms: int
    created_at_ms: int
    timeout_seconds: float | None
    retry: str | None
    key: str | None
    tags: str | None
    chain_id: int | None
    chain_index: int | None
    expires_at_ms: int | None
    trace_context: str | None
    limits: str | None = None
    place: int = 0
    """Its turn among those of its queue and priority."""

    def waited_ms(self, claimed_at_ms: int) -> int:
        """Return how long it was due when it was claimed: since `run_at`, or since it was written if that is later."""
        since, written = self.run_at_ms, self.created_at_ms
        return claimed_at_ms - (since if since > written else written)

    @property
    def bufferable(self) -> bool:
        """A job that was lost before, or has one attempt left, starts at once or not at all."""
        return self.lost == 0 and self.attempt < self.max_attempts


class Look(msgspec.Struct, frozen=True):
    """What there is to do, learned without the write lock."""

    now_ms: int
    due_at_ms: int | None
    expires_at_ms: int | None
    registered: bool
    ready: list[tuple[str, str]]
    wake_at_ms: int | None = None
    """When the next schedule or limit of rate is to be looked at."""
    paused: list[tuple[str, str]] = []
    """What is paused: ("queue", its name) or ("task", its name)."""
    edges_open: bool = False
    edges_unsure: bool = False
    slots: bool = False
    waiters: bool = False

    @property
    def concerned(self) -> Concerned:
        return Concerned(self.edges_open, self.slots, self.waiters)

    @property
    def is_wake_due(self) -> bool:
        return self.wake_at_ms is not None and self.wake_at_ms <= self.now_ms

    @property
    def next_at_ms(self) -> int | None:
        """When something falls due by itself."""
        times = [at for at in (self.due_at_ms, self.expires_at_ms, self.wake_at_ms) if at is not None]
        return min(times) if times else None


class Concerned(NamedTuple):
    """Whether any job waits for another, runs under a limit, or has somebody who waits for its end: mostly none."""

    edges: bool
    slots: bool
    waiters: bool = False


class Glance(NamedTuple):
    """The cheapest answer to "is there anything?": for those who are asked often and mostly in vain."""

    now_ms: int
    any_ready: bool
    due_at_ms: int | None
    expires_at_ms: int | None
    wake_at_ms: int | None
    edges_unsure: bool


class Owned(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A running job, as recovery sees it."""

    id: int
    lease: int
    attempt: int
    max_attempts: int
    started: bool
    queue: str
    type: str


class Settlement(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A transition ready to be written. Ages are counted back from the database's clock; None keeps what is there."""

    id: int
    lease: int
    status: str
    attempt_status: str
    started_age_ms: int | None
    finished_age_ms: int
    delay_ms: int | None
    attempt_returned: int
    attempt_recorded: int
    result: str | None
    error_code: str | None
    error_detail: str | None
    traceback: str | None
    lost: int
    final: int
    hold_ms: int | None = None
    """How long the job waits for a worker that its arguments fit."""


class Success(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The settlement of an attempt that succeeded: the one that most jobs have, and so the shortest."""

    id: int
    lease: int
    started_age_ms: int | None
    finished_age_ms: int
    result: str | None
    begins_chain: int = 0


class Mismatch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job that waits for a worker that its arguments fit, until a time."""

    id: int
    queue: str
    type: str
    payload: str
    priority: int
    place: int
    until_ms: int


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    status: Status | None = None
    queue: str | None = None
    type: str | None = None
    tag: str | None = None
    before_id: int | None = None
    limit: int = 50


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    host: str
    pid: int
    queues: str
    concurrency: int
    version: str
    lease_ms: int
    lock_path: str | None
    served: str | None = None
    """The names of its queues as a JSON array, or None for all."""


class Peer(msgspec.Struct, frozen=True):
    """Another worker, as those who watch it see it."""

    name: str
    host: str
    beat: int
    lease_ms: int
    lock_path: str | None


RESTORE_ADVICE = (
    "restore what is missing from a backup; or, if the jobs may be lost, drop all tables of Rowcall"
    " and run: rowcall migrate APP"
)


class Version(NamedTuple):
    """The version of the tables found, and the oldest code that any migration unknown here still allows (0: none).

    `missing` are the tables that should be there at this code's version, and are not.
    """

    found: int
    oldest: int
    missing: tuple[str, ...] = ()

    def require_fit(self, newest: int) -> None:
        """Refuse tables that no migration of this code can make fit."""
        if self.oldest > newest:
            raise SchemaMismatch(self.found, newest, "a newer Rowcall made them; install that version here")
        if self.missing:
            one = len(self.missing) == 1
            what = f"the table{'' if one else 's'} {', '.join(self.missing)} {'is' if one else 'are'} missing"
            problem = f"{what}, though the tables are at version {self.found}"
            raise SchemaMismatch(self.found, newest, RESTORE_ADVICE, problem)


class Survey(msgspec.Struct, frozen=True):
    """Who is there, and whether some jobs have no owner any more."""

    peers: list[Peer]
    any_lease_expired: bool
    any_orphan: bool


class Dialect(Protocol):
    @property
    def one_writer(self) -> bool:
        """Whether no other transaction can write before this one has ended."""

    def ask(self, query: Query[R], *values: object) -> Plan[list[R]]:
        """Run a query of the catalogue and return its rows as values. How to add one: see `rowcall.store.statement`."""

    def change(self, query: Change, *values: object) -> Plan[int]:
        """Run a query of the catalogue that changes rows, and return how many it changed."""

    def holds_together(self) -> Plan[bool]:
        """Return whether the statements that follow are one transaction, as far as the database can tell."""

    # schema
    def version(self) -> Plan[Version]:
        """Waits for no lock for long, inside a transaction."""

    def migrate(self, now_ms: int | None) -> Plan[tuple[int, int]]: ...
    @property
    def newest_version(self) -> int: ...

    # enqueue
    def insert(self, job: NewJob, payload: str, now_ms: int | None, limits: str | None = None) -> Plan[Inserted]:
        """`limits` is what the row says of its limits: their keys come from a payload that may be elsewhere by now."""

    def insert_many(
        self, job: NewJob, payloads: Sequence[str], now_ms: int | None, limits: Sequence[str | None] | None = None
    ) -> Plan[list[Inserted]]: ...

    # claim
    def look(self, worker: str | None, now_ms: int | None, *, hold: bool = False) -> Plan[Look]:
        """`hold` keeps the worker registered, if it is, until the transaction ends."""

    def glance(self, now_ms: int | None) -> Plan[Glance]: ...
    def stage(self, limit: int, now_ms: int | None) -> Plan[int]:
        """Gives how many became ready; those that others are at are left for later."""

    def expire(self, limit: int, now_ms: int | None) -> Plan[list[Touched]]:
        """Gives those that were not started in time."""

    def ready_jobs(self, queue: str, types: Sequence[str], limit: int, now_ms: int | None) -> Plan[list[Ready]]: ...
    def ready_ahead(self, queue: str, types: Sequence[str], limit: int, now_ms: int | None) -> Plan[list[Ready]]:
        """`ready_jobs`, only to look at: none of them is kept from others."""

    # limits; see `rowcall.store.limits.queries`
    def free_slots(self, attempts: Sequence[tuple[int, int | None]]) -> Plan[list[str]]:
        """Free the slots of attempts (ids and leases), and return the key of each. Locks the slots.

        Without a lease, only slots that no worker holds: a job that is ended from outside may still have a handler.
        """

    def unhold(self, slots: Mapping[str, int]) -> Plan[int]:
        """Make up to so many held jobs of each key ready, first in turn; return how many in all.

        Jobs that another transaction has locked are skipped, not waited for.
        """

    def mark_claimed(
        self,
        worker: str,
        started: Sequence[int],
        buffered: Sequence[int],
        lease_ms: int | None,
        now_ms: int | None,
    ) -> Plan[None]: ...
    def mark_started(self, rows: Sequence[tuple[int, int, int]], now_ms: int | None) -> Plan[None]: ...
    def mark_progress(self, rows: Sequence[tuple[int, int, float, str | None]], now_ms: int | None) -> Plan[None]:
        """Ids, leases, shares and messages, in the order of the ids; a sign of life of each."""

    # jobs that a worker refused because their arguments do not fit its declaration: held until one that fits comes
    def mismatched(self, after_id: int, limit: int, now_ms: int | None) -> Plan[tuple[int, list[Mismatch]]]:
        """The time, and such jobs in the order of their ids."""

    def offered_jobs(self, job_ids: Sequence[int], now_ms: int | None) -> Plan[list[Ready]]:
        """`ready_jobs`, of such jobs."""

    def unhold_jobs(self, job_ids: Sequence[int]) -> Plan[None]:
        """Jobs that are about to be marked as claimed, in the same transaction."""

    def extend_mismatched(self, job_ids: Sequence[int], grace_ms: int, now_ms: int | None) -> Plan[None]:
        """Let those that still wait do so for that long from now; jobs that somebody is at are left alone."""

    def fail_mismatched(self, job_ids: Sequence[int], now_ms: int | None) -> Plan[list[Touched]]:
        """Fail those whose time is over; jobs that somebody is at are left alone."""

    # settle
    def settle_successes(self, rows: Sequence[Success], now_ms: int | None) -> Plan[set[int]]: ...
    def settle_others(self, rows: Sequence[Settlement], now_ms: int | None) -> Plan[set[int]]: ...
    def complete(
        self, job_id: int, lease: int, result: str | None, started_age_ms: int | None, now_ms: int | None
    ) -> Plan[bool]:
        """Settle one success by a single plain statement: it may run in a transaction of the caller's."""

    def leases(self, job_ids: Sequence[int]) -> Plan[dict[int, tuple[int, str] | None]]:
        """Leases and states, kept so until the transaction ends; None where another transaction is at the row."""

    def for_caller(self) -> Plan[Dialect]:
        """A dialect whose statements find the tables whatever the caller's connection is set to."""

    def identity(self) -> Statement[Row] | None:
        """Tells which server, database and table a connection sees, then 'text', 7 and 0.5, as its codecs have them.

        None where all that is known otherwise.
        """

    def heartbeat(self, job_id: int, lease: int, now_ms: int | None) -> Plan[bool]: ...
    def concerned(self) -> Plan[Concerned]: ...

    # workers and recovery
    def register(self, worker: Registration, now_ms: int | None) -> Plan[None]: ...
    def beat(self, worker: str, now_ms: int | None) -> Plan[bool]: ...
    def survey(self, now_ms: int | None) -> Plan[Survey]: ...
    def seize(self, worker: str, beat: int | None) -> Plan[bool]:
        """Keep a worker that seems lost from claiming until the transaction ends.

        False while it is just doing so, and if it has given a sign of life since `beat` was seen.
        """

    def retire(self, worker: str) -> Plan[None]: ...
    def retire_if_idle(self, worker: str) -> Plan[bool]:
        """Strike a worker off unless it owns jobs; gives whether it is gone now."""

    def owned_by(self, worker: str, limit: int) -> Plan[list[Owned]]:
        """Jobs of a worker that may be given back now, kept for that until the transaction ends."""

    def running_of(self, worker: str, limit: int) -> Plan[list[Owned]]:
        """Jobs of a worker as far as is committed, whatever others may have open."""

    def orphans(self, limit: int) -> Plan[list[Owned]]: ...
    def lease_expired(self, limit: int, now_ms: int | None) -> Plan[list[Owned]]: ...

    # look and steer
    def get(self, job_id: int) -> Plan[Job | None]: ...
    def lock(self, job_id: int) -> Plan[Job | None]:
        """`get`, of a job that nobody else changes before the transaction ends."""

    def list_jobs(self, wanted: Filter) -> Plan[list[Job]]: ...
    def attempts(self, job_id: int) -> Plan[list[Attempt]]: ...
    def timeline(self, job_id: int) -> Plan[list[Event]]: ...
    def workers(self) -> Plan[list[WorkerInfo]]: ...
    def delete(self, job_id: int) -> Plan[None]: ...
