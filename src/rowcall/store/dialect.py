"""What every database must be able to do, and the promises that the plans build on.

Most of it is the catalogue: `ask` runs a query by name, and `rowcall.store.statement` explains how to add one. The
operations below are what databases do in different steps.

The contract
------------
* An operation is a plan. The caller runs all plans of one operation in one transaction.
* Times are whole milliseconds since 1970 in UTC. The catalogue fills in the current time: a test's clock, or the
  database's own clock, is read by each statement. A plan that needs one time for several statements reads it once, and
  continues with `dialect.at(now_ms)`.
* Order of a claim: highest priority first, then lowest id, within one queue. A job that was blocked counts as if it had
  been enqueued when it was unblocked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar, cast

import msgspec

from rowcall.domain.errors import SchemaMismatch
from rowcall.domain.job import Job, Status
from rowcall.store.migration import Migration, MigrationPreview
from rowcall.store.new_job import Derived, Inserted, NewJob
from rowcall.store.queries.claims import NOTHING_KNOWN, Ready, Starts
from rowcall.store.queries.ends import Owner, Success
from rowcall.store.statement import Change, Parameter, Plan, Query, Row, Statement

R = TypeVar("R")


LOWEST, HIGHEST = -(2**63), 2**63 - 1
Place = tuple[int, ...]
"""Where a job is in an order: its id; or the time of its end, in units of the database, and its id."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs fit. An `error_code` that ends with `*` is the beginning of codes; `payload` is JSON."""

    statuses: tuple[Status, ...] | None = None
    queue: str | None = None
    type: str | None = None
    tag: str | None = None
    key: str | None = None
    chain_id: int | None = None
    batch_id: int | None = None
    parent_id: int | None = None
    worker: str | None = None
    error_code: str | None = None
    created_after_ms: int | None = None
    created_before_ms: int | None = None
    finished_after_ms: int | None = None
    finished_before_ms: int | None = None
    payload: str | None = None

    def names(self) -> list[tuple[str, str]]:
        """Return the columns that must equal a text, with the text."""
        given = (("queue", self.queue), ("type", self.type), ("key", self.key), ("worker", self.worker))
        return [(column, value) for column, value in given if value is not None]


class Order(msgspec.Struct, frozen=True):
    """By id, or by the time of the end; and from which side."""

    newest_first: bool = True
    by_end: bool = False


class Span(NamedTuple):
    """The places between two others."""

    low: Place
    high: Place

    def behind(self, place: Place, order: Order) -> Span:
        """Return what is left of it behind a place in the order."""
        if order.newest_first:
            return Span(self.low, min(self.high, place))
        return Span(max(self.low, place), self.high)


RESTORE_ADVICE = (
    "restore what is missing from a backup; or, if the jobs may be lost, drop all tables of Rowcall"
    " and run: rowcall migrate APP"
)

UNRELEASED = "these tables were made by an unreleased version of Rowcall"
UNRELEASED_ADVICE = (
    "finish the jobs with that version; or, if they may be lost, drop all tables of Rowcall"
    + " and run: rowcall migrate APP"
)


class Version(NamedTuple):
    """The version of the tables, and the oldest code that the migrations unknown here still allow (0: none).

    `missing` are tables that this code's version needs. `released` is false if migrations that this code does not have
    made the tables, under numbers that it knows.
    """

    found: int
    oldest: int
    missing: tuple[str, ...] = ()
    released: bool = True

    @classmethod
    def from_rows(cls, row: Row, recorded: Iterable[Row], migrations: Sequence[Migration]) -> Version:
        """`recorded` has the fingerprint of each migration that made the tables."""
        newest = migrations[-1].version
        number, oldest, missing = cast("tuple[int, int, str | None]", row)
        fingerprints = dict(cast("Iterable[tuple[int, str | None]]", recorded))
        released = all(fingerprints.get(one.version) == one.fingerprint for one in migrations if one.version <= number)
        if not released and number > newest and fingerprints[number] is not None:
            released, oldest = True, number  # a later release may make the tables in other steps
        return cls(number, oldest, tuple(missing.split(",")) if missing and number == newest else (), released)

    def require_fit(self, newest: int) -> None:
        """Refuse tables that no migration of this code can make fit."""
        if not self.released:
            raise SchemaMismatch(self.found, newest, UNRELEASED_ADVICE, f"{UNRELEASED} (version {self.found})")
        if self.oldest > newest:
            raise SchemaMismatch(self.found, newest, "a newer Rowcall made them; install that version here")
        if self.missing:
            one = len(self.missing) == 1
            what = f"the table{'' if one else 's'} {', '.join(self.missing)} {'is' if one else 'are'} missing"
            problem = f"{what}, though the tables are at version {self.found}"
            raise SchemaMismatch(self.found, newest, RESTORE_ADVICE, problem)


class MoveCode(NamedTuple):
    """Statements for a move to another database. Each can be run again."""

    watch: tuple[str, ...]
    """Note from now on, in the table `moving`, whose rows change: those of which jobs."""
    unwatch: tuple[str, ...]
    close: tuple[str, ...]
    """Refuse writes with `MOVED`, unless the transaction has added the setting `WRITES_OF_MOVE`."""
    open: tuple[str, ...]
    without_code: tuple[str, ...]
    """Drop the triggers that react to rows, and make them again."""
    with_code: tuple[str, ...]


