"""What has ended and is not written yet: settled in groups by the rounds, and by itself where a group cannot be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

from rowcall.context import logger
from rowcall.domain.errors import DataRefused, RowcallError
from rowcall.domain.lifecycle import SUCCESS, Lost, Move, Released, Transition, Tries, Unfit, decide
from rowcall.drivers.database import Connection
from rowcall.observe.meter import Meter
from rowcall.queue import Queue
from rowcall.store.counts.queries import Tally
from rowcall.store.counts.tallies import Books
from rowcall.store.dialect import Success
from rowcall.store.jobs.recover import give_back_unknown
from rowcall.store.jobs.settle import Account, Completions, Ended, attempts_of, settle, settle_completed
from rowcall.worker.attempt import Run, attempt_of
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.loop.attempt_log import tell, tell_completed, tell_dropped, tell_left_open

MOST_SETTLED = 1000
ASK_AGAIN_SECONDS = 0.05
LONGEST_UNDECIDED_SECONDS = 5.0
NONE: Mapping[int, Transition] = MappingProxyType({})
_MOVE_OF = attrgetter("transition.move")


class Outcomes:
    """Used by the loop's thread alone."""

    def __init__(self, core: Queue, dispatcher: Dispatcher, connection: Connection, meter: Meter | None = None) -> None:
        self._core = core
        self._monotonic = core.clock.monotonic
        self._timer = core.clock.timer
        self._meter = meter
        self._dispatcher = dispatcher
        self._connection = connection
        self._unsettled: list[Run] = []
        self._completed: list[Run] = []
        self._undecided: list[Run] = []
        self._left_open: list[Run] = []
        self.late: list[tuple[int, int]] = []
        self._asked_at = 0.0
        self.counts: Counter[str] = Counter()

    def take(self, ended: Iterable[Run]) -> None:
        for run in ended:
            if run.completed:
                self._completed.append(run)
            elif isinstance(run.stopped_because, Lost):
                free_places([run])
                tell_dropped(run)
                self.late.append(attempt_of(run))
            else:
                self._unsettled.append(run)

    def take_late(self, attempts: Iterable[tuple[int, int]]) -> None:
        """The handlers of these attempts have ended after they were settled: the next round frees their slots."""
        self.late += attempts

    @property
    def any_unsettled(self) -> bool:
        return bool(self._unsettled)

    @property
    def any_completed(self) -> bool:
        """Whether some were completed in transactions of their handlers', of which the end is not known."""
        return bool(self._completed or self._undecided)

    def __len__(self) -> int:
        """How many are to be waited for; not those whose handlers left their transactions open, perhaps for ever."""
        settling = len(self._unsettled) + len(self._completed) + len(self._undecided) - len(self._left_open)
        return settling + len(self.late)

    @property
    def is_full(self) -> bool:
        return len(self._unsettled) >= MOST_SETTLED

    def group(self) -> list[Run]:
        """Those that the next round settles."""
        return self._unsettled[:MOST_SETTLED]

    def written(self, runs: list[Run], settled: set[int], cancelled: Mapping[int, Transition] = NONE) -> None:
        """A round has settled the group; those that are not in `settled` were no longer ours, and those in `cancelled`
        became what that says.
        """
        if cancelled:
            for run in runs:
                run.transition = cancelled.get(run.ready.id, run.transition)
        del self._unsettled[: len(runs)]
        free_places(runs)
        self._count(runs, settled)

    def failed_unread(self, runs: list[Run]) -> None:
        """The round has failed these when it claimed them: their rows cannot be read."""
        self._count(runs, {run.ready.id for run in runs})

    def settle_one_by_one(self) -> None:
        """One of the group holds what the database refuses: settle the others, and fail that one."""
        while self._unsettled:
            run = self._unsettled[0]
            now = self._monotonic()
            try:
                settled = self._settle(run, now)
            except DataRefused as error:
                run.transition = _unfit(run, error)
                settled = self._settle(run, now)
            self.written([run], settled)

    def set_aside(self) -> None:
        """Somebody is at the rows of some: from now on each is settled when its row is free, and holds up no others."""
        self._completed += self._unsettled
        self._unsettled = []

    def settle_completed(self) -> bool:
        """Learn what became of the transactions in which handlers completed their jobs; gives whether any is over."""
        if not self._completed and (not self._undecided or self._timer() - self._asked_at < ASK_AGAIN_SECONDS):
            return False
        self._asked_at = self._timer()
        runs, now = self._completed + self._undecided, self._monotonic()
        try:
            decided = self._decided(runs, now)
        except DataRefused:
            decided = self._decided_one_by_one(runs, now)
        self._completed, self._undecided = [], [run for run in runs if run.ready.id in decided.undecided]
        over = [run for run in runs if run.ready.id not in decided.undecided]
        free_places(over)
        self._warn_of_open(now)
        committed = [run for run in over if run.ready.id in decided.committed]
        self.counts[Move.SUCCEED] += len(committed)
        if self._meter is not None:
            self._meter.add_completed(committed)
        for run in committed:
            tell_completed(run)
        self._count([run for run in over if run not in committed], decided.rolled_back)
        return bool(over)

    def _decided(self, runs: list[Run], now: float) -> Completions:
        ended = [_ended(run, now) for run in runs]
        abandoned = self._dispatcher.abandoned
        plan = settle_completed(self._core.dialect, ended, account_of(runs), self._core.now_ms(), abandoned)
        return self._connection.write(plan)

    def _decided_one_by_one(self, runs: list[Run], now: float) -> Completions:
        """One of them holds what the database refuses: that one fails."""
        together = Completions(set(), set(), set())
        for run in runs:
            try:
                one = self._decided([run], now)
            except DataRefused as error:
                run.transition = _unfit(run, error)
                one = self._decided([run], now)
            for all_of_them, found in zip(together, one, strict=True):
                all_of_them.update(found)
        return together

    def _warn_of_open(self, now: float) -> None:
        for run in self._undecided:
            if now - run.finished_at > LONGEST_UNDECIDED_SECONDS and run not in self._left_open:
                self._left_open.append(run)
                tell_left_open(run)
        self._left_open = [run for run in self._left_open if run in self._undecided]

    def make_sure(self, worker: str) -> None:
        """The reply to a commit was lost: learn whether it took place, and give back what it claimed unknown to us."""
        known = (*self._dispatcher.held(), *self._unsettled, *self._completed, *self._undecided)
        held = {(run.ready.id, run.ready.lease) for run in known}
        owned = self._connection.write(give_back_unknown(self._core.dialect, worker, held, self._core.now_ms()))
        done = [run for run in self._unsettled if (run.ready.id, run.ready.lease) not in owned]
        self._unsettled = [run for run in self._unsettled if run not in done]
        free_places(done)
        self.late += map(attempt_of, done)  # unless they were settled by us, their slots are still taken
        self._count(done, {run.ready.id for run in done})

    def release(self, runs: Iterable[Run]) -> None:
        """Give back what was never started."""
        for run in runs:
            run.transition = decide(Tries(run.ready.attempt, run.ready.max_attempts), Released(started=False))
            run.settled = True
            self._unsettled.append(run)

    def forget(self, ended: Iterable[Run]) -> None:
        """Nothing of it is to be written any more, nor of these."""
        free_places([*self._unsettled, *self._completed, *self._undecided, *ended])
        self._unsettled, self._completed, self._undecided, self._left_open, self.late = [], [], [], [], []

    def write_what_can_be(self) -> None:
        """Last words, before the loop ends by an error."""
        ended = [ended_of(run, self._monotonic()) for run in self._unsettled]
        try:
            self._write(ended, account_of(self._unsettled))
        except RowcallError as error:
            logger.warning("%d jobs could not be given back; others will find them: %s", len(ended), error)

    def _settle(self, run: Run, now: float) -> set[int]:
        return self._write([ended_of(run, now)], account_of([run]))

    def _write(self, ended: Sequence[Ended | Success], account: Account) -> set[int]:
        freed = attempts_of(ended, self._dispatcher.abandoned)
        return self._connection.write(settle(self._core.dialect, ended, account, self._core.now_ms(), freed))

    def _count(self, runs: list[Run], settled: set[int]) -> None:
        self.counts.update(map(_MOVE_OF, runs))
        if self._meter is not None:
            self._meter.add(runs, settled)
        all_settled = len(settled) == len(runs)
        for run in runs:
            if all_settled and run.transition is SUCCESS:
                continue
            if run.ready.id in settled:
                tell(run)
            else:
                self.counts[_MOVE_OF(run)] -= 1
                tell_dropped(run)


