"""What is kept of schedules, and what every database must be able to say of them.

The contract
------------
* **Once.** `due_schedules` gives a schedule to one ticker only, until its transaction ends: whoever comes meanwhile is
  given the others. `move_on` follows in the same transaction as the jobs of its ticks.
* **Kept.** `put_schedule` leaves alone the next tick of one whose line, period and zone are what they were, and whether
  it is paused.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from rowcall.domain.schedule import Timing
from rowcall.store.statement import Plan


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is declared. `options` is what a job of it is written with, as JSON."""

    name: str
    task: str
    payload: str
    options: str
    timing: Timing


class ScheduleRow(Entry, frozen=True, kw_only=True):
    """A schedule as it is kept. `actor` is who paused it; one with a `problem` does not tick."""

    paused: bool
    actor: str | None
    next_run_at_ms: int | None
    last_run_at_ms: int | None
    last_job_id: int | None
    problem: str | None


class Schedules(Protocol):
    def schedules(self) -> Plan[list[ScheduleRow]]:
        """All of them, by name."""

    def lock_schedule(self, name: str) -> Plan[ScheduleRow | None]:
        """One of them, that nobody else changes before the transaction ends."""

    def due_schedules(self, limit: int, now_ms: int | None, *, lines: bool) -> Plan[list[ScheduleRow]]:
        """Those whose next tick has come, longest due first; with lines only where `lines` can be read."""

    def move_on(
        self, name: str, next_run_at_ms: int | None, last_run_at_ms: int | None, last_job_id: int | None
    ) -> Plan[None]:
        """Write what comes next, and what came last unless that is None."""

    def stop_schedule(self, name: str, problem: str) -> Plan[None]:
        """Of one that nobody can make sense of: it does not tick any more, and says why."""

    def put_schedule(self, entry: Entry, next_run_at_ms: int | None, now_ms: int | None) -> Plan[None]: ...
    def pause_schedule(self, name: str, actor: str, now_ms: int | None) -> Plan[None]: ...
    def resume_schedule(self, name: str, next_run_at_ms: int | None, actor: str, now_ms: int | None) -> Plan[None]: ...
    def remove_schedule(self, name: str) -> Plan[bool]:
        """Gives whether it was there."""
