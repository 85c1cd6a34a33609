"""Keeps ended attempts until rounds settle them, in groups or one by one. The plan is in `store.ends.attempts`."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

import msgspec

from rowcall.context import logger
from rowcall.domain.encryption import Kind
from rowcall.domain.errors import DataRefused, RowcallError
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import SUCCESS, Lost, Transition
from rowcall.drivers.database import Connection
from rowcall.overview.formats import counted
from rowcall.queue import Queue
from rowcall.store.counts.tallies import Tallies
from rowcall.store.ends.attempts import (
    Completions,
    Ended,
    MakeTallies,
    Written,
    attempts_of,
    settle,
    settle_completed,
)
from rowcall.store.jobs.marks import mark
from rowcall.store.queries.claims import Fence, Mark
from rowcall.store.queries.counts import Tally
from rowcall.store.queries.ends import Owner, Success
from rowcall.store.recovery.recover import release_unknown
from rowcall.store.statement import Plan
from rowcall.worker.attempt import Attempt, clear_started
from rowcall.worker.attempt_log import AttemptLog, log_dropped, log_left_open, log_opened
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.output import with_output
from rowcall.worker.pace import (
    ALONE_SECONDS,
    ASK_AGAIN_SECONDS,
    LEAST_GROUP,
    LONGEST_UNDECIDED_SECONDS,
    MARK_AFTER_SECONDS,
    MOST_SETTLED,
    NEVER,
)
from rowcall.worker.pacing.settle_thread import SettleThread

NONE: Mapping[int, Transition] = MappingProxyType({})
_JOB_ID = attrgetter("ready.id")


class Settler:
    """Used by the loop's thread alone."""

    def __init__(
        self,
        queue: Queue,
        dispatcher: Dispatcher,
        connection: Connection,
        report: AttemptLog,
        thread: SettleThread | None,
    ) -> None:
        self._queue = queue
        self._dispatcher = dispatcher
        self._connection = connection
        self._thread = thread
        self.report = report
        self.completed = CompletedAttempts(queue, dispatcher, connection, report)
        self._thread_from = 0.0
        """When the thread gets large groups again, after it could not settle one."""
        self._unsettled: list[Attempt] = []
        self._marked_at = 0.0
        self.void: list[Fence] = []
        """Attempts whose jobs were ended or changed from outside: the next round deletes their claims."""
        self.late: list[tuple[int, int]] = []
        """Attempts that were abandoned, and whose handlers have ended: the next round frees their slots."""

    def collect(self) -> bool:
        """Take over what the lanes have ended. Return whether that was anything."""
        ended = self._dispatcher.pop_ended()
        usual = [attempt for attempt in ended if not (attempt.completed or attempt.stopped_because)]
        self._unsettled += usual
        if len(usual) < len(ended):
            self._collect_unusual([attempt for attempt in ended if attempt.completed or attempt.stopped_because])
        self.late += self._dispatcher.pop_late()
        return bool(ended)

    def _collect_unusual(self, ended: Iterable[Attempt]) -> None:
        for attempt in ended:
            if attempt.completed:
                self.completed.add([attempt])
            elif isinstance(attempt.stopped_because, Lost):
                clear_started([attempt])
                if attempt.left_open:
                    log_opened(attempt)
                else:
                    log_dropped(attempt)
                    self.void.append(attempt.ready.fence)
                self.late.append(attempt.fence)
            else:
                self._unsettled.append(attempt)

    @property
    def unsettled(self) -> int:
        """How many attempts the next rounds settle."""
        return len(self._unsettled)

    @property
    def awaited(self) -> int:
        """How many attempts still have to be settled."""
        return len(self._unsettled) + self.in_thread + self.completed.awaited + len(self.late)

    @property
    def is_group(self) -> bool:
        return len(self._unsettled) >= LEAST_GROUP

    def group(self) -> list[Attempt]:
        """Return the attempts that the next round settles."""
        return self._unsettled[:MOST_SETTLED]

    # in the settle thread

    @property
    def _attempts_in_thread(self) -> list[Attempt]:
        return self._thread.attempts if self._thread is not None else []

    @property
    def in_thread(self) -> int:
        """How many attempts the thread settles."""
        return len(self._attempts_in_thread)

    @property
    def thread_done(self) -> bool:
        return self._thread is not None and self._thread.is_done

    @property
    def is_large(self) -> bool:
        """Whether the attempts that ended are worth the thread."""
        return self._thread is not None and self.is_group and self._queue.clock.timer() >= self._thread_from

    def settle_in_thread(self, owner: Owner) -> bool:
        """Have the thread settle a large group without next steps. Return whether it does."""
        attempts = self.group()
        if self._thread is None or not self.is_large or any(one.then is not None for one in attempts):
            return False
        del self._unsettled[: len(attempts)]
        self._thread.start(attempts, self._plan(attempts, owner))
        return True

    def _plan(self, attempts: list[Attempt], owner: Owner) -> Plan[Written]:
        """Return what the thread does: also the work of the interpreter, as the loop's thread has much of it."""
        now, abandoned = self._queue.clock.monotonic(), self._dispatcher.abandoned

        def plan() -> Plan[Written]:
            ended, success_counts = settlements_of(attempts, now, owner.holder)
            tallies, freed = tallies_of(attempts, now, success_counts), attempts_of(ended, abandoned)
            return (yield from settle(self._queue.dialect, ended, tallies, freed, owner=owner))

        return with_output(self._queue.dialect, attempts, plan(), lambda written: written.live)

    def take_settled(self) -> bool:
        """Wait for the group of the thread, and return whether it was settled. Raise what the thread raised: then a
        round settles the group, or finds out whether it is settled.
        """
        if self._thread is None or not self._thread.attempts:
            return False
        attempts, written = self._thread.take()
        try:
            result = written.result()
        except BaseException as error:
            self._unsettled[:0] = attempts
            self._thread_from = self._queue.clock.timer() + ALONE_SECONDS
            if isinstance(error, DataRefused):  # a round finds out whose data that is
                return False
            raise
        self._note_settled(attempts, result.live, result.cancelled)
        return True

    def close(self) -> None:
        if self._thread is not None:
            self._thread.close()

    def settled(
        self, attempts: list[Attempt], settled: set[int], cancelled: Mapping[int, Transition] = NONE, late: int = 0
    ) -> None:
        """A group was written. An attempt in `cancelled` became what that says; one not in `settled` was not ours."""
        del self.late[:late]
        del self._unsettled[: len(attempts)]
        self._note_settled(attempts, settled, cancelled)

    def _note_settled(self, attempts: list[Attempt], settled: set[int], cancelled: Mapping[int, Transition]) -> None:
        if cancelled:
            for attempt in attempts:
                attempt.transition = cancelled.get(attempt.ready.id, attempt.transition)
        clear_started(attempts)
        self.report.settled(attempts, settled)

    def settle_one_by_one(self) -> None:
        """The database refuses the data of one of the group: settle the others, and fail that one."""
        while self._unsettled:
            attempt = self._unsettled[0]
            try:
                settled = self._settle([attempt])
            except DataRefused as error:
                attempt.fail_refused(error)
                settled = self._settle([attempt])
            self.settled([attempt], settled)

    def set_aside(self) -> None:
        """Another transaction locks some of the rows: settle each when its row is free, without delaying the others."""
        self.completed.add(self._unsettled)
        self._unsettled = []

    def make_sure(self, holders: Collection[int]) -> None:
        """After the reply to a commit was lost: find out what it settled, and release what it claimed."""
        owned = self.release_unknown(holders)
        done = [attempt for attempt in self._unsettled if attempt.ready.fence not in owned]
        self._unsettled = [attempt for attempt in self._unsettled if attempt not in done]
        clear_started(done)
        self.late += [attempt.fence for attempt in done]  # if they were not settled by us, their slots are still taken
        self.report.settled(done, {attempt.ready.id for attempt in done})

    def release_unknown(self, holders: Collection[int]) -> set[Fence]:
        """Release claims in our name that we do not hold, and return all claims."""
        owned_by_us = (*self._dispatcher.held(), *self._unsettled, *self._attempts_in_thread, *self.completed)
        held = {attempt.ready.fence for attempt in owned_by_us}
        all_holders = {*holders, *(fence.holder for fence in held)}
        return self._connection.write(release_unknown(self._queue.dialect, all_holders, held))

    def release(self, attempts: Iterable[Attempt]) -> None:
        """Release jobs that were never started."""
        for attempt in attempts:
            attempt.release_unstarted()
            self._unsettled.append(attempt)

    def mark_started(self) -> None:
        """Write when attempts that came out of the buffer started, if they have run for a while."""
        clock = self._queue.clock
        if clock.timer() - self._marked_at < MARK_AFTER_SECONDS:
            return
        self._marked_at = clock.timer()
        now = clock.monotonic()
        attempts = self._dispatcher.unmarked(MARK_AFTER_SECONDS)
        if attempts:
            marks = [Mark(*one.ready.fence, started_age_ms=round((now - one.started_at) * 1000)) for one in attempts]
            self._connection.write(mark(self._queue.dialect, marks))
        for attempt in attempts:
            attempt.marked = True

    def drop_all(self) -> None:
        """Write nothing more about the attempts that ended so far."""
        clear_started([*self._unsettled, *self.completed, *self._dispatcher.pop_ended()])
        self.completed.drop_all()
        self._unsettled, self.late, self.void = [], [], []

    def try_to_settle_all(self) -> None:
        """Called before the loop ends with an error."""
        try:
            with contextlib.suppress(RowcallError):  # what the thread could not settle is settled here
                self.take_settled()
            self._settle(self._unsettled)
        except RowcallError as error:
            logger.warning(
                "could not release %s, other workers will recover them: %s",
                counted(len(self._unsettled), "job"),
                error,
            )

    def _settle(self, attempts: Sequence[Attempt]) -> set[int]:
        now = self._queue.clock.monotonic()
        ended = [ended_of(attempt, now) for attempt in attempts]
        freed = attempts_of(ended, self._dispatcher.abandoned)
        plan = settle(self._queue.dialect, ended, tallies_of(attempts, now), freed)
        together = with_output(self._queue.dialect, attempts, plan, lambda written: written.live)
        return self._connection.write(together).live


