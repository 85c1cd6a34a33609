"""The loop: does what `next_step` says, and notes what it learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rowcall.domain.errors import (
    Conflict,
    DataRefused,
    FileReplaced,
    MovedTo,
    RowcallError,
    SchemaMismatch,
    StoreUnavailable,
)
from rowcall.domain.outcome import Released
from rowcall.observe.meter import Meter
from rowcall.queue import Queue
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.claims.round import round_of_work
from rowcall.store.queries.claims import EVERY_QUEUE, FIND_WORK, PEEK, Work
from rowcall.store.statement import Plan
from rowcall.wake.waiter_and_file_watch import Waker, Wakeup
from rowcall.worker.attempt_log import AttemptLog, LogPace
from rowcall.worker.claiming import Intake, KnownWork
from rowcall.worker.completion import Completion
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.outage import Outage, Trouble
from rowcall.worker.output import with_output
from rowcall.worker.ownership import Ownership
from rowcall.worker.pace import (
    AHEAD_SECONDS,
    MOST_BUFFERED,
    Check,
    Gather,
    Knowledge,
    RunRound,
    Settle,
    Wait,
    is_idle,
    is_old,
    next_step,
)
from rowcall.worker.pacing.protocol import pacing_for
from rowcall.worker.raised_errors import RaisedErrors
from rowcall.worker.registrar import Registrar
from rowcall.worker.settings import Settings
from rowcall.worker.settling import Settler, settlements_of, tallies_of
from rowcall.worker.slots import Slots
from rowcall.worker.upkeep.unknown_tasks import UnknownTasks


class Loop:
    """Runs in one thread, with its own connection. Other threads reach it through the dispatcher and the waker."""

    def __init__(
        self,
        queue: Queue,
        settings: Settings,
        dispatcher: Dispatcher,
        waker: Waker,
        registrar: Registrar,
        completion: Completion,
        outage: Outage,
        meter: Meter | None = None,
        errors: RaisedErrors | None = None,
    ) -> None:
        self._queue = queue
        self._timer = queue.clock.timer
        self._dispatcher = dispatcher
        self._waker = waker
        self._registrar = registrar
        self._connection = connection = queue.database.connect()
        self._pacing = pacing = pacing_for(queue, dispatcher, connection, waker, registrar)
        self._slots = slots = Slots(dispatcher, queue.clock, most_last_ahead=pacing.most_last_ahead)
        self._known = KnownWork(queue.clock)
        self._log_pace = log_pace = LogPace(settings.log_jobs, queue.clock.timer)
        report = AttemptLog(log_pace, meter, queue.declared.follow_ups, errors)
        self._settler = settler = Settler(queue, dispatcher, connection, report, pacing.settle_thread)
        self.unknown = UnknownTasks(queue, settings)
        self._intake = Intake(
            queue,
            settings.queues,
            dispatcher,
            registrar,
            completion,
            slots,
            pacing,
            log_pace.logs_starts,
        )
        self._ownership = Ownership(queue, dispatcher, connection, registrar, settler)
        self._trouble = Trouble(outage, queue.clock, pacing.waiter.pause)
        dispatcher.identify(registrar.current)

    def run(self, finished: Callable[[], bool]) -> None:
        """Repeat steps until `finished` returns true."""
        try:
            while True:
                generation = self._dispatcher.generation  # first: what ends after this ends the next wait
                self._collect()
                self._log_pace.turn()
                self._dispatcher.give_up_overdue()
                if finished():
                    if not self._ownership.ask_at_the_end():
                        break
                    self._known.note_more()
                    continue
                self._step(generation)
        except BaseException:
            self._release_all()
            raise

    def close(self) -> None:
        """Close what it has opened, also if it never ran."""
        self._log_pace.end_second()
        self._settler.close()
        self._pacing.waiter.close()
        self._connection.close()

    def _collect(self) -> None:
        any_ended = self._settler.collect()
        if self._slots.is_stale(any_ended=any_ended):
            self._slots.note_finished(0)
            self._settler.release(self._dispatcher.pop_buffered())

    # what the worker asks

    @property
    def counts(self) -> Counter[str]:
        """How many attempts ended in each way."""
        return self._settler.report.counts

    @property
    def is_out_of_reach(self) -> bool:
        return self._trouble.is_out_of_reach

    @property
    def unsettled(self) -> int:
        return self._settler.awaited

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to settle, nothing running and nothing known to be due."""
        return is_idle(self._knowledge(), self._timer())

    def stop_claiming(self) -> None:
        self._slots.stop_claiming()

    def declare_lost(self) -> None:
        self._ownership.note_lost()

    def release_unstarted(self) -> None:
        """Release the jobs that were never started. Called in the loop's thread."""
        self._settler.release(self._dispatcher.pop_unstarted())

    def _release_all(self) -> None:
        """After Ctrl-C in a drain, or an internal error: settle what ended and release the rest, if possible."""
        self.stop_claiming()
        self.release_unstarted()
        self._dispatcher.stop_all()
        self._dispatcher.abandon_all(Released())
        self._settler.collect()
        self._settler.try_to_settle_all()

    # one step

    def _step(self, generation: int) -> None:
        if not self._pacing.starts_in_round(is_group=self._settler.is_group):
            self._pacing.start_accepted()
        try:
            self._make_sure_of_jobs()
            match next_step(self._knowledge(generation), self._timer()):
                case Gather():
                    self._gather()
                    return
                case Settle(in_thread=True):  # what no round settles
                    self._note_settled(self._settler.take_settled())
                case Settle():
                    self._note_settled(self._settler.completed.settle())
                case RunRound():
                    self._round_or_one_by_one()
                case Check():
                    self._pacing.waiter.mark_idle()
                    self._check()
                    self._known.note_before_wait()
                case Wait() as wait:
                    self._wait(wait)
            self._trouble.succeeded()
        except Conflict as error:
            self._settler.set_aside()
            self._dispatcher.start_accepted()
            self._trouble.conflict(error, stopping=self._slots.stopping)
        except (SchemaMismatch, MovedTo):
            raise
        except FileReplaced as error:
            self._ownership.drop_all()
            self._trouble.failed(error, stopping=self._slots.stopping)
        except RowcallError as error:
            self._ownership.note_failed(error)
            self._dispatcher.start_accepted()  # handlers may need no database
            self._trouble.failed(error, stopping=self._slots.stopping)

    def _knowledge(self, generation: int = 0) -> Knowledge:
        known, settler, dispatcher, slots = self._known, self._settler, self._dispatcher, self._slots
        free_slots, buffer = slots.free()
        busy = bool(dispatcher.busy or dispatcher.abandoned)  # an attempt has ended before it stops running
        return Knowledge(
            generation=generation,
            stopping=slots.stopping,
            unsettled=settler.unsettled,
            late=len(settler.late),
            ask_at=settler.completed.ask_at,
            undecided=settler.completed.awaited,
            in_thread=settler.in_thread,
            thread_done=settler.thread_done,
            is_large=settler.is_large,
            gathering_since=known.round_at,
            starts_in_round=self._pacing.starts_in_round(is_group=settler.is_group),
            slots=free_slots,
            buffer=buffer,
            batch_room=sum(slots.batch_room().values()),
            buffered=dispatcher.buffered,
            enough_buffered=slots.enough_buffered,
            slot_needed=slots.slot_needed,
            maybe_any=known.maybe_any,
            is_checked=known.is_checked,
            due_at=known.due_at,
            schedule_at=known.schedule_at,
            stuck_until=known.stuck_until,
            retry_at=known.retry_at,
            unsure_at=known.unsure_at,
            deadline_at=dispatcher.deadline_at,
            log_at=self._log_pace.log_at,
            busy=busy,
            has_ended=dispatcher.has_ended,
        )

    def _make_sure_of_jobs(self) -> None:
        if self._ownership.is_uncertain:
            self._note_settled(self._settler.take_settled())
        if self._ownership.ensure():
            self._known.note_more()
        self._settler.mark_started()

    # waiting

    def _gather(self) -> None:
        self._dispatcher.quiet_above = -1 if self._slots.slot_needed else self._slots.enough_buffered
        self._waker.arm()
        if isinstance(next_step(self._knowledge(), self._timer()), Gather):
            self._pacing.waiter.pause(AHEAD_SECONDS)
        self._dispatcher.quiet_above = MOST_BUFFERED

    def _wait(self, wait: Wait) -> None:
        waiter = self._pacing.waiter
        self._waker.arm()
        if self._dispatcher.generation != wait.generation:
            return
        if not wait.for_jobs:
            waiter.pause(waiter.full_pause_seconds(wait.seconds))
            return
        match waiter.wait(wait.seconds):
            case Wakeup.WOKEN if not self._dispatcher.has_ended:
                self._known.note_woken()
            case Wakeup.NOTIFIED:
                self._known.note_notified()
            case Wakeup.CHANGED:
                self._known.note_commit()
                self._check_after_commit()
            case Wakeup.TIMEOUT:
                self._check()  # something is due, or the clock was set
            case Wakeup.NOTHING if is_old(self._known.checked_at, self._timer()):
                self._check()

    def _check(self) -> None:
        queues = self._intake.queues and [*self._intake.queues]
        ask = self._queue.dialect.ask(FIND_WORK, self._registrar.name, *EVERY_QUEUE[:2], queues)
        (work,) = self._connection.read(ask)
        self._note_check(work)

    def _check_after_commit(self) -> None:
        """Check cheaply whether a commit of another connection, mostly the app, brought work."""
        (peek,) = self._connection.read(self._queue.dialect.ask(PEEK))
        if peek.any_ready:
            self._check()
        else:
            self._note_check(
                Work(
                    peek.now_ms,
                    peek.due_at_ms,
                    peek.expires_at_ms,
                    registered=True,
                    ready={},
                    wake_at_ms=peek.wake_at_ms,
                    edges_unsure=peek.edges_unsure,
                )
            )
        self._pacing.waiter.note_wakeup(useful=self._known.maybe_any)

    def _note_check(self, work: Work) -> None:
        self._known.note_check(work, self._intake.demand())
        self.unknown.note(work)
        if not work.registered:
            self._ownership.note_lost()

    # settling and claiming

    def _note_settled(self, settled: bool) -> None:
        """Jobs were settled without a round: that may have made others ready."""
        if settled:
            self._known.note_more()

    def _round_or_one_by_one(self) -> None:
        try:
            self._round()
        except DataRefused:
            if not self._settler.unsettled:
                raise  # not because of what we settle, but of what there is to stage or claim
            self._dispatcher.start_accepted()
            self._settler.settle_one_by_one()

    def _round(self) -> None:
        attempts, late = self._settler.group(), tuple(self._settler.late)
        now = self._queue.clock.monotonic()
        finished = [one for one in attempts if one.started_at > 0 and one.batch is None]
        self._slots.note_finished(len(finished))
        if finished:
            self._pacing.note_finished(attempts[-1].finished_at - attempts[-1].started_at)
        demand = self._intake.demand()
        if self._settler.settle_in_thread(demand.owner):
            attempts = []
        void = self._settler.void
        ended, success_counts = settlements_of(attempts, now, demand.holder)
        plan = round_of_work(
            self._queue.dialect,
            ended,
            tallies_of(attempts, now, success_counts) if attempts else None,
            demand,
            late=late,
            abandoned=self._dispatcher.abandoned,
            void=void,
            before_settle=self._pacing.start_accepted,
        )
        together = with_output(self._queue.dialect, attempts, plan, lambda result: result.settled)
        result = self._connection.write(self._unless_reopened(together))
        if result is None:
            return
        self._trouble.round_succeeded()
        self._settler.settled(attempts, result.settled, result.cancelled, len(late))
        self._settler.void = result.void
        self._note_round(demand, result)

    def _unless_reopened(self, plan: Plan[RoundResult]) -> Plan[RoundResult | None]:
        """Do nothing on a connection that was just replaced: find out first which jobs are still ours."""
        return None if self._ownership.is_reopened else (yield from plan)

    def _note_round(self, demand: Demand, result: RoundResult) -> None:
        """Remember what the round has found, and start what it has claimed."""
        notified = self._known.is_notified
        self._known.note_round(demand, result)
        self._slots.note_round(demand, result)
        self._pacing.note_round(demand, result)
        if result.unread:
            failed = self._intake.unreadable(result.unread, result.work.now_ms)
            self._settler.report.settled(failed, {attempt.ready.id for attempt in failed})
        if not result.work.registered:
            self._ownership.note_lost()
        if result.started or result.buffered or result.joining:
            self._accept(result)
            self._pacing.waiter.mark_busy()
        elif notified:
            self._pacing.waiter.note_wakeup(useful=False)
        if demand.wants_any:
            self.unknown.note(result.work)

    def _accept(self, result: RoundResult) -> None:
        try:
            self._intake.accept(result)
            self._pacing.start_claimed()
        except StoreUnavailable:
            self._ownership.release_unknown()  # at once, so that other workers can claim them
            raise
