"""All that was recorded of a storm, and the questions that several checks ask of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from tests.conformance.notes import Note, Notes
from tests.crash.storm.journal import (
    Attempt,
    Change,
    Edge,
    Effect,
    Follow,
    Start,
    attempts_in,
    changes_in,
    edges_in,
    effects_in,
    follows_in,
    starts_in,
)
from tests.observe.plain_sql import PlainDatabase

FINISHED = frozenset({"succeeded", "failed", "cancelled"})
LOST_CODE = "WORKER:LOST"
Problems = Iterator[str]


class Claim(msgspec.Struct, frozen=True):
    """A claim of a job, and the change that ended it."""

    job_id: int
    type: str
    lease: int
    attempt: int
    worker: str
    seq: int
    end: Change | None

    @property
    def pid(self) -> int:
        """Of the process in the worker's name: `host:pid:part`."""
        return int(self.worker.rsplit(":", 2)[1])

    @property
    def by_hand(self) -> bool:
        return self.worker.startswith("hand:")

    @property
    def was_lost(self) -> bool:
        return self.end is not None and (self.end.lost > self.end.old_lost or self.end.error_code == LOST_CODE)

    @property
    def counts(self) -> bool:
        """Whether it used up an attempt."""
        return self.end is None or self.end.attempt == self.attempt


class Records(msgspec.Struct, dict=True):
    notes: Sequence[Note] = ()
    changes: Sequence[Change] = ()
    edges: Sequence[Edge] = ()
    starts: Sequence[Start] = ()
    effects: Sequence[Effect] = ()
    attempts: Sequence[Attempt] = ()
    follows: Sequence[Follow] = ()

    @cached_property
    def by_job(self) -> dict[int, list[Change]]:
        found: dict[int, list[Change]] = defaultdict(list)
        for change in self.changes:
            found[change.job_id].append(change)
        return found

    @cached_property
    def claims(self) -> dict[tuple[int, int], Claim]:
        """By job and lease."""
        found: dict[tuple[int, int], Claim] = {}
        for job_id, changes in self.by_job.items():
            for number, change in enumerate(changes):
                if is_claim(change):
                    end = next((one for one in changes[number + 1 :] if is_end(one) or one.op == "delete"), None)
                    found[job_id, change.lease] = Claim(
                        job_id, change.type, change.lease, change.attempt, change.worker or "::", change.seq, end
                    )
        return found

    @cached_property
    def first_claim(self) -> dict[int, Claim]:
        found: dict[int, Claim] = {}
        for claim in self.claims.values():
            found.setdefault(claim.job_id, claim)
        return found

    @cached_property
    def taken_for_lost(self) -> set[str]:
        """Workers that continued under another name: they were declared lost while they lived."""
        latest: dict[int, str] = {}
        found: set[str] = set()
        for claim in sorted(self.claims.values(), key=lambda claim: claim.seq):
            before = latest.get(claim.pid, claim.worker)
            if before != claim.worker:
                found.add(before)
            latest[claim.pid] = claim.worker
        return found

    def noted(self, event: str) -> Iterator[tuple[int, Note]]:
        """The notes of a kind, with their lines."""
        for line, note in enumerate(self.notes):
            if note.event.partition(":")[0] == event:
                yield line, note

    @cached_property
    def faults(self) -> dict[tuple[str, int], list[int]]:
        """The lines in which a process was killed or stopped."""
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for event in ("kill", "stop"):
            for line, note in self.noted(event):
                found[event, note.job_id].append(line)
        return found

    @property
    def remaining(self) -> Iterator[Change]:
        """The last change of each job that is still there."""
        for changes in self.by_job.values():
            if changes[-1].op != "delete":
                yield changes[-1]

    def history_of(self, job_id: int) -> str:
        """Describe the history of a job, for a failure message."""
        return "\n    ".join([f"job {job_id}:", *map(_shown, self.by_job.get(job_id, []))])


def is_claim(change: Change) -> bool:
    return change.op == "update" and change.status == "running" and change.lease > change.old_lease


def is_end(change: Change) -> bool:
    return change.op == "update" and change.old_status == "running" and change.status != "running"


def _shown(change: Change) -> str:
    return (
        f"{change.seq} {change.op} {change.type} {change.old_status}→{change.status}"
        f" attempt {change.old_attempt}→{change.attempt}/{change.max_attempts} lease {change.old_lease}→{change.lease}"
        f" lost {change.lost} {change.worker or ''} {change.error_code or ''}"
    )


def records_in(database: PlainDatabase, notes: Notes) -> Records:
    return Records(
        notes.read(),
        changes_in(database),
        edges_in(database),
        starts_in(database),
        effects_in(database),
        attempts_in(database),
        follows_in(database),
    )