def _unfit(run: Run, error: DataRefused) -> Transition:
    outcome = Unfit(error.error_code, run.task.failures.detail(str(error)))
    return decide(Tries(run.ready.attempt, run.ready.max_attempts), outcome)


def free_places(runs: list[Run]) -> None:
    """The attempts are settled: nobody will ask any more whether they had begun."""
    for identity in {run.identity for run in runs}:  # mostly one; a group at once costs a tenth of one by one
        if identity.liveness_file is not None:
            identity.liveness_file.free([run.place for run in runs if run.identity is identity])


def account_of(runs: Sequence[Run]) -> Account:
    """What a group adds to the counts, of those that were still ours."""

    def tallies(settled: set[int]) -> list[Tally]:
        counted = runs
        if len(settled) < len(runs):  # some were not, or one is there twice: then its last attempt was the one settled
            by_lease = sorted(runs, key=lambda run: run.ready.lease)
            counted = [run for job_id, run in {run.ready.id: run for run in by_lease}.items() if job_id in settled]
        books = Books()
        _enter_successes(books, counted)
        for run in counted:
            transition = run.transition
            if transition is not None and transition.move is not Move.SUCCEED:
                ready = run.ready
                books.enter(ready.queue, ready.type, ready.attempt, transition, run.waited_ms, run.ran_ms)
        return books.tallies()

    return tallies


def _enter_successes(books: Books, runs: Sequence[Run]) -> None:
    """Those that are alike are counted first, which costs a third of entering each."""
    alike = Counter(
        [
            (
                ready.queue,
                ready.type,
                ready.attempt,
                # `waited_ms`, written out: a call for each job is felt in a drain
                run.claimed_at_ms - (ready.run_at_ms if ready.run_at_ms > ready.created_at_ms else ready.created_at_ms),
                run.ran_ms,
            )
            for run in runs
            if run.transition is SUCCESS or (run.transition is not None and run.transition.move is Move.SUCCEED)
            for ready in (run.ready,)
        ]
    )
    for (queue, kind, attempt, waited_ms, ran_ms), jobs in alike.items():
        books.enter(queue, kind, attempt, SUCCESS, waited_ms, ran_ms, jobs)


def ended_of(run: Run, now: float) -> Ended | Success:
    if run.transition is SUCCESS and run.then is None:
        started_age = int((now - run.started_at) * 1000) if run.started_at else None
        finished_age = int((now - run.finished_at) * 1000) if run.finished_at else 0
        return Success(run.ready.id, run.ready.lease, started_age, finished_age, None)
    return _ended(run, now)


def _ended(run: Run, now: float) -> Ended:
    assert run.transition is not None
    started_age = int((now - run.started_at) * 1000) if run.started_at else None
    finished_age = int((now - run.finished_at) * 1000) if run.finished_at else 0
    return Ended(run.ready.id, run.ready.lease, run.transition, started_age, finished_age, run.then)
