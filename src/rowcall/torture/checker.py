"""Compares the database with the witness files. It reads nothing else, and uses no code that runs jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rowcall.torture.arena import Arena
from rowcall.torture.certificate import TortureCounts, TortureFinding
from rowcall.torture.witness import END, START, Line, attempts_of, lines_of
from rowcall.torture.workload import AT_ONCE

MOST_EXAMPLES = 5
LEASE_BITS = 24
"""A claim is one number, the id of its job and its lease: a million of them are in memory."""
SUCCEEDED, FAILED, LOST, RELEASED = "succeeded", "failed", "lost", "released"
UNCOUNTED = (RELEASED, "snoozed")
LOST_CODE = "WORKER:LOST"

_IS_DELETED = "not exists (select 1 from <job> where id = job_id)"
LEFT_OVER = {
    "claims": "select job_id, lease, worker from <claim>",
    "ready rows": "select queue, type, id from <ready>",
    "slots": "select limit_key, job_id, lease from <slot>",
    "workers": "select name from <worker>",
    "attempts of deleted jobs": f"select job_id from <attempt> where {_IS_DELETED}",
    "events of deleted jobs": f"select job_id from <event> where {_IS_DELETED}",
}
"""What is empty when no job is left and no worker runs."""


class SettledAttempt(NamedTuple):
    """An attempt that the database says has ended."""

    job_id: int
    attempt: int
    status: str
    lease: int


def claim_of(job_id: int, lease: int) -> int:
    return job_id << LEASE_BITS | lease


class Checker:
    """Reads a database and a folder of witness files once; `findings` are grouped by check."""

    def __init__(self, arena: Arena, folder: Path) -> None:
        self._arena, self._folder = arena, folder
        self._problems: dict[str, list[str]] = defaultdict(list)
        self._counted: dict[str, int] = defaultdict(int)
        self._status: dict[int, str] = {}  # of each attempt, by claim
        self._tasks: dict[int, str] = {}  # of jobs whose starts and ends have to be compared
        self._accounts: dict[str, list[int]] = defaultdict(list)
        self._seen: dict[int, list[Line]] = defaultdict(list)  # of these
        self._jobs: set[int] = set()
        self.acknowledged = self.starts = 0

    def check(self) -> list[TortureFinding]:
        self._read_attempts()
        self._check_acknowledged()
        self._read_witnesses()
        self._check_limit()
        self._check_order()
        for what, sql in LEFT_OVER.items():
            for row in self._arena.rows(sql):
                self._report(f"{what} are left over", str(row))
        return [
            TortureFinding(check, self._counted[check], examples) for check, examples in sorted(self._problems.items())
        ]

    def counts(self) -> TortureCounts:
        statuses = dict(self._arena.rows("select status, count(*) from <job> group by status"))
        lost = sum(status == LOST for status in self._status.values())
        return TortureCounts(
            acknowledged=self.acknowledged,
            in_database=len(self._jobs),
            succeeded=statuses.get(SUCCEEDED, 0),
            failed=statuses.get(FAILED, 0),
            attempts=len(self._status),
            lost=lost,
            starts=self.starts,
        )

    def _report(self, check: str, example: str) -> None:
        self._counted[check] += 1
        if self._counted[check] <= MOST_EXAMPLES:
            self._problems[check].append(example)

    def _read_attempts(self) -> None:
        """Every job has ended as its task ends. Its attempts are numbered without gaps, and each has ended once."""
        earlier: dict[int, list[SettledAttempt]] = defaultdict(list)
        for row in self._arena.rows("select job_id, attempt, status, lease - 1 from <attempt> order by id"):
            attempt = SettledAttempt(*row)
            earlier[attempt.job_id].append(attempt)
            self._record(attempt)
        columns = "id, type, status, attempt, lease - 1, claimed_at is not null, error_code, ordered"
        for job_id, task, status, number, lease, was_claimed, code, account in self._arena.rows(
            f"select {columns} from <job> order by id"
        ):
            self._jobs.add(job_id)
            if task in ("limited", "ordered"):
                self._tasks[job_id] = task
            if account is not None:
                self._accounts[account].append(job_id)
            if status != (FAILED if task == "failing" else SUCCEEDED):
                stuck = status not in (SUCCEEDED, FAILED, "cancelled")
                self._report("stuck" if stuck else "wrong end", f"job {job_id}, {task}: {status}, {code or ''}")
            attempts = earlier.pop(job_id, [])
            if was_claimed:
                last = SettledAttempt(job_id, number, LOST if code == LOST_CODE else status, lease)
                self._record(last)
                attempts.append(last)
            self._check_numbers(job_id, number, attempts)

    def _record(self, attempt: SettledAttempt) -> None:
        claim = claim_of(attempt.job_id, attempt.lease)
        if claim in self._status:
            self._report("claim ended twice", f"{self._status[claim]}, and {attempt}")
        self._status[claim] = attempt.status

    def _check_numbers(self, job_id: int, number: int, attempts: list[SettledAttempt]) -> None:
        numbers = [attempt.attempt for attempt in attempts if attempt.status not in UNCOUNTED]
        if numbers != list(range(1, number + 1)):
            self._report("attempts do not fit", f"job {job_id} is at attempt {number}, and has {attempts}")
        if sum(attempt.status == SUCCEEDED for attempt in attempts) > 1:
            self._report("settled twice", f"job {job_id}: {attempts}")

    def _check_acknowledged(self) -> None:
        for path in self._folder.glob("*.acknowledged"):
            for task, *job_ids in lines_of(path):
                self.acknowledged += len(job_ids)
                for job_id in map(int, job_ids):
                    if job_id not in self._jobs:
                        self._report("lost", f"job {job_id}, {task}, acknowledged by {path.stem}")

    def _read_witnesses(self) -> None:
        """Each claim starts at most once, each start is an attempt, and each success has its start and its end."""
        stops = self._stops()
        started: set[int] = set()
        ended: set[int] = set()
        for path in self._folder.glob("*.attempts"):
            for line in attempts_of(path):
                claim = claim_of(line.job_id, line.lease)
                if line.job_id in self._tasks:
                    self._seen[line.job_id].append(line)
                if line.event == END:
                    ended.add(claim)
                    continue
                self.starts += 1
                if claim in started:
                    self._report("claim started twice", f"{line} in {path.stem}")
                started.add(claim)
                if claim not in self._status and line.at < stops.get(path.stem, line.at + 1):
                    self._report("start without an attempt", f"{line} in {path.stem}")
        for claim, status in self._status.items():
            if status == SUCCEEDED and claim not in ended:
                job_id, lease = claim >> LEASE_BITS, claim & ((1 << LEASE_BITS) - 1)
                self._report("success without a handler", f"job {job_id}, lease {lease}")

    def _stops(self) -> dict[str, float]:
        """Return when each worker was first stopped: once it continues, it may start what it no longer holds."""
        first: dict[str, float] = {}
        for name, at in lines_of(self._folder / "stops"):
            first.setdefault(name, float(at))
        return first

    def _check_limit(self) -> None:
        """No more run at the same time than the limit says: those of lost workers do not count."""
        changes: list[tuple[float, int, Line]] = []
        for job_id, lines in self._seen.items():
            if self._tasks[job_id] == "limited":
                changes += [(line.at, 1 if line.event == START else -1, line) for line in self._kept(lines)]
        running = 0
        for _, change, line in sorted(changes):
            running += change
            if running > AT_ONCE:
                self._report("limit exceeded", f"{running} at the same time at {line}")

    def _check_order(self) -> None:
        """Of the jobs with one account, each starts after all before it have succeeded."""
        for account, job_ids in self._accounts.items():
            before, latest = 0.0, 0
            for job_id in job_ids:
                lines = list(self._kept(self._seen[job_id]))
                starts = [line.at for line in lines if line.event == START]
                if starts and min(starts) < before:
                    self._report("out of order", f"job {job_id} of {account} started before job {latest} had ended")
                ends = [line.at for line in lines if line.event == END and self._status_of(line) == SUCCEEDED]
                if ends and max(ends) > before:
                    before, latest = max(ends), job_id

    def _kept(self, lines: list[Line]) -> Iterator[Line]:
        """Yield the lines of attempts that have a start and an end, and were not lost."""
        events: dict[int, list[Line]] = defaultdict(list)
        for line in lines:
            events[line.lease].append(line)
        for pair in events.values():
            if len(pair) == 2 and self._status_of(pair[0]) in (SUCCEEDED, FAILED):
                yield from pair

    def _status_of(self, line: Line) -> str | None:
        return self._status.get(claim_of(line.job_id, line.lease))
