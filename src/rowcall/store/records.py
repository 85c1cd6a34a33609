"""What is counted and kept beside the jobs themselves, and what every database must be able to say of it.

The contract
------------
* **Totals.** How many finished jobs there are, by status, queue, type, error code and attempt, is the sum of signed
  rows: each transaction that finishes, revives or deletes jobs adds its own (`tally`, or a trigger for what plain SQL
  inserts and for every delete), and nobody waits for anybody. `fold` moves them into a table of totals.
* **Waiting.** What is not finished is counted where it stands, through indexes that hold all that is asked.
* **History.** The same rows say how attempts ended, with histograms of waits and runs. Folded, they are counts per
  minute, and later per hour.
* All answers of one call come from one statement, or from rows that only grow: they agree with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from rowcall.base.histogram import Histogram
from rowcall.domain.job import Job, Status
from rowcall.store.statement import Plan

MOST_ATTEMPTS_COUNTED = 100  # beyond, attempts are counted together
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
MINUTES_KEPT_MS = 2 * 24 * HOUR_MS  # then they become hours


class Tally(msgspec.Struct, array_like=True, gc=False, kw_only=True):
    """So many attempts ended alike. `status` names the total they change, `outcome` the history they belong to."""

    queue: str
    type: str
    outcome: str | None
    status: str | None
    error_code: str = ""
    attempt: int = 0
    jobs: int = 0
    waits: Histogram = {}
    runs: Histogram = {}


class Folded(NamedTuple):
    """A tally as it was written, with the number and the time that it was given."""

    id: int
    at_ms: int
    tally: Tally


class Total(msgspec.Struct, array_like=True, frozen=True, gc=False):
    status: str
    queue: str
    type: str
    error_code: str
    attempt: int
    jobs: int


class Waiting(NamedTuple):
    """Jobs of one queue, type and status that are not finished.

    `oldest_ms` is, of pending and scheduled ones, since when the first waits: since `run_at`, or since it was written
    if that is later.
    """

    status: str
    queue: str
    type: str
    jobs: int
    oldest_ms: int | None


class Past(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How many attempts ended alike within one minute or hour."""

    at_ms: int
    span_ms: int
    queue: str
    type: str
    outcome: str
    jobs: int
    waits: Histogram
    runs: Histogram


class Group(NamedTuple):
    """Finished jobs that one rule of retention is about."""

    status: Status
    queue: str
    type: str


class Arrived(NamedTuple):
    """How many jobs of one queue and type were created within a time, how many not, and when the first of them was."""

    queue: str
    type: str
    jobs: int
    others: int
    first_ms: int | None


class Doomed(NamedTuple):
    jobs: int
    oldest_ms: int | None


class ErrorEnds(NamedTuple):
    """The first and last failed job of one error code, and what the last one says."""

    error_code: str
    first_ms: int | None
    last_ms: int | None
    sample: str | None


class StoreHealth(NamedTuple):
    """What the database says of itself; None or 0 where it has no such thing."""

    dead_rows: int | None = None
    oldest_transaction_seconds: float = 0.0
    oldest_transaction_pid: int = 0


class Chores(NamedTuple):
    at_ms: int
    any_tally: bool
    settings: dict[str, str]


class Running(NamedTuple):
    """A running job, and what is known of its worker."""

    job: Job
    host: str | None
    beat_at_ms: int | None
    last_sign_ms: int


class Records(Protocol):
    def now(self, now_ms: int | None) -> Plan[int]: ...

    # written in the same transaction as what they count
    def tally(self, tallies: Sequence[Tally], now_ms: int | None) -> Plan[None]: ...

    def tally_on_loan(self, tallies: Sequence[Tally], now_ms: int | None) -> Plan[None]:
        """`tally`, by a statement that gives rows: on a lent connection there are no others."""

    # counts
    def totals(self) -> Plan[list[Total]]:
        """Of the finished, and exact."""

    def waiting(self) -> Plan[list[Waiting]]:
        """Of all others, running ones included."""

    def attempts_of_waiting(self) -> Plan[list[tuple[str, int, int]]]:
        """How many jobs that are not finished have used how many attempts: type, attempts, jobs."""

    def newest_id(self) -> Plan[int]: ...
    def arrivals(self, from_id: int, since_ms: int, until_ms: int) -> Plan[list[Arrived]]:
        """Of the jobs with at least this id."""

    def past(self, since_ms: int, until_ms: int) -> Plan[list[Past]]: ...
    def error_ends(self, error_codes: Sequence[str]) -> Plan[list[ErrorEnds]]: ...
    def running(self, limit: int) -> Plan[list[Running]]:
        """Longest without a sign of life first."""

    # folding
    def take_tallies(self, before_ms: int, limit: int) -> Plan[list[Folded]]:
        """Remove and give the oldest; what others are at is left to them."""

    def add_totals(self, totals: Sequence[Total]) -> Plan[None]: ...
    def add_past(self, past: Sequence[Past]) -> Plan[None]: ...
    def take_minutes(self, before_ms: int, limit: int) -> Plan[list[Past]]:
        """Remove and give minutes of the past."""

    def forget_past(self, before_ms: int, limit: int) -> Plan[int]: ...
    def forget_future(self, after_ms: int, limit: int) -> Plan[int]: ...
    # retention
    def finished_groups(self) -> Plan[list[Group]]: ...
    def prune(self, group: Group, before_ms: int, limit: int) -> Plan[int]:
        """Delete the oldest that finished before, with all that belongs to them; gives how many."""

    def doomed(self, group: Group, before_ms: int | None) -> Plan[Doomed]:
        """How many finished before (None: none is asked for), and when the oldest of the group did."""

    def size_bytes(self) -> Plan[int]: ...
    def health(self) -> Plan[StoreHealth]: ...

    # settings that all processes share
    def settings(self) -> Plan[dict[str, str]]: ...
    def put_setting(self, name: str, value: str) -> Plan[None]: ...
    def drop_setting(self, name: str) -> Plan[None]: ...
    def chores(self, now_ms: int | None) -> Plan[Chores]:
        """What a janitor has to know to see that there is nothing to do, in one cheap statement."""

    def recount(self) -> Plan[None]:
        """Count all finished jobs anew, and give those a finish time that have none."""

    def take_duty(self, name: str, every_ms: int, now_ms: int | None) -> Plan[bool]:
        """Whether it is this caller who does it now: once in so many milliseconds somebody is told yes."""
