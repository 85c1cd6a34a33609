"""The loop: in one transaction settle what finished, stage what is due, claim what there is room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rowcall.domain.errors import Conflict, DataRefused, FileReplaced, RowcallError, SchemaMismatch, StoreUnavailable
from rowcall.domain.outcome import Released
from rowcall.observe.meter import Meter
from rowcall.queue import Queue
from rowcall.store.claims.round import Claim, Demand, claim_first, round_of_work
from rowcall.wake.waker import Waker
from rowcall.worker.attempt_log import AttemptLog
from rowcall.worker.completion import Completion
from rowcall.worker.lanes.dispatcher import MOST_BUFFERED, Dispatcher
from rowcall.worker.log_pace import LogPace
from rowcall.worker.loop.capacity import Capacity
from rowcall.worker.loop.claims import Claims
from rowcall.worker.loop.known_work import Checks, KnownWork
from rowcall.worker.loop.ownership import Ownership
from rowcall.worker.loop.settler import Settler, settlements_of, tallies_of
from rowcall.worker.loop.waiting import Waiting, waiter_for
from rowcall.worker.outage import Outage, Trouble
from rowcall.worker.raised_errors import RaisedErrors
from rowcall.worker.registrar import Registrar
from rowcall.worker.settings import Settings
from rowcall.worker.upkeep.unknown_tasks import UnknownTasks
from rowcall.worker.upkeep.vacuum import Vacuum

PORTION = MOST_BUFFERED // 2


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
        self._dispatcher = dispatcher
        self._connection = connection = queue.database.connect()
        self._waiter = waiter = waiter_for(queue, connection, waker, registrar)
        self._capacity = capacity = Capacity(dispatcher, queue.clock, one_writer=queue.dialect.one_writer)
        self._known = known = KnownWork(queue.clock)
        self._pace = pace = LogPace(settings.log_jobs, queue.clock.timer)
        report = AttemptLog(pace, meter, queue.follow_ups, errors)
        self._settler = settler = Settler(queue, dispatcher, connection, report)
        self.unknown = UnknownTasks(queue, settings)
        self._claims = claims = Claims(
            queue, settings.queues, dispatcher, registrar, completion, capacity, self.unknown, pace.logs_starts
        )
        self._ownership = ownership = Ownership(queue, dispatcher, connection, registrar, settler)
        self.vacuum = None if queue.dialect.one_writer else Vacuum(queue)
        self._trouble = Trouble(outage, queue.clock, waiter.pause)
        self._checks = checks = Checks(queue, connection, registrar, waiter, claims, known, ownership)
        self._waiting = Waiting(queue.clock, dispatcher, capacity, known, settler, checks, waiter, waker, pace)
        dispatcher.identify(registrar.current)

    def run(self, finished: Callable[[], bool]) -> None:
        """Repeat steps until `finished` returns true."""
        try:
            while True:
                self._collect()
                self._pace.turn()
                self._dispatcher.give_up_overdue()
                if finished():
                    break
                self._step()
        except BaseException:
            self._release_all()
            raise
        finally:
            self._pace.end_second()
            self._settler.close()
            self._waiter.close()
            self._connection.close()

    def _collect(self) -> None:
        any_ended = self._settler.collect()
        if self._capacity.is_stale(any_ended=any_ended):
            self._capacity.note_finished(0)
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
        known = self._known
        if self.unsettled or known.maybe_any or known.waits_for_limit or known.seconds_to_due() == 0:
            return False
        if self._capacity.slot_needed or self._dispatcher.busy:
            return False
        if self._dispatcher.abandoned:
            return False  # a process that is about to die may hold a slot that others wait for
        return not self._dispatcher.has_ended  # last: an attempt has ended before it stops running

    def stop_claiming(self) -> None:
        self._capacity.stopping = True

    def declare_lost(self) -> None:
        self._ownership.lost = True

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

    # one step: a round, or a wait

    def _step(self) -> None:
        if not self._may_start_beside:
            self._start_accepted()
            if self._waiting.may_gather():
                self._waiting.gather()
                return
        try:
            ownership = self._ownership
            self._take_settled(wait=self._settler.is_large or ownership.lost or ownership.in_doubt)
            if self._ownership.ensure():
                self._known.maybe_any = True
            self._settler.mark_started()
            self._settle_claim_or_wait()
            self._trouble.succeeded()
        except Conflict as error:
            self._settler.set_aside()
            self._dispatcher.start_accepted()
            self._trouble.conflict(error, stopping=self._capacity.stopping)
        except SchemaMismatch:
            raise
        except FileReplaced as error:
            self._ownership.drop_all()
            self._trouble.failed(error, stopping=self._capacity.stopping)
        except RowcallError as error:
            self._ownership.in_doubt = not isinstance(error, DataRefused)
            self._dispatcher.start_accepted()  # handlers may need no database
            self._trouble.failed(error, stopping=self._capacity.stopping)

    # The loop's thread loses the interpreter at each statement, and a handler thread that never waits returns it after
    # milliseconds. So such handlers run in portions: each while SQLite, which needs no interpreter, settles the last.

    @property
    def _may_start_beside(self) -> bool:
        """Whether the lanes can wait for the next round, which starts their portion while it settles the last one."""
        return self._starts_portions and self._settler.is_group and self._dispatcher.waits_to_start

    @property
    def _starts_portions(self) -> bool:
        return self._queue.dialect.one_writer and self._capacity.instant

    def _start_accepted(self) -> None:
        self._dispatcher.start_accepted(PORTION if self._starts_portions else MOST_BUFFERED)

    def _settle_claim_or_wait(self) -> None:
        if self._settler.completed.settle():
            self._note_ended()
        elif self._settler.any_unsettled or self._settler.late or self._is_round_due():
            self._round_or_one_by_one()
        elif self._settler.any_in_thread:
            self._take_settled(wait=True)
        elif self._capacity.any and not self._known.is_checked:
            self._checks.check_before_wait()
        else:
            self._waiting.wait()

    def _take_settled(self, *, wait: bool) -> None:
        if self._settler.take_settled(wait=wait):
            self._note_ended()

    def _note_ended(self) -> None:
        """Jobs were settled beside the rounds: that may have made others ready."""
        self._known.maybe_any = True

    def _is_round_due(self) -> bool:
        if self._capacity.any:
            needs_slot = self._capacity.slot_needed and self._dispatcher.free_slots > 0
            return self._known.maybe_any or self._known.seconds_to_due() == 0 or needs_slot
        # a schedule ticks whether there is room for its job or not
        return not self._capacity.stopping and self._known.seconds_to_schedule() == 0

    def _round_or_one_by_one(self) -> None:
        try:
            self._round()
        except DataRefused:
            if not self._settler.any_unsettled:
                raise  # not because of what we settle, but of what there is to stage or claim
            self._dispatcher.start_accepted()
            self._settler.settle_one_by_one()

    def _round(self) -> None:
        attempts, late = self._settler.group(), tuple(self._settler.late)
        now = self._queue.clock.monotonic()
        took = attempts[-1].finished_at - attempts[-1].started_at if attempts else 0.0
        self._capacity.note_finished(len([one for one in attempts if one.started_at > 0 and one.batch is None]), took)
        demand = self._claims.demand()
        if self._settler.settle_beside(demand.owner):
            attempts = []
        ended, alike = settlements_of(attempts, now, demand.holder)
        claim = None if attempts or late else self._claim_first(demand)
        if claim is None:
            plan = round_of_work(
                self._queue.dialect,
                ended,
                tallies_of(attempts, now, alike) if attempts else None,
                demand,
                self._queue.now_ms(),
                late=late,
                abandoned=self._dispatcher.abandoned,
                void=self._settler.void,
                before_settle=self._start_accepted,
            )
            claim = self._connection.write(plan)
        self._trouble.round_succeeded()
        self._settler.settled(attempts, claim.settled, claim.cancelled, len(late))
        self._waiting.start_gathering()
        self._known.note_round(claim)
        self._note(demand, claim)
        if claim.started or claim.buffered or claim.joining:
            self._accept(claim)
            self._waiter.mark_busy()
        elif self._waiting.is_notified:
            self._waiter.note_wakeup(useful=False)
        self._waiting.is_notified = False
        if demand.wants_any:
            self._claims.unknown.note(claim.work)

    def _claim_first(self, demand: Demand) -> Claim | None:
        """After a notification: claim with the fewest statements, if no round is needed."""
        if not self._waiting.is_notified or self._queue.dialect.one_writer:
            return None
        plan = claim_first(self._queue.dialect, demand, self._queue.now_ms())
        return self._connection.write(plan, one_statement=True)

    def _note(self, demand: Demand, claim: Claim) -> None:
        """Remember what the round has found."""
        self._claims.resuming.note(demand, claim)
        if self.vacuum is not None:
            self.vacuum.note_claimed(len(claim.started) + len(claim.buffered) + len(claim.joining))
        self._known.maybe_any = claim.more
        if claim.unread:
            failed = self._claims.unreadable(claim.unread, claim.work.now_ms)
            self._settler.report.settled(failed, {attempt.ready.id for attempt in failed})
        any_claimed = bool(claim.started or claim.buffered or claim.joining or claim.unread)
        self._known.note_fruitless(claim.work.ready if demand.wants_any and not any_claimed else ())
        self._capacity.note_claimed(demand, claim)
        if not claim.work.registered:
            self._ownership.lost = True

    def _accept(self, claim: Claim) -> None:
        try:
            self._claims.accept(claim)
            if not self._starts_portions:
                self._start_accepted()
        except StoreUnavailable:
            self._ownership.release_unknown()  # at once, so that other workers can claim them
            raise
