"""Single parts of a worker: the round without its loop, the recovery without its thread."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.declare.retry_policy import policy_of
from rowcall.domain.outcome import AttemptBudget, Outcome, decide
from rowcall.operations.effects import Read, Write
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.claims.round import round_of_work
from rowcall.store.counts.tallies import Tallies
from rowcall.store.ends.attempts import Ended
from rowcall.store.ends.next_steps import Then
from rowcall.store.jobs.marks import mark
from rowcall.store.queries.claims import EVERY_QUEUE, FIND_WORK, NOTHING_KNOWN, Mark, Ready, Starts, new_holder
from rowcall.store.queries.workers import HEARTBEAT_OF_WORKER, Registration
from rowcall.store.recovery.register import register
from rowcall.testing.fake_clock import FakeClock
from rowcall.worker.settings import settings
from rowcall.worker.upkeep.recovery import Recovery
from rowcall.worker.upkeep.unknown_tasks import UnknownTasks

LEASE_SECONDS = 15.0
CONCURRENCY = 10


class StoreWorker:
    """What a worker process does to the store, step by step. It dies when it is no longer used."""

    def __init__(
        self,
        jobs: Rowcall,
        name: str,
        *,
        lease_seconds: float = LEASE_SECONDS,
        tasks: Mapping[str, str] | None = None,
        queues: str = "*",
    ) -> None:
        self._jobs = jobs
        self._tasks = tasks
        self.name = name
        self.holder = new_holder()
        registration = Registration(
            name=name,
            host="elsewhere",
            pid=1,
            queues=queues,
            concurrency=CONCURRENCY,
            version="0",
            lease_ms=round(lease_seconds * 1000),
            lock_path=None,
            tasks=None if tasks is None else json.dumps(tasks),
        )
        queue_of(jobs).run(Write(lambda: register(queue_of(jobs).dialect, registration)))

    def claim(
        self,
        *,
        slots: int = 1,
        buffer: int = 0,
        queues: Iterable[str] | None = None,
        resume: Starts = NOTHING_KNOWN,
    ) -> RoundResult:
        """A round that claims: `slots` jobs are started, `buffer` more wait with the worker.

        `resume`: what stands before these rows may be left out.
        """
        queue = queue_of(self._jobs)
        demand = Demand(
            worker=self.name,
            holder=self.holder,
            slots=slots,
            buffer=buffer,
            lost_ahead=CONCURRENCY,
            types=self._tasks,
            queues=None if queues is None else dict.fromkeys(queues),
            limits=queue.declared.limits.declared,
            resume={} if queue.dialect.one_writer else resume,
        )
        return self._round([], demand)

    def start_one(self) -> Ready:
        return self.claim().started[0]

    def settle(self, ready: Ready, outcome: Outcome, then: Then | None = None) -> bool:
        """Settle, and continue the chain. Return whether the attempt was still this worker's."""
        transition = decide(AttemptBudget(ready.attempt, ready.max_attempts), outcome, policy_of(None, ready.retry))
        tallies = Tallies()
        tallies.enter(ready.queue, ready.type, ready.attempt, transition, None, None)
        ended = Ended(*ready.fence, transition, then=then)
        demand = Demand(worker=self.name, holder=self.holder, slots=0)
        return ready.id in self._round([ended], demand, tallies).settled

    def mark_started(self, ready: Ready) -> None:
        """Let the row of a buffered job say that it got its turn."""
        queue = queue_of(self._jobs)
        queue.run(Write(mark, queue.dialect, [Mark(*ready.fence, started_age_ms=0)]))

    def heartbeat(self) -> bool:
        ask = queue_of(self._jobs).dialect.ask
        return bool(queue_of(self._jobs).run(Write(lambda: ask(HEARTBEAT_OF_WORKER, self.name))))

    def _round(self, ended: list[Ended], demand: Demand, tallies: Tallies | None = None) -> RoundResult:
        jobs = self._jobs
        make_tallies = None if tallies is None else lambda settled: tallies.rows()
        return queue_of(jobs).run(Write(lambda: round_of_work(queue_of(jobs).dialect, ended, make_tallies, demand)))


def watcher(jobs: Rowcall) -> Recovery:
    """Recovers lost workers. It must have seen the same heartbeat twice, a lease apart, before it declares one lost."""
    return Recovery(queue_of(jobs))


def checking(jobs: Rowcall, clock: FakeClock) -> Callable[[float], None]:
    """Return what a worker does every few seconds about jobs that it cannot claim, for some time."""
    queue, unknown = queue_of(jobs), UnknownTasks(queue_of(jobs), settings())

    def check(seconds: float) -> None:
        for _ in range(round(seconds / 50) or 1):
            clock.advance(50 if seconds else 0)
            (work,) = queue.run(Read(queue.dialect.ask(FIND_WORK, "", *EVERY_QUEUE)))
            unknown.note(work)
            unknown.check()

    return check
