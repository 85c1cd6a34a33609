"""Keys, blockers, chains and limits as their documentation describes them, on top of the plain model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from tests.conformance.model.job import DEFAULT_MAX_ATTEMPTS, JobOptions, ModelJob
from tests.conformance.model.queue import ModelQueue

BLOCKER_FAILED, BLOCKER_CANCELLED = "BLOCKER:FAILED", "BLOCKER:CANCELLED"


@dataclass
class Wait:
    """What a job waits for: another job, or a whole chain."""

    blocker_id: int
    of_chain: bool
    on_failure: str
    state: str = "open"


@dataclass
class Ties:
    """How a job depends on others. `turn` orders the jobs of one queue and priority."""

    turn: int
    created_at: datetime
    key: str | None = None
    chain_id: int | None = None
    chain_index: int | None = None
    waits: list[Wait] = field(default_factory=list)
    limit: str | None = None

    def open_waits(self) -> list[Wait]:
        return [wait for wait in self.waits if wait.state == "open"]


class Unique(NamedTuple):
    key: str
    scope: Literal["active", "any"]
    window: int | None
    on_duplicate: Literal["return", "replace", "raise"]


class Ended(NamedTuple):
    """A wait that is over, one way or the other."""

    job_id: int
    wait: Wait
    status: str


class ModelFlowQueue(ModelQueue):
    """`limits` says how many jobs may run at once under each name."""

    def __init__(self, now: Callable[[], datetime], limits: Mapping[str, int]) -> None:
        super().__init__(now)
        self._limits = limits
        self.ties: dict[int, Ties] = {}
        self._turns = itertools.count()
        self._resolved: set[int] = set()

    # coming in

    def enqueue(
        self,
        job_id: int,
        options: JobOptions,
        *,
        key: str | None = None,
        waits: Iterable[Wait] = (),
        chain_id: int | None = None,
        chain_index: int | None = None,
        limit: str | None = None,
    ) -> None:
        super().enqueue(job_id, options)
        ties = Ties(next(self._turns), self._now(), key, chain_id, chain_index, list(waits), limit)
        self.ties[job_id] = ties
        if ties.waits:
            self.jobs[job_id].status = "blocked"
            over = [Ended(job_id, wait, end) for wait in ties.waits if (end := self._end_of(wait)) is not None]
            self._resolve(over)
            self._ripple()

    def continue_with(self, job_id: int, next_id: int, queue: str) -> None:
        """Let a job succeed, and enqueue the next step of its chain."""
        ties = self.ties[job_id]
        if ties.chain_id is None:
            ties.chain_id, ties.chain_index = job_id, 0
        assert ties.chain_index is not None
        index = ties.chain_index + 1
        self.enqueue(next_id, JobOptions(queue), chain_id=ties.chain_id, chain_index=index)
        self.complete(job_id, "done")

    # keys

    def holder(self, unique: Unique) -> ModelJob | None:
        """The job that makes another one with this key a duplicate."""
        earliest = None if unique.window is None else self._now() - timedelta(seconds=unique.window)
        holders = [
            self.jobs[job_id]
            for job_id, ties in self.ties.items()
            if ties.key == unique.key
            and (unique.scope == "any" or not self.jobs[job_id].finished)
            and (earliest is None or ties.created_at > earliest)
            and (unique.on_duplicate != "replace" or self.jobs[job_id].waits)
        ]
        return max(holders, key=lambda job: job.id, default=None)

    def replace(self, job_id: int, *, delay: int, expires_in: int | None) -> None:
        job, now = self.jobs[job_id], self._now()
        job.run_at = now + timedelta(seconds=delay)
        job.expires_at = None if expires_in is None else now + timedelta(seconds=expires_in)
        if job.status != "blocked":
            job.status = "scheduled" if delay > 0 else "pending"

    def other_holder(self, job_id: int) -> int | None:
        """The newest job next to this one that has its key and has not finished."""
        key = self.ties[job_id].key
        if key is None:
            return None
        others = [
            other
            for other, ties in self.ties.items()
            if ties.key == key and other != job_id and not self.jobs[other].finished
        ]
        return max(others, default=None)

    # chains

    def steps(self, chain_id: int) -> list[int]:
        steps = [job_id for job_id, ties in self.ties.items() if ties.chain_id == chain_id]
        return sorted(steps, key=lambda job_id: self.ties[job_id].chain_index or 0)

    def chains(self) -> list[int]:
        return sorted({ties.chain_id for ties in self.ties.values() if ties.chain_id is not None})

    def is_overtaken(self, job_id: int) -> bool:
        """Whether a later step of its chain is there that did not fall with it."""
        chain_id = self.ties[job_id].chain_id
        if chain_id is None:
            return False
        steps = self.steps(chain_id)
        return not all(self.fell(step) for step in steps[steps.index(job_id) + 1 :])

    def is_followed(self, job_id: int) -> bool:
        """Whether its chain has a step after it."""
        chain_id = self.ties[job_id].chain_id
        return chain_id is not None and self.steps(chain_id)[-1] != job_id

    def is_waited_for(self, job_id: int) -> bool:
        return any(
            job_id in (wait.blocker_id, *(self.steps(wait.blocker_id) if wait.of_chain else ()))
            for ties in self.ties.values()
            for wait in ties.waits
        )

    # what follows from an end

    def complete(self, job_id: int, result: object) -> None:
        super().complete(job_id, result)
        self._ripple()

    def fail(self, job_id: int, code: str, *, pause: timedelta | None = None) -> None:
        super().fail(job_id, code, pause=pause)
        self._ripple()

    def give_up(self, job_id: int, code: str) -> None:
        super().give_up(job_id, code)
        self._ripple()

    def cancel_from_inside(self, job_id: int) -> None:
        super().cancel_from_inside(job_id)
        self._ripple()

    def snooze(self, job_id: int, pause: timedelta) -> None:
        super().snooze(job_id, pause)
        self._ripple()

    def release(self, job_id: int) -> None:
        super().release(job_id)
        self._ripple()

    def _lose(self, jobs: list[ModelJob]) -> int:
        lost = super()._lose(jobs)
        self._ripple()
        return lost

    def stage(self) -> None:
        super().stage()
        self._ripple()

    def cancel(self, job_id: int) -> None:
        super().cancel(job_id)
        self._ripple()

    def retry(self, job_id: int) -> None:
        """Revive a job and what ended with it. What has never run waits for its blockers again."""
        revivals = [job_id, *self._fallen_with(job_id)]
        waiting = [one for one in revivals if self.jobs[one].used == 0 and self.jobs[one].status != "succeeded"]
        for revived in revivals:
            job = self.jobs[revived]
            limit = job.max_attempts + (DEFAULT_MAX_ATTEMPTS if revived == job_id else 0)
            super().retry(revived)
            job.max_attempts = limit
            self._resolved.discard(revived)
        for revived in waiting:
            self._wait_again(revived)

    def _fallen_with(self, job_id: int) -> list[int]:
        """Later steps of its chain, jobs that waited for it, and what fell with them: one job of each key."""
        revivals, newest = [job_id], [job_id]
        while newest:
            concerned = [*newest, *(step for one in newest for step in self._fallen_steps(one))]
            chains = {self.ties[one].chain_id for one in concerned}
            waited = [one for one in sorted(self.ties) if self.fell(one) and self._broke(one, concerned, chains)]
            newest = []
            for one in [*concerned, *(one for one in waited if not self.is_overtaken(one))]:
                taken = {self.ties[other].key for other in revivals} - {None}
                if one not in revivals and self.ties[one].key not in taken and self.other_holder(one) is None:
                    revivals.append(one)
                    newest.append(one)
        return revivals[1:]

    def _fallen_steps(self, job_id: int) -> list[int]:
        chain_id = self.ties[job_id].chain_id
        if chain_id is None:
            return []
        steps = self.steps(chain_id)
        return [step for step in steps[steps.index(job_id) + 1 :] if self.fell(step)]

    def _broke(self, job_id: int, jobs: Collection[int], chains: Collection[int | None]) -> bool:
        waits = (wait for wait in self.ties[job_id].waits if wait.state == "failed")
        return any(wait.blocker_id in (chains if wait.of_chain else jobs) for wait in waits)

    def fell(self, job_id: int) -> bool:
        """Whether it ended because of a blocker, and never ran."""
        job = self.jobs[job_id]
        never_ran = job.latest is None
        return job.finished and never_ran and job.error_code in (BLOCKER_FAILED, BLOCKER_CANCELLED)

    def _wait_again(self, job_id: int) -> None:
        for wait in self.ties[job_id].waits:
            if wait.state == "failed":
                wait.state = "succeeded" if self._end_of(wait) == "succeeded" else "open"
        if self.ties[job_id].open_waits():
            self.jobs[job_id].status = "blocked"

    def delete(self, job_id: int) -> None:
        super().delete(job_id)
        del self.ties[job_id]

    def ready(self, queue: str) -> list[int]:
        """Jobs behind a full limit are claimed before it."""
        room = {name: self.room(name) for name in self._limits}
        admitted = []
        for job_id in self.in_turn(queue):
            limit = self.ties[job_id].limit
            if limit is None or room[limit] > 0:
                admitted.append(job_id)
            if limit is not None:
                room[limit] -= 1
        return admitted

    def room(self, limit: str) -> int:
        """How many more may run under a limit."""
        return self._limits[limit] - sum(self.ties[job.id].limit == limit for job in self.running_jobs())

    def will_be_ready(self, queue: str) -> bool:
        now = self._now()
        return any(
            (job.status == "pending" or (job.status == "scheduled" and job.run_at <= now))
            and not self._is_expired(job)
            and ((limit := self.ties[job.id].limit) is None or self.room(limit) > 0)
            for job in self.jobs.values()
            if job.queue == queue
        )

    def in_turn(self, queue: str) -> list[int]:
        waiting = [job for job in self.jobs.values() if job.status == "pending" and job.queue == queue]
        return [job.id for job in sorted(waiting, key=lambda one: (-one.priority, self.ties[one.id].turn, one.id))]

    def _ripple(self) -> None:
        """Settle the jobs that waited for what has just ended, and the jobs that waited for them."""
        while newly := {job.id for job in self.jobs.values() if job.finished} - self._resolved:
            self._resolved |= newly
            self._resolve(
                [
                    Ended(job_id, wait, end)
                    for job_id, ties in self.ties.items()
                    for wait in ties.open_waits()
                    if self._last_of(wait) in newly and (end := self._end_of(wait)) is not None
                ]
            )

    def _last_of(self, wait: Wait) -> int:
        return self.steps(wait.blocker_id)[-1] if wait.of_chain else wait.blocker_id

    def _end_of(self, wait: Wait) -> str | None:
        blocker = self.jobs[self._last_of(wait)]
        return blocker.status if blocker.finished else None

    def _resolve(self, over: Sequence[Ended]) -> None:
        broken: dict[int, set[str]] = {}
        for job_id, wait, status in over:
            if status == "succeeded" or wait.on_failure == "run":
                wait.state = "succeeded"
            elif wait.on_failure == "fail":
                wait.state = "failed"
                broken.setdefault(job_id, set()).add(status)
        for job_id, statuses in broken.items():
            self._break(self.jobs[job_id], "failed" if "failed" in statuses else "cancelled")
        free = {one.job_id for one in over if one.wait.state == "succeeded" and not self.ties[one.job_id].open_waits()}
        self._unblock([self.jobs[job_id] for job_id in free if self.jobs[job_id].status == "blocked"])

    def _break(self, job: ModelJob, status: str) -> None:
        if job.status == "blocked":
            job.status, job.finished_at, job.moves = status, self._now(), job.moves + 1
            job.error_code = BLOCKER_FAILED if status == "failed" else BLOCKER_CANCELLED

    def _unblock(self, jobs: Sequence[ModelJob]) -> None:
        """They take their turn behind all that could run before them."""
        turn, now = next(self._turns), self._now()
        for job in jobs:
            job.status = "scheduled" if job.run_at > now else "pending"
            job.run_at = max(job.run_at, now)
            self.ties[job.id].turn = turn
