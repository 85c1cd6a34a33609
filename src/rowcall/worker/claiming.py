"""Knows whether there are jobs to claim, asks for them in a round, and hands the claimed ones to the dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rowcall.base.clock import Clock, jittered
from rowcall.declare.declaration import Declaration, fingerprints
from rowcall.queue import Queue
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.claims.round import wanted_types
from rowcall.store.jobs.unreadable import Unreadable
from rowcall.store.queries.claims import Ready, Work, all_plain, task_of
from rowcall.worker.attempt import Attempt, CommonFacts
from rowcall.worker.attempt_log import log_started
from rowcall.worker.completion import Completion
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.pace import (
    FIRST_RETRY_SECONDS,
    FIRST_STUCK_SECONDS,
    LAST_RETRY_SECONDS,
    LAST_STUCK_SECONDS,
    NEVER,
    UNSURE_SECONDS,
)
from rowcall.worker.pacing.protocol import Pacing
from rowcall.worker.pushing import Pushing
from rowcall.worker.registrar import Registrar
from rowcall.worker.slots import Slots


@dataclass(eq=False)
class Intake:
    """Says what a round may claim, and makes attempts of the jobs that it claimed."""

    queue: Queue
    queues: Mapping[str, int | None] | None
    dispatcher: Dispatcher
    registrar: Registrar
    completion: Completion
    slots: Slots
    pacing: Pacing
    logs_starts: Callable[[], bool]
    _last_queue: str = ""

    @cached_property
    def _pushing(self) -> Pushing:
        return Pushing(self.queue)

    def demand(self) -> Demand:
        slots, buffer = self.slots.free()
        queues, in_flight = self.queues, self.dispatcher.in_flight
        return Demand(
            worker=self.registrar.name,
            holder=self.registrar.holder,
            slots=slots,
            buffer=buffer,
            lost_ahead=self.slots.lost_ahead,
            last_ahead=self.slots.last_ahead,
            types=fingerprints(self.queue.declared.tasks),
            on_end=self.queue.declared.follow_ups.on_end_of,
            queues=queues
            and {queue: None if most is None else max(0, most - in_flight(queue)) for queue, most in queues.items()},
            last_queue=self._last_queue,
            batches=self.dispatcher.batches,
            batch_room=self.slots.batch_room(),
            limits=self.queue.declared.limits.declared,
            aliases=self.queue.declared.aliases,
            resume=self.pacing.resume(),
        )

    def accept(self, result: RoundResult) -> None:
        """Hand the claimed jobs to the dispatcher. Raise `StoreUnavailable` if the liveness file has no room."""
        self._last_queue = result.last_queue  # only here: after a round that claims nothing, each queue keeps its turn
        self.dispatcher.reserve(len(result.started) + len(result.buffered) + len(result.joining))
        facts, marked = self._facts(result.work.now_ms), result.marked
        self.dispatcher.accept(
            [Attempt(ready, task, facts) for ready, task in self._with_tasks(result.started)],
            [Attempt(ready, task, facts, ready.id not in marked) for ready, task in self._with_tasks(result.buffered)],
            [Attempt(ready, task, facts, ready.id not in marked) for ready, task in self._with_tasks(result.joining)],
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

    def _facts(self, now_ms: int) -> CommonFacts:
        queue, registrar = self.queue, self.registrar
        log_start = log_started if self.logs_starts() else None
        return CommonFacts(
            registrar.current,
            now_ms,
            queue.clock,
            self.completion,
            queue.declared.tracing,
            registrar.lease,
            log_start,
            any_breakers=bool(queue.declared.limits.breakers),
        )


class KnownWork:
    """What the loop knows about jobs to claim, from its last round or check. Used by its thread alone.

    Times are those of the clock's `timer`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer = clock.timer
        self._work: Work | None = None
        self._stuck_seconds = 0.0
        self._retry_seconds = 0.0
        self._fruitless: set[tuple[str, str]] = set()
        self.checked_at = self.round_at = 0.0
        self.retry_at = NEVER
        self.maybe_any = True
        """Whether a round may find a job to claim."""
        self.is_checked = False
        """Whether there was a check since the last round."""
        self.is_notified = False
        """Whether a notification came since the last round."""

    # what was learned

    def note_round(self, demand: Demand, result: RoundResult) -> None:
        self._note(result.work)
        self.round_at = self.checked_at
        self.is_checked = self.is_notified = False
        self.maybe_any = result.more
        self._stuck_seconds = _backed_off(self._stuck_seconds, FIRST_STUCK_SECONDS, LAST_STUCK_SECONDS, result.stuck)
        # another claimer had the limit of some jobs: that is over in a moment
        self._retry_seconds = _backed_off(self._retry_seconds, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, result.left)
        self.retry_at = self.checked_at + jittered(self._clock, self._retry_seconds) if result.left else NEVER
        any_claimed = bool(result.jobs or result.unread)
        # ready jobs that could not be claimed, such as ones with an invalid name, are not tried again soon
        self._fruitless = set(result.work.ready) if demand.wants_any and not any_claimed else set()

    def note_check(self, work: Work, demand: Demand) -> None:
        """`demand` is what there is room for."""
        self._note(work)
        wanted = wanted_types(demand, work.ready, work.paused)
        self.maybe_any = any(self._may_claim(demand, queue, keys) for queue, keys in wanted.items())

    def _may_claim(self, demand: Demand, queue: str, keys: Iterable[str]) -> bool:
        return (demand.queues or {}).get(queue) != 0 and any(
            (queue, key) not in self._fruitless and (demand.room > 0 or demand.batch_room.get(task_of(key), 0) > 0)
            for key in keys
        )

    def _note(self, work: Work) -> None:
        self._work, self.checked_at = work, self._timer()

    def note_before_wait(self) -> None:
        """The last check came after this worker has announced that it waits."""
        self.is_checked = True

    def note_woken(self) -> None:
        """A slot may have come free without an outcome: check for a job for it."""
        self.is_checked = False

    def note_more(self) -> None:
        """Jobs were settled without a round, or released: others may be ready."""
        self.maybe_any = True

    def note_notified(self) -> None:
        self.note_commit()
        self.maybe_any = self.is_notified = True

    def note_commit(self) -> None:
        """Another connection may have changed what could not be claimed."""
        self._fruitless = set()

    # when there is something to do, by the database's clock

    @property
    def due_at(self) -> float:
        return self._at(self._work.next_at_ms if self._work is not None else None)

    @property
    def schedule_at(self) -> float:
        return self._at(self._work.wake_at_ms if self._work is not None else None)

    @property
    def unsure_at(self) -> float:
        return self.round_at + UNSURE_SECONDS if self._work is not None and self._work.edges_unsure else NEVER

    @property
    def stuck_until(self) -> float:
        return self.round_at + self._stuck_seconds

    def _at(self, at_ms: int | None) -> float:
        if at_ms is None or self._work is None:
            return NEVER
        return self.checked_at + (at_ms - self._work.now_ms) / 1000


def _backed_off(seconds: float, first: float, last: float, again: bool) -> float:
    return min(max(first, seconds * 2), last) if again else 0.0
