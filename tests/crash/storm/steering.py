"""A process that steers at random, and one that claims by hand: both run next to the workers, and may be killed."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable

from rowcall import (
    BatchNotFound,
    DuplicateJob,
    Job,
    JobCancelled,
    JobNotFound,
    LeaseLost,
    LimitNotFound,
    StillNeeded,
    StoreUnavailable,
    WrongState,
)
from tests.crash.storm import terms
from tests.crash.storm.tasks import jobs, notes

LEASE_SECONDS = 0.7
NOT_FOUND = (BatchNotFound, JobNotFound, LimitNotFound)
REFUSED = (*NOT_FOUND, WrongState, DuplicateJob, StillNeeded, LeaseLost, StoreUnavailable)


class Steerer:
    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._ways: dict[Callable[[], object], int] = {
            self._cancel: 8,
            self._retry: 6,
            self._delete: 4,
            self._reschedule: 4,
            self._set_priority: 3,
            self._steer_chain: 3,
            self._pause: 3,
            self._resume: 6,
            self._set_limit: 3,
            self._prune: 2,
            self._retry_group: 2,
            self._look: 4,
        }

    def steer(self) -> None:
        way = self._chance.choices(list(self._ways), list(self._ways.values()))[0]
        with contextlib.suppress(*REFUSED):
            way()

    def _any(self, status: str | None = None) -> Job:
        found = jobs.list(limit=60, status=status).jobs
        if not found:
            raise JobNotFound(0)
        return self._chance.choice(found)

    def _cancel(self) -> None:
        match self._chance.randrange(3):
            case 0:
                jobs.cancel(self._any("running").id, "storm")
            case 1:
                jobs.cancel(self._any().id)
            case 2:
                jobs.cancel(type=self._any().type, status="pending", limit=3)

    def _retry(self) -> None:
        if self._chance.random() < 0.3:
            jobs.retry(type=self._any("failed").type, limit=3)
        else:
            jobs.retry(self._any(self._chance.choice(("failed", "cancelled", "succeeded"))).id)

    def _retry_group(self) -> None:
        for info in jobs.list_batches(limit=5).batches:
            group = jobs.get_batch(info.id)
            if self._chance.random() < 0.5:
                group.retry()
            else:
                group.cancel("storm")

    def _delete(self) -> None:
        job = self._any()
        notes.write("deleting", job.id)
        jobs.delete(job.id)

    def _reschedule(self) -> None:
        jobs.reschedule(self._any(self._chance.choice(("pending", "scheduled", "blocked"))).id, delay=0.1)

    def _set_priority(self) -> None:
        jobs.set_priority(self._any("pending").id, self._chance.randint(-5, 5))

    def _steer_chain(self) -> None:
        chain = self._chance.choice(jobs.list_chains(limit=20).chains or [None])
        if chain is None:
            return
        match self._chance.randrange(3):
            case 0:
                jobs.cancel_chain(chain.id)
            case 1:
                notes.write("completing", chain.id)
                jobs.complete_chain(chain.id, "from outside")
            case 2:
                for step in jobs.chain(chain.id).steps:
                    notes.write("deleting", step.id)
                jobs.delete_chain(chain.id)

    def _pause(self) -> None:
        if self._chance.random() < 0.5:
            jobs.pause("side")
        else:
            jobs.pause(task="plain")

    def _resume(self) -> None:
        jobs.resume("side")
        jobs.resume(task="plain")

    def _set_limit(self) -> None:
        """Lower a limit, or let its declared numbers count again."""
        limit = self._chance.choice(list(terms.LIMITS.values()))
        if self._chance.random() < 0.4:
            jobs.reset_limit(limit.name)
        elif limit.rate is not None:
            jobs.set_limit(limit.name, rate=self._chance.randint(terms.MOST_UNITS if limit.units else 1, limit.rate))
        else:
            jobs.set_limit(limit.name, concurrency=self._chance.randint(1, limit.concurrency or 1))

    def _prune(self) -> None:
        jobs.prune()

    def _look(self) -> None:
        jobs.stats()
        job = self._any()
        jobs.get(job.id)
        jobs.timeline(job.id)


class Claimer:
    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._name = f"hand:{os.getpid()}:0"

    def work(self) -> None:
        with contextlib.suppress(*REFUSED):
            for job in jobs.claim(self._name, limit=self._chance.randint(1, 4), lease=LEASE_SECONDS, queues=["hand"]):
                with contextlib.suppress(*REFUSED):
                    self._work_on(job)

    def _work_on(self, job: Job) -> None:
        under = f":spots:{job.payload['spot']}" if job.type == "spot" else ""
        notes.write(f"begin{under}", job.id, job.lease)
        try:
            with contextlib.suppress(JobCancelled):
                jobs.heartbeat(job)
        finally:
            notes.write("end", job.id, job.lease)
        match self._chance.randrange(6):
            case 0:
                jobs.fail(job, "STORM:BY_HAND")
            case 1:
                jobs.release(job)
            case 2:
                pass  # its lease runs out
            case _:
                jobs.complete(job, "x" * self._chance.choice((1, 3_000)))