SuccessKey = tuple[str, str, int, int, int | None]
"""Queue, task and number of attempts that succeeded, how long they waited and ran, in milliseconds."""


def settlements_of(
    attempts: Sequence[Attempt], now: float, holder: int
) -> tuple[list[Ended | Success], Counter[SuccessKey]]:
    """Return the rows to settle, and how many attempts succeeded the same way.

    Successes of neighbouring jobs with the same result become one row: what is done for each job alone is most of a
    drain's cost. Attempts that were claimed by another holder, before this worker was declared lost, are written one by
    one.
    """
    ended: list[Ended | Success] = []
    success_counts: Counter[SuccessKey] = Counter()
    last, first_id, count = None, 0, 0
    for attempt in sorted(attempts, key=_JOB_ID):
        ready, started_at, transition = attempt.ready, attempt.started_at, attempt.transition
        if (
            transition is None
            or transition.move is not Move.SUCCEED
            or transition.on_end is not None
            or transition.note is not None
            or attempt.then is not None
            or attempt.reported
            or not started_at
            or ready.holder != holder
        ):
            ended.append(ended_of(attempt, now))
            if _succeeded(attempt):
                success_counts[ready.queue, ready.type, ready.attempt, attempt.waited_ms, attempt.ran_ms] += 1
            continue
        # `waited_ms`, inlined: a call for each job costs a measurable part of a drain
        written_ms = ready.run_at_ms if ready.run_at_ms > ready.created_at_ms else ready.created_at_ms
        claimed_at_ms = attempt.common.claimed_at_ms
        key = (
            int((now - started_at) * 1000),
            int((now - attempt.finished_at) * 1000),
            ready.lease,
            claimed_at_ms,
            ready.queue,
            ready.type,
            ready.attempt,
            claimed_at_ms - written_ms,
            transition.result,
        )
        if key == last and ready.id == first_id + count:
            count += 1
            continue
        if last is not None:
            _add_run(ended, success_counts, last, first_id, count)
        last, first_id, count = key, ready.id, 1
    if last is not None:
        _add_run(ended, success_counts, last, first_id, count)
    return ended, success_counts


