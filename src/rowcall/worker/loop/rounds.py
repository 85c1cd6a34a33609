"""The loop: in one transaction settle what finished, stage what is due, claim what there is room for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from rowcall.base.clock import jittered
from rowcall.context import logger
from rowcall.domain.errors import Conflict, DataRefused, FileReplaced, RowcallError, SchemaMismatch, StoreUnavailable
from rowcall.domain.lifecycle import Released
from rowcall.observe.meter import Meter
from rowcall.operations.enqueue import Enqueueing
from rowcall.store.dialect import Look, Ready
from rowcall.store.jobs.claim import Appetite, Taken, round_of_work, wanted_types
from rowcall.store.jobs.unreadable import Unreadable
from rowcall.wake.waiter import Wakeup
from rowcall.wake.waker import Waker
from rowcall.worker.attempt import Run
from rowcall.worker.completion import Completion
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.loop.buffer_size import AHEAD_SECONDS, MOST_BUFFERED, Pace
from rowcall.worker.loop.outage import Outage
from rowcall.worker.loop.outcomes import ASK_AGAIN_SECONDS, Outcomes, account_of, ended_of
from rowcall.worker.loop.waiter import waiter_for
from rowcall.worker.registrar import Registrar
from rowcall.worker.settings import Settings
from rowcall.worker.upkeep.mismatches import Mismatches

LONGEST_WAIT_SECONDS = 5.0
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS, STOPPING_PAUSE_SECONDS = 0.05, 5.0, 0.5
CONFLICT_PAUSE_SECONDS, MOST_CONFLICTS = 0.02, 20
FIRST_STUCK_SECONDS = 0.05
FIRST_LEFT_SECONDS, LAST_LEFT_SECONDS = 0.003, 0.05
MARK_AFTER_SECONDS = 1.0
DECIDED_SECONDS = 12.0  # a transaction that was cut off is ended by the server sooner
STALE_SECONDS = 5 * AHEAD_SECONDS
SWEEP_SECONDS = 1.0
LEAST_REACH = 16
OFFERS_AT_ONCE = 500


class Loop:
    """Runs in one thread, with a connection of its own. Others talk to it through the dispatcher and the waker."""

    def __init__(
        self,
        core: Enqueueing,
        settings: Settings,
        dispatcher: Dispatcher,
        waker: Waker,
        registrar: Registrar,
        completion: Completion,
        outage: Outage,
        meter: Meter | None = None,
    ) -> None:
        self._core = core
        self._clock = core.clock
        self._monotonic = core.clock.monotonic
        self._timer = core.clock.timer
        self._settings = settings
        self._dispatcher = dispatcher
        self._waker = waker
        self._outage = outage
        self._registrar = registrar
        self._lease = registrar.lease
        dispatcher.identity = registrar.current
        self._pace = Pace()
        self._completion = completion
        self._offers: Sequence[int] = ()
        self._passed_over: Sequence[int] = ()
        self.mismatches = Mismatches(core, settings, self._completion.refused, self._offer)
        self._connection = core.database.connect()
        self._waiter = waiter_for(core, self._connection, waker, registrar)
        self._outcomes = Outcomes(core, dispatcher, self._connection, meter)
        self._conflicts = 0
        self._maybe_work = True
        self._look: Look | None = None
        self._looked_at = 0.0
        self._swept_at = 0.0
        self._looked_since_round = False
        self._turn = 0
        self._busy_since: float | None = None
        self._gathering_since = 0.0
        self._progress_at = 0.0
        self._marked_at = 0.0
        self._pause_seconds = 0.0
        self._unknown_types: set[str] = set()
        self._barren: set[tuple[str, str]] = set()
        self._slot_wanted = False
        self._reach = MOST_BUFFERED
        self._unsure = False
        self._sure_at = math.inf
        self._stuck_seconds = 0.0
        self._left_seconds = 0.0
        self._again_at = math.inf
        self._told = False
        self.stopping = False
        self.lost = False
        self._told_lost = False

    def run(self, finished: Callable[[], bool]) -> None:
        """Go round until `finished` says so."""
        try:
            while True:
                self._take_ended()
                self._dispatcher.give_up_overdue()
                if finished():
                    break
                self._step()
        except BaseException:
            self._give_back()
            raise
        finally:
            self._waiter.close()
            self._connection.close()

    def _take_ended(self) -> None:
        ended = self._dispatcher.take_ended()
        if ended or not self._dispatcher.buffered:
            self._progress_at = self._timer()
        elif self._timer() - self._progress_at > STALE_SECONDS:
            # what was to start within 50 ms waits behind something slow: others may have a slot for it
            self._observe(0, self._timer())
            self._outcomes.release(self._dispatcher.take_buffered())
        self._outcomes.take(ended)
        self._outcomes.take_late(self._dispatcher.take_late())

    @property
    def counts(self) -> Counter[str]:
        """How many attempts ended in each way."""
        return self._outcomes.counts

    @property
    def out_of_reach(self) -> bool:
        """Whether the last try to write failed."""
        return self._pause_seconds > 0

    @property
    def unsettled(self) -> int:
        return len(self._outcomes)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to settle, nothing running and nothing known to be due."""
        waits = self._slot_wanted or self._again_at != math.inf
        if self.unsettled or self._maybe_work or waits or self._due_in() == 0 or self._dispatcher.busy:
            return False
        if self._dispatcher.abandoned:
            return False  # a process that is about to die may hold a slot that others wait for
        return not self._dispatcher.has_ended  # asked last: a run has ended before it is no longer running

    # one step: a round, or a wait

    def _step(self) -> None:
        if self._may_gather():
            self._gather()
            return
        try:
            if self._lease.may_be_over:
                self._renew_lease()
            if self.lost:
                self._start_again()
            if self._unsure or self._timer() > self._sure_at:
                self._make_sure()
            self._mark_started()
            if self._outcomes.settle_completed():
                self._maybe_work = True
                self._offer_again()
            elif self._outcomes.any_unsettled or self._outcomes.late or self._is_round_due():
                self._round_or_one_by_one()
            elif self._room() > 0 and not self._looked_since_round:
                self._settle_down()
            else:
                self._wait()
            self._pause_seconds = 0.0
            self._conflicts = 0
        except Conflict as error:
            self._bear_conflict(error)
        except SchemaMismatch:
            raise
        except FileReplaced as error:
            self._forget_all()
            self._bear(error)
        except RowcallError as error:
            self._unsure = not isinstance(error, DataRefused)
            self._bear(error)

    def _is_round_due(self) -> bool:
        if self._room() > 0:
            return self._maybe_work or self._due_in() == 0 or (self._slot_wanted and self._dispatcher.free_slots > 0)
        return not self.stopping and self._wakes_in() == 0  # a schedule ticks whether there is room for its job or not

    def _make_sure(self) -> None:
        """The reply to a commit was lost. Ask what came of it now, and once more when the server has surely decided."""
        self._outcomes.make_sure(self._registrar.name)
        self._sure_at = self._timer() + DECIDED_SECONDS if self._unsure else math.inf
        self._unsure = False
        self._maybe_work = True

    def _may_gather(self) -> bool:
        """Whether the lanes have enough to do for what ended to wait for more: larger groups, fewer commits."""
        if not self._outcomes.any_unsettled or self.stopping:
            return False
        if self._slot_wanted:  # nothing is claimed before a slot is free
            busy = self._dispatcher.free_slots <= 0
        else:
            busy = self._dispatcher.buffered > self._pace.buffer_size // 2
        return busy and not self._outcomes.is_full and self._timer() - self._gathering_since < AHEAD_SECONDS

    def _gather(self) -> None:
        self._dispatcher.quiet_above = -1 if self._slot_wanted else self._pace.buffer_size // 2
        self._waker.arm()
        if self._may_gather():
            self._waiter.pause(AHEAD_SECONDS)
        self._dispatcher.quiet_above = MOST_BUFFERED

    def _round_or_one_by_one(self) -> None:
        try:
            self._round()
        except DataRefused:
            if not self._outcomes.any_unsettled:
                raise  # not what we settle, but what is there to stage or claim
            self._outcomes.settle_one_by_one()

    def _round(self) -> None:
        runs, late = self._outcomes.group(), tuple(self._outcomes.late)
        now = self._monotonic()
        self._observe(sum(run.started_at > 0 and run.batch is None for run in runs), self._timer())
        if runs or late:
            self._offer_again()
        offers = self._offers
        appetite = self._appetite(offers)
        taken = self._connection.write(
            round_of_work(
                self._core.dialect,
                [ended_of(run, now) for run in runs],
                account_of(runs) if runs else None,
                appetite,
                self._core.now_ms(),
                late=late,
                abandoned=self._dispatcher.abandoned,
            )
        )
        del self._outcomes.late[: len(late)]
        self._outage.over("loop")
        self._outcomes.written(runs, taken.settled, taken.cancelled)
        self._gathering_since = self._timer()
        self._looked_since_round = False
        self._remember(taken.look)
        self._swept_at = self._timer()
        if self._offers is offers:  # else the watcher has looked meanwhile
            self._offers = offers[len(appetite.offers) :]
        self._passed_over = [*self._passed_over, *taken.passed_over]
        self._maybe_work = taken.more or self._has_use_for_offers
        self._stuck_seconds = min(max(FIRST_STUCK_SECONDS, self._stuck_seconds * 2), 1.0) if taken.stuck else 0.0
        self._try_again(taken.left)
        # ready, and yet not for us now (a name that cannot be spelled, for one): no reason to hurry
        taken_any = bool(taken.started or taken.buffered or taken.riding)
        if taken.unread:
            self._outcomes.failed_unread([self._unread_run(one, taken.look.now_ms) for one in taken.unread])
        self._barren = set() if taken_any or taken.unread or not appetite.wants_any else set(taken.look.ready)
        if appetite.room > 0:
            self._slot_wanted = taken.slot_wanted
            # where the buffer ends early, do not read far beyond its end
            near = max(LEAST_REACH, 2 * len(taken.buffered))
            self._reach = near if taken.slot_wanted else min(MOST_BUFFERED, 2 * self._reach)
        if not taken.look.registered:
            self.lost = True
        if taken_any:
            self._turn += 1  # not after a round that took nothing: each queue keeps its turn until it has had it
            self._dispatch(taken)
            self._waiter.mark_busy()
        elif self._told:
            self._waiter.note_wakeup(useful=False)
        self._told = False
        if appetite.wants_any:
            self._warn_of_unknown(taken.look)

    def _try_again(self, left: bool) -> None:
        """Jobs were left alone, as another claimer had their limit: that is over in a moment."""
        self._left_seconds = min(max(FIRST_LEFT_SECONDS, self._left_seconds * 2), LAST_LEFT_SECONDS) if left else 0.0
        self._again_at = self._timer() + jittered(self._clock, self._left_seconds) if left else math.inf

    def _dispatch(self, taken: Taken) -> None:
        self._pace.observe_payloads([len(ready.payload) for ready in (*taken.started, *taken.buffered)])
        if self._busy_since is None:
            self._busy_since = self._timer()
        try:
            self._dispatcher.reserve(len(taken.started) + len(taken.buffered) + len(taken.riding))
        except StoreUnavailable:
            self._outcomes.make_sure(self._registrar.name)  # releases all of it now, so that other workers can claim it
            raise
        run_of = self._runs_at(taken.look.now_ms)
        self._dispatcher.accept(
            [run_of(ready, False) for ready in taken.started],
            [run_of(ready, True) for ready in taken.buffered],
            [run_of(ready, ready.bufferable) for ready in taken.riding],
        )

    def _runs_at(self, now_ms: int) -> Callable[[Ready, bool], Run]:
        """Makes runs of what was claimed together; the second argument is whether it waits in the buffer."""
        core, identity, completion = self._core, self._registrar.current, self._completion
        lease = self._lease
        clock, tasks, tracing = core.clock, core.tasks, core.tracing

        def run_of(ready: Ready, buffered: bool) -> Run:
            task = tasks[ready.type]
            return Run(ready, task, identity, now_ms, clock, completion, tracing, buffered, lease)

        return run_of

    def _unread_run(self, unread: Unreadable, now_ms: int) -> Run:
        run = self._runs_at(now_ms)(unread.job, False)
        run.transition = unread.transition
        return run

    def _appetite(self, offers: Sequence[int] = ()) -> Appetite:
        slots, buffer = self._free()
        queues = self._settings.queues
        return Appetite(
            worker=self._registrar.name,
            slots=slots,
            buffer=buffer,
            types=self._core.tasks.keys(),
            queues=queues
            and {
                queue: None if limit is None else max(0, limit - self._dispatcher.in_flight(queue))
                for queue, limit in queues.items()
            },
            first_queue=self._turn,
            batches=self._dispatcher.batches,
            rides={} if self.stopping else self._dispatcher.rides(),
            limits=self._core.limits.declared,
            aliases=self._core.aliases,
            offers=offers[: min(slots + buffer, OFFERS_AT_ONCE)],
        )

    @property
    def _has_use_for_offers(self) -> bool:
        return bool(self._offers) and sum(self._free()) > 0

    def _offer(self, job_ids: Sequence[int]) -> None:
        """Jobs that fit this worker and that another one refused; called by the watcher, again and again."""
        self._offers, self._passed_over = job_ids, ()
        self._waker.wake()

    def _offer_again(self) -> None:
        """What has ended may have made room for offers that were passed over."""
        if self._passed_over:
            self._offers = list(dict.fromkeys([*self._passed_over, *self._offers]))
            self._passed_over = ()

    def _room(self) -> int:
        return sum(self._free()) + (0 if self.stopping else sum(self._dispatcher.rides().values()))

    def _free(self) -> tuple[int, int]:
        """Return the number of free slots, and the room in the buffer: none while a job waits for a slot."""
        if self.stopping:
            return 0, 0
        slots = self._dispatcher.free_slots
        if self._slot_wanted and slots <= 0:
            return 0, 0
        return slots, max(0, min(self._reach, self._pace.buffer_size - self._dispatcher.buffered))

    def _observe(self, finished: int, now: float) -> None:
        if self._busy_since is not None:
            self._pace.observe(finished=finished, busy_seconds=now - self._busy_since)
            self._busy_since = now if self._dispatcher.busy else None

    def _bear_conflict(self, error: Conflict) -> None:
        """Others are at the same rows, which is over in a moment; if not, it is no better than an outage."""
        self._conflicts += 1
        self._outcomes.set_aside()
        if self._conflicts > MOST_CONFLICTS:
            self._bear(error)
        else:
            self._waiter.pause(CONFLICT_PAUSE_SECONDS * self._clock.chance())

    def _bear(self, error: RowcallError) -> None:
        """The database is out of reach: say so once, wait ever longer, and go on where we were."""
        self._outage.noticed("loop", error)
        self._pause_seconds = min(max(FIRST_PAUSE_SECONDS, self._pause_seconds * 2), LAST_PAUSE_SECONDS)
        longest = STOPPING_PAUSE_SECONDS if self.stopping else LAST_PAUSE_SECONDS
        # a fleet that was cut off together does not come back together
        self._waiter.pause(jittered(self._clock, min(self._pause_seconds, longest)))

    # waiting

    def _settle_down(self) -> None:
        """Before the first wait: note where we are, then look once more, so that nothing falls in between."""
        self._waiter.mark_idle()
        self._peek()
        self._looked_since_round = True

    def _peek(self) -> None:
        """Learn what there is to do by a read: the write lock is for those who have something to write."""
        look = self._connection.read(self._core.dialect.look(self._registrar.name, self._core.now_ms()))
        self._remember(look)
        if not look.registered:
            self.lost = True
        appetite = self._appetite()
        wanted = wanted_types(appetite, look)
        limits = appetite.queues or {}
        self._maybe_work = self._has_use_for_offers or any(
            limits.get(queue) != 0
            and (queue, kind) not in self._barren
            and (appetite.room > 0 or appetite.rides.get(kind, 0) > 0)
            for queue in wanted
            for kind in wanted[queue]
        )
        self._warn_of_unknown(look)

    def _glance(self) -> None:
        """Somebody committed something. Mostly it is the app, for its own reasons: learn that as cheaply as can be."""
        glance = self._connection.read(self._core.dialect.glance(self._core.now_ms()))
        if glance.any_ready:
            self._peek()
            if self._maybe_work:
                self._waiter.note_wakeup(useful=True)
            else:
                self._waiter.note_wakeup(useful=False)
        else:
            self._waiter.note_wakeup(useful=False)
            self._remember(
                Look(
                    glance.now_ms,
                    glance.due_at_ms,
                    glance.expires_at_ms,
                    registered=True,
                    ready=[],
                    wake_at_ms=glance.wake_at_ms,
                    edges_unsure=glance.edges_unsure,
                )
            )

    def _remember(self, look: Look) -> None:
        self._look, self._looked_at = look, self._timer()

    def _due_in(self) -> float:
        """Seconds until something falls due by itself, by the database's clock, or is to be tried once more."""
        again_in = max(0.0, min(LONGEST_WAIT_SECONDS, self._again_at - self._timer()))
        if self._look is None:
            return again_in
        # an edge stays unsure for as long as somebody is at its blocker
        since = self._timer() - self._looked_at
        swept_since = self._timer() - self._swept_at
        sweep_in = SWEEP_SECONDS - swept_since if self._look.edges_unsure else LONGEST_WAIT_SECONDS
        if self._look.next_at_ms is None:
            return min(again_in, max(0.0, sweep_in))
        due_in = max(0.0, self._stuck_seconds - since, min(self._seconds_until(self._look.next_at_ms), sweep_in))
        return min(again_in, due_in)

    def _wakes_in(self) -> float:
        """Seconds until a schedule or a limit of rate is to be looked at."""
        return self._seconds_until(self._look.wake_at_ms if self._look is not None else None)

    def _seconds_until(self, at_ms: int | None) -> float:
        if self._look is None or at_ms is None:
            return LONGEST_WAIT_SECONDS
        since = self._timer() - self._looked_at
        seconds = (at_ms - self._look.now_ms) / 1000 - since
        return max(0.0, seconds, self._stuck_seconds - since)

    def _wait(self) -> None:
        listening = self._room() > 0
        seconds = LONGEST_WAIT_SECONDS
        if not self.stopping:
            seconds = min(seconds, self._due_in() if listening else self._wakes_in())
        if self._dispatcher.buffered:
            seconds = min(seconds, STALE_SECONDS)
        if self._outcomes.any_completed:
            seconds = min(seconds, ASK_AGAIN_SECONDS)
        deadline = self._dispatcher.seconds_to_deadline()
        if deadline is not None:
            seconds = min(seconds, deadline)
        self._waker.arm()
        if self._dispatcher.has_ended or (not listening and self._room() > 0):
            return
        if not listening:
            self._waiter.pause(self._waiter.full_pause_seconds(seconds))
            return
        match self._waiter.wait(seconds):
            case Wakeup.WOKEN if not self._dispatcher.has_ended:
                self._looked_since_round = False  # a slot came free without an outcome: look what there is for it
            case Wakeup.NOTIFIED:
                self._barren = set()
                self._maybe_work = self._told = True
                self.mismatches.expected = True
            case Wakeup.CHANGED:
                self._barren = set()
                self._glance()
            case Wakeup.TIMEOUT:
                self._peek()  # something is due, or the clock was set
            case Wakeup.NOTHING if self._timer() - self._looked_at >= LONGEST_WAIT_SECONDS:
                self._peek()

    def _mark_started(self) -> None:
        """Let the rows of long runs out of the buffer say when they started."""
        if self._timer() - self._marked_at < MARK_AFTER_SECONDS:
            return
        self._marked_at = self._timer()
        now = self._monotonic()
        runs = self._dispatcher.unmarked(MARK_AFTER_SECONDS)
        if not runs:
            return
        marks = [(run.ready.id, run.ready.lease, round((now - run.started_at) * 1000)) for run in runs]
        self._connection.write(self._core.dialect.mark_started(marks, self._core.now_ms()))
        for run in runs:
            run.marked = True

    # being declared lost

    def _renew_lease(self) -> None:
        """Check that the worker is still registered; until then no handler begins."""
        sent_at = self._monotonic()
        if self._connection.write(self._core.dialect.beat(self._registrar.name, self._core.now_ms())):
            self._lease.renew(sent_at)
        else:
            self.lost = True

    def _start_again(self) -> None:
        """Others took us for dead. What we hold is no longer ours: stop it, and begin anew under another name."""
        if not self._told_lost:
            self._told_lost = True
            logger.error(
                "worker %s was declared lost; its jobs belong to others now, and its handlers are stopped",
                self._registrar.name,
            )
        for run in (*self._dispatcher.take_buffered(), *self._dispatcher.take_gathered()):
            run.settled = True
        self._dispatcher.stop_all()
        self._registrar.register()
        self._dispatcher.identity = self._registrar.current
        self.lost = self._told_lost = self._unsure = False
        self._maybe_work = True

    def _forget_all(self) -> None:
        """What we hold is of a file that nobody has any more: its ids may be those of other jobs now."""
        for run in (*self._dispatcher.take_buffered(), *self._dispatcher.take_gathered()):
            run.settled = True
        self._dispatcher.stop_all()
        self._dispatcher.abandon_all(Released())
        self._outcomes.forget(self._dispatcher.take_ended())
        self._offers = self._passed_over = ()
        self._completion.refused.clear()
        self.lost = self._told_lost = True

    def _give_back(self) -> None:
        """Ctrl-C in a drain, or an error of our own: settle what ended and release the rest, if it can be done."""
        self.stopping = True
        self.release_buffered()
        self._dispatcher.stop_all()
        self._dispatcher.abandon_all(Released())
        self._outcomes.take(self._dispatcher.take_ended())
        self._outcomes.write_what_can_be()

    def release_buffered(self) -> None:
        """Give back, from this loop's own thread, what was never started."""
        self._outcomes.release((*self._dispatcher.take_buffered(), *self._dispatcher.take_gathered()))

    def _warn_of_unknown(self, look: Look) -> None:
        for queue, kind in look.ready:
            if kind not in self._core.tasks and kind not in self._unknown_types:
                if self._settings.queues is not None and queue not in self._settings.queues:
                    continue
                self._unknown_types.add(kind)
                logger.warning(
                    "queue %r has jobs of the task %r, which this worker does not know: left for workers that do",
                    queue,
                    kind,
                )
