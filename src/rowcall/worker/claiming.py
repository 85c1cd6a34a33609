"""Asks for jobs in a round, and hands the claimed ones to the dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowcall.declare.declaration import Declaration, fingerprints
from rowcall.queue import Queue
from rowcall.store.claims.round import Claim, Demand
from rowcall.store.jobs.unreadable import Unreadable
from rowcall.store.queries.claims import Ready, all_plain
from rowcall.worker.attempt import Attempt, ClaimFacts
from rowcall.worker.attempt_log import log_started
from rowcall.worker.completion import Completion
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.pacing.protocol import Pacing
from rowcall.worker.pushing import Pushing
from rowcall.worker.registrar import Registrar
from rowcall.worker.slots import Slots


@dataclass(eq=False)
class Claims:
    queue: Queue
    queues: Mapping[str, int | None] | None
    dispatcher: Dispatcher
    registrar: Registrar
    completion: Completion
    slots: Slots
    pacing: Pacing
    logs_starts: Callable[[], bool]
    _turn: int = 0

    def __post_init__(self) -> None:
        self._pushing = Pushing(self.queue)

    def demand(self) -> Demand:
        slots, buffer = self.slots.free()
        queues, in_flight = self.queues, self.dispatcher.in_flight
        return Demand(
            worker=self.registrar.name,
            holder=self.registrar.current.holder,
            slots=slots,
            buffer=buffer,
            lost_ahead=self.slots.lost_ahead,
            last_ahead=self.slots.last_ahead,
            types=fingerprints(self.queue.declared.tasks),
            queues=queues
            and {queue: None if most is None else max(0, most - in_flight(queue)) for queue, most in queues.items()},
            first_queue=self._turn,
            batches=self.dispatcher.batches,
            batch_room=self.slots.batch_room(),
            limits=self.queue.declared.limits.declared,
            aliases=self.queue.declared.aliases,
            resume=self.pacing.resume(),
        )

    def accept(self, claim: Claim) -> None:
        """Hand the claimed jobs to the dispatcher. Raise `StoreUnavailable` if the liveness file has no room."""
        self._turn += claim.turns  # only here: after a round that claims nothing, each queue keeps its turn
        self.dispatcher.reserve(len(claim.started) + len(claim.buffered) + len(claim.joining))
        facts, marked = self._facts(claim.work.now_ms), claim.marked
        self.dispatcher.accept(
            [Attempt(ready, task, facts) for ready, task in self._with_tasks(claim.started)],
            [Attempt(ready, task, facts, ready.id not in marked) for ready, task in self._with_tasks(claim.buffered)],
            [Attempt(ready, task, facts, ready.id not in marked) for ready, task in self._with_tasks(claim.joining)],
        )

    def _with_tasks(self, jobs: Sequence[Ready]) -> Iterator[tuple[Ready, Declaration]]:
        tasks = self.queue.declared.tasks
        if any(task.options.target is not None for task in tasks.values()) or not all_plain(jobs):
            return zip(jobs, map(self._task_of, jobs), strict=True)
        return zip(jobs, [tasks[job.type] for job in jobs], strict=True)  # a call for each job is slow

    def _task_of(self, ready: Ready) -> Declaration:
        task = self.queue.declared.tasks[ready.type]
        return task if ready.target is None and task.options.target is None else self._pushing.of(task)

    def unreadable(self, unreadable: Sequence[Unreadable], now_ms: int) -> list[Attempt]:
        """Return attempts for jobs that failed when they were claimed, because their rows cannot be read."""
        facts = self._facts(now_ms)
        attempts = [Attempt(one.job, self.queue.declared.tasks[one.job.type], facts) for one in unreadable]
        for attempt, one in zip(attempts, unreadable, strict=True):
            attempt.transition = one.transition
        return attempts

    def _facts(self, now_ms: int) -> ClaimFacts:
        queue, registrar = self.queue, self.registrar
        log_start = log_started if self.logs_starts() else None
        return ClaimFacts(
            registrar.current, now_ms, queue.clock, self.completion, queue.declared.tracing, registrar.lease, log_start
        )