def _add_run(
    ended: list[Ended | Success],
    success_counts: Counter[SuccessKey],
    key: tuple[int, int, int, int, str, str, int, int, str | None],
    first_id: int,
    count: int,
) -> None:
    started_ms, finished_ms, lease, claimed_at_ms, queue, task, number, waited_ms, result = key
    ended.append(Success(first_id, lease, claimed_at_ms, started_ms, finished_ms, result, count))
    success_counts[queue, task, number, waited_ms, started_ms - finished_ms] += count


def _succeeded(attempt: Attempt) -> bool:
    return attempt.transition is not None and attempt.transition.move is Move.SUCCEED


def ended_of(attempt: Attempt, now: float) -> Ended:
    assert attempt.transition is not None
    transition, completion = attempt.transition, attempt.common.completion
    if completion.blobs.cipher is not None:
        transition = completion.blobs.cipher.encrypted(transition, attempt.ready.type)
    started_ms = int((now - attempt.started_at) * 1000) if attempt.started_at else None
    finished_ms = int((now - attempt.finished_at) * 1000) if attempt.finished_at else 0
    reported = attempt.last_report()
    progress = reported and reported.at_end(succeeded=_succeeded(attempt))
    if progress is not None:
        message = completion.blobs.encrypted_text(progress.message, attempt.ready.type, Kind.PROGRESS)
        progress = msgspec.structs.replace(progress, message=message)
    ages = started_ms, finished_ms
    committed = attempt.note_of_success if attempt.completed else None
    claimed_at_ms = attempt.common.claimed_at_ms
    return Ended(*attempt.ready.fence, transition, *ages, attempt.then, progress, claimed_at_ms, committed)


