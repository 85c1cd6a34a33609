"""The walks of the plain machine, with jobs that take turns by one value and run in order by another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.conformance.model.job import JobOptions, ModelJob
from tests.conformance.model.machine import OPTIONS, QueueMachine, enqueue_options
from tests.conformance.model.queue import ModelQueue
from tests.conformance.store import Store

WEIGHTS = {"A": 2}


class Parties(NamedTuple):
    """The task of a job, and its arguments."""

    task: str
    customer: str
    account: int


PARTIES = st.builds(
    Parties,
    task=st.sampled_from(["skipping", "skipping", "blocking"]),
    customer=st.sampled_from(["A", "A", "B", "C"]),
    account=st.integers(1, 6),
)
# most of them in one queue and of one priority, so that they have to take turns
MOSTLY_ALIKE = st.builds(
    lambda options, queue, priority: options._replace(queue=queue, priority=priority),
    OPTIONS,
    st.sampled_from(["mail", "mail", "mail", "media"]),
    st.sampled_from([0, 0, 0, 1]),
)
SHARED = st.lists(st.tuples(MOSTLY_ALIKE, PARTIES), min_size=3, max_size=8)


@dataclass
class Turn:
    """The place of a job among those of its queue, task and priority."""

    parties: Parties
    number: int | None = None


class ModelSharingQueue(ModelQueue):
    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self.turns: dict[int, Turn] = {}
        self._served: dict[tuple[str, str, int], int] = {}

    def share(self, job_id: int, parties: Parties) -> None:
        self.turns[job_id], self.jobs[job_id].type = Turn(parties), parties.task
        self._take_turns([job_id])

    def stage(self) -> None:
        before = {job.id for job in self.jobs.values() if job.status == "pending"}
        super().stage()
        self._take_turns(sorted(job.id for job in self.jobs.values() if job.id not in before))

    def retry(self, job_id: int) -> None:
        super().retry(job_id)
        self._take_turns([job_id])

    def _take_turns(self, job_ids: list[int]) -> None:
        for job_id in job_ids:
            if self.jobs[job_id].status == "pending":
                self.turns[job_id].number = self._next_turn(self.jobs[job_id])

    def _next_turn(self, job: ModelJob) -> int:
        """One after the last waiting job of the same value, and not before the next turn of the others."""
        value = self.turns[job.id].parties.customer
        last = self._served.get(self._place(job), 0)
        others = [one for one in self.jobs.values() if one.status == "pending" and one.id != job.id]
        waiting = [self.turns[one.id] for one in others if self._place(one) == self._place(job)]
        numbers = [(turn.number, turn.parties.customer) for turn in waiting if turn.number is not None]
        start = min((number for number, _ in numbers if number > last), default=max(last + 1, job.id))
        mine = [number for number, customer in numbers if customer == value]
        if not mine or max(mine) < start:
            return start
        return max(mine) + (mine.count(max(mine)) >= WEIGHTS.get(value, 1))

    def _place(self, job: ModelJob) -> tuple[str, str, int]:
        return job.queue, self.turns[job.id].parties.task, job.priority

    def claim(self, job_id: int, worker: str, token: int, *, lease: int | None, started: bool = True) -> None:
        super().claim(job_id, worker, token, lease=lease, started=started)
        place, number = self._place(self.jobs[job_id]), self.turns[job_id].number or 0
        self._served[place] = max(number, self._served.get(place, 0))

    def ready(self, queue: str) -> list[int]:
        """Only the first job of an account that has not ended may run, and only if no other one runs."""
        waiting = [self.jobs[job_id] for job_id in super().ready(queue)]
        waiting.sort(key=lambda job: (-job.priority, self.turns[job.id].number or 0, job.id))
        return [job.id for job in waiting if self._is_first(job)]

    def _is_first(self, job: ModelJob) -> bool:
        mine = self.turns[job.id].parties
        for other in self.jobs.values():
            parties = self.turns[other.id].parties
            if other.id != job.id and (parties.task, parties.account) == (mine.task, mine.account):
                blocks = other.status == "failed" and mine.task == "blocking"
                if other.status == "running" or (other.id < job.id and (blocks or not other.finished)):
                    return False
        return True


class SharingMachine(QueueMachine):
    model: ModelSharingQueue
    tasks = ("skipping", "blocking")

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.model = ModelSharingQueue(self.clock.now)

        @self.jobs.task(fair_by="customer", weight=WEIGHTS, ordered_by="account")
        def skipping(customer: str, account: int) -> None: ...

        @self.jobs.task(fair_by="customer", weight=WEIGHTS, ordered_by="account", on_failure="block")
        def blocking(customer: str, account: int) -> None: ...

    @initialize(several=SHARED)
    def begin_with_some_jobs(self, several: list[tuple[JobOptions, Parties]]) -> None:
        self.enqueue(several)

    def _may_prioritize(self, job: ModelJob) -> bool:
        return job.status == "scheduled"  # the others have a turn among those of their priority

    @rule(several=SHARED)
    def enqueue(self, several: list[tuple[JobOptions, Parties]]) -> None:
        for options, parties in several:
            arguments = {"customer": parties.customer, "account": parties.account}
            job = self.jobs.enqueue(parties.task, arguments, **enqueue_options(options))
            self.job_ids.append(job.id)
            self.model.enqueue(job.id, options)
            self.model.share(job.id, parties)