class Dialect(Protocol):
    @property
    def one_writer(self) -> bool:
        """Whether no other transaction can write before this one has ended."""

    @property
    def most_locks(self) -> int:
        """Return how many keys of limits one transaction may lock: all locks of a server share one small table."""

    @property
    def ids_follow_commits(self) -> bool:
        """Whether ids rise in the order of commits: then no row comes later with an id below one that was read."""

    def at(self, now_ms: int) -> Dialect:
        """Return this dialect with the time pinned: every statement gets this time."""

    def holds_together(self) -> Plan[bool]:
        """Return whether the statements that follow are one transaction, as far as the database knows."""

    def ask(self, query: Query[R], *values: object) -> Plan[list[R]]:
        """Run a query of the catalogue and return its rows as values."""

    def change(self, query: Change, *values: object) -> Plan[int]:
        """Run a query of the catalogue that changes rows, and return how many it changed."""

    # schema
    @property
    def newest_version(self) -> int:
        """Return the version of the tables that this code makes."""

    def version(self) -> Plan[Version]:
        """Return the version of the tables. It never waits long for a lock."""

    def migrate(self) -> Plan[tuple[int, int]]:
        """Make or update the tables, and return the versions before and after. Others that migrate wait."""

    def preview_migration(self) -> Plan[MigrationPreview]:
        """Return what `migrate` would do, and what it would lock. Only reads."""

    # enqueue
    def insert(
        self, job: NewJob, payloads: Sequence[str], derived: Sequence[Derived] | None = None
    ) -> Plan[list[Inserted]]:
        """Write one job for each payload, in the order of the payloads.

        One job, and on a caller's connection any number, takes one plain INSERT: it may be the first statement of the
        caller's transaction.
        """

    # claim
    def ready_jobs(
        self, queue: str, types: Sequence[str], limit: int, starts: Starts = NOTHING_KNOWN
    ) -> Plan[list[Ready]]:
        """Return the first jobs that may be claimed, in order. Other transactions skip them until this one ends.

        Jobs that stand at or before their starts may be left out.
        """

    def ready_ahead(self, queue: str, types: Sequence[str], limit: int) -> Plan[list[Ready]]:
        """Return the first jobs that may be claimed, in order, without a lock."""

    def claim(
        self, started: Sequence[Ready], buffered: Sequence[Ready], owner: Owner, lease_ms: int | None
    ) -> Plan[set[int] | None]:
        """Claim jobs that `ready_jobs` has returned. Return None, or the ids that were claimed if some were not.

        Such a job has a claim already, or its ready row does not fit it: then only the ready row is deleted. The time
        must be pinned: on SQLite, it distinguishes the new claims of a holder from the older ones.
        """

    # limits; see `rowcall.store.queries.limits`
    def free_slots(self, attempts: Sequence[tuple[int, int | None]]) -> Plan[list[str]]:
        """Free the slots of attempts (ids and leases), and return the key of each. Locks the slots.

        Without a lease, only slots that no worker holds: a job that is ended from outside may still have a handler.
        """

    def unhold(self, counts: Mapping[str, int]) -> Plan[int]:
        """Make jobs of each value of `held` ready, first in turn, up to its limit; return their number.

        Jobs that another transaction has locked are skipped, not waited for.
        """

    # settle
    def settle_successes(self, rows: Sequence[Success], owner: Owner) -> Plan[tuple[set[int], bool]]:
        """Take the claims of an owner in the order of the ids, and write their jobs.

        Return the ids of these jobs, and whether it is known that some are followed. A job that was changed from
        outside keeps its row, and becomes ready again if it is pending.
        """

    # moves
    def shared(self, text: str, *parameters: Parameter) -> Plan[list[Row]]:
        """Run a text that all databases share, and that no query of the catalogue has, and return its rows."""

    def move_code(self) -> Plan[MoveCode]:
        """Return the statements that a move needs."""

    def next_id(self, table: str) -> Plan[int]:
        """Return the number that the database would give to the next row, or a higher one."""

    def set_next_id(self, table: str, number: int) -> Plan[None]:
        """Let the database count on from a number, unless it is further already."""

    # callers' connections
    def for_caller(self) -> Plan[Dialect]:
        """Return a dialect whose statements find the tables whatever the caller's connection is set to."""

    def identity(self) -> Statement[Row] | None:
        """Return a statement whose row identifies the database of a connection; None where that is known."""

    # inspect
    @property
    def units_per_ms(self) -> int:
        """Return how many units of the times in a place are one millisecond."""

    def places(self, wanted: Filter, order: Order, span: Span, limit: int, *, by_payload: bool) -> Plan[list[Place]]:
        """Return the first places in a span, in order, of all jobs that fit, and of few that do not.

        They are read from indexes, up to the limit: the time does not depend on how many jobs there are. `by_payload`:
        by the index of payloads.
        """

    def matching(self, wanted: Filter, ids: Sequence[int]) -> Plan[list[Job]]:
        """Return those of some jobs that fit."""

    def has_payload_index(self) -> Plan[bool]:
        """Return whether there is an index that finds jobs by values of their payloads."""