def tallies_of(
    attempts: Sequence[Attempt], now: float, success_counts: Counter[SuccessKey] | None = None
) -> MakeTallies:
    """Return a function that makes the tallies of a group from the ids that were settled.

    `success_counts`: how many of the attempts succeeded the same way, if that is known.
    """

    def make(settled: set[int]) -> list[Tally]:
        counted, successes = attempts, success_counts
        if len(settled) < len(attempts):  # some were not ours; of a job that is there twice, the last attempt was
            by_lease = sorted(attempts, key=lambda attempt: attempt.ready.lease)
            latest = {attempt.ready.id: attempt for attempt in by_lease}
            counted, successes = [attempt for job_id, attempt in latest.items() if job_id in settled], None
        if successes is None:
            successes = _successes(counted)
        tallies = Tallies()
        for (queue, task, number, waited_ms, ran_ms), jobs in successes.items():
            tallies.enter(queue, task, number, SUCCESS, waited_ms, ran_ms, jobs)
        others = counted if successes.total() < len(counted) else ()
        for attempt in others:
            transition, ready = attempt.transition, attempt.ready
            if transition is not None and transition is not SUCCESS and transition.move is not Move.SUCCEED:
                tallies.enter(ready.queue, ready.type, ready.attempt, transition, attempt.waited_ms, attempt.ran_ms)
        return tallies.rows()

    return make


def _successes(attempts: Iterable[Attempt]) -> Counter[SuccessKey]:
    return Counter(
        (one.ready.queue, one.ready.type, one.ready.attempt, one.waited_ms, one.ran_ms)
        for one in attempts
        if _succeeded(one)
    )


class CompletedAttempts:
    """Attempts that completed their jobs in the handlers' transactions, and attempts whose rows are locked.

    Only when such a transaction has ended is it known whether it was committed.
    """

    def __init__(self, queue: Queue, dispatcher: Dispatcher, connection: Connection, report: AttemptLog) -> None:
        self._queue = queue
        self._dispatcher = dispatcher
        self._connection = connection
        self._report = report
        self._new: list[Attempt] = []
        self._undecided: list[Attempt] = []
        self._left_open: list[Attempt] = []
        self._asked_at = 0.0

    def __iter__(self) -> Iterator[Attempt]:
        yield from self._new
        yield from self._undecided

    @property
    def ask_at(self) -> float:
        """When to ask next."""
        if self._new:
            return self._asked_at
        return self._asked_at + ASK_AGAIN_SECONDS if self._undecided else NEVER

    @property
    def awaited(self) -> int:
        """How many to wait for: not the ones whose handlers left the transaction open, perhaps for ever."""
        return len(self._new) + len(self._undecided) - len(self._left_open)

    def add(self, attempts: Iterable[Attempt]) -> None:
        self._new += attempts

    def drop_all(self) -> None:
        self._new, self._undecided, self._left_open = [], [], []

    def settle(self) -> bool:
        """Find out which of the transactions have ended. Return whether any has."""
        clock = self._queue.clock
        self._asked_at = clock.timer()
        attempts, now = list(self), clock.monotonic()
        try:
            decided = self._decided(attempts, now)
        except DataRefused:
            decided = self._decided_one_by_one(attempts, now)
        self._new, self._undecided = [], [one for one in attempts if one.ready.id in decided.undecided]
        over = [one for one in attempts if one.ready.id not in decided.undecided]
        clear_started(over)
        self._warn_of_open(now)
        committed = [one for one in over if one.ready.id in decided.committed]
        self._report.completed(committed)
        self._report.settled([one for one in over if one not in committed], decided.rolled_back)
        return bool(over)

    def _decided(self, attempts: list[Attempt], now: float) -> Completions:
        ended = [ended_of(attempt, now) for attempt in attempts]
        abandoned = self._dispatcher.abandoned
        plan = settle_completed(self._queue.dialect, ended, tallies_of(attempts, now), abandoned)
        together = with_output(self._queue.dialect, attempts, plan, lambda decided: decided.rolled_back)
        return self._connection.write(together)

    def _decided_one_by_one(self, attempts: list[Attempt], now: float) -> Completions:
        """The database refuses the data of one of them: fail that one."""
        together = Completions(set(), set(), set())
        for attempt in attempts:
            try:
                decided = self._decided([attempt], now)
            except DataRefused as error:
                attempt.fail_refused(error)
                decided = self._decided([attempt], now)
            for all_of_them, found in zip(together, decided, strict=True):
                all_of_them.update(found)
        return together

    def _warn_of_open(self, now: float) -> None:
        for attempt in self._undecided:
            if now - attempt.finished_at > LONGEST_UNDECIDED_SECONDS and attempt not in self._left_open:
                self._left_open.append(attempt)
                log_left_open(attempt)
        self._left_open = [attempt for attempt in self._left_open if attempt in self._undecided]
