"""What the loop knows after a round or a check: whether there may be jobs, and when something falls due."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.queries.claims import START, Pair, ReadyKey, Work
from rowcall.wake.waiter_and_file_watch import Wakeup
from rowcall.worker.claiming import KnownWork
from rowcall.worker.pace import (
    FIRST_RETRY_SECONDS,
    FIRST_STUCK_SECONDS,
    LAST_RETRY_SECONDS,
    LAST_STUCK_SECONDS,
    NEVER,
    UNSURE_SECONDS,
    Check,
    Knowledge,
    RunRound,
    Wait,
    next_step,
)
from tests.worker.timers import StoppedClock

NOW_MS = 5_000_000
DEMAND = Demand(worker="w", slots=1, types={"send": None, "receive": None})


def work(
    *,
    due_in: float | None = None,
    wake_in: float | None = None,
    edges_unsure: bool = False,
    ready: tuple[tuple[str, str], ...] = (),
) -> Work:
    due_at_ms = None if due_in is None else NOW_MS + round(due_in * 1000)
    wake_at_ms = None if wake_in is None else NOW_MS + round(wake_in * 1000)
    starts: dict[Pair, ReadyKey | None] = dict.fromkeys(ready, START)
    return Work(
        NOW_MS, due_at_ms, None, registered=True, ready=starts, wake_at_ms=wake_at_ms, edges_unsure=edges_unsure
    )


def test_at_first_there_may_be_jobs_and_nothing_is_known_to_be_due() -> None:
    known = KnownWork(StoppedClock())
    assert known.maybe_any
    assert known.due_at == known.schedule_at == known.unsure_at == known.retry_at == NEVER


def test_times_of_the_database_become_times_of_the_clock() -> None:
    clock = StoppedClock()
    known = KnownWork(clock)
    clock.at += 7.0
    known.note_check(work(due_in=2.0, wake_in=3.0), DEMAND)
    assert known.due_at - clock.at == 2.0
    assert known.schedule_at - clock.at == 3.0
    assert known.checked_at == clock.at
    known.note_check(work(wake_in=3.0), DEMAND)
    assert known.due_at == known.schedule_at  # a schedule that is due is something that is due


def test_an_edge_that_is_unsure_is_swept_again_soon_after_the_round() -> None:
    clock = StoppedClock()
    known = KnownWork(clock)
    known.note_round(DEMAND, RoundResult(work(edges_unsure=True)))
    swept_at = clock.at
    clock.at += 0.5
    known.note_check(work(edges_unsure=True), DEMAND)
    assert known.unsure_at == swept_at + UNSURE_SECONDS


def test_due_jobs_that_another_process_locks_are_tried_ever_less_often() -> None:
    clock = StoppedClock()
    known = KnownWork(clock)
    pauses = []
    for _ in range(3):
        known.note_round(DEMAND, RoundResult(work(due_in=0.0), stuck=True))
        pauses.append(round(known.stuck_until - clock.at, 6))
    assert pauses == [FIRST_STUCK_SECONDS, 2 * FIRST_STUCK_SECONDS, 4 * FIRST_STUCK_SECONDS]
    known.note_round(DEMAND, RoundResult(work(due_in=0.0)))
    assert known.stuck_until == clock.at


def test_a_limit_that_another_worker_holds_is_tried_again_in_a_moment() -> None:
    clock = StoppedClock()
    known = KnownWork(clock)
    known.note_round(DEMAND, RoundResult(work(), left=True))
    assert round(known.retry_at - clock.at, 6) == FIRST_RETRY_SECONDS
    for _ in range(10):
        known.note_round(DEMAND, RoundResult(work(), left=True))
    assert round(known.retry_at - clock.at, 6) == LAST_RETRY_SECONDS
    known.note_round(DEMAND, RoundResult(work()))
    assert known.retry_at == NEVER


def test_a_check_tells_whether_there_is_a_job_and_room_for_it() -> None:
    known = KnownWork(StoppedClock())
    ready = work(ready=(("mail", "send"),))
    for demand, expected in (
        (DEMAND, True),
        (Demand(worker="w", slots=0, types={"send": None}), False),
        (Demand(worker="w", slots=0, types={"send": None}, batch_room={"send": 1}), True),
        (Demand(worker="w", slots=1, types={"receive": None}), False),
        (Demand(worker="w", slots=1, types={"send": None}, queues={"mail": 0}), False),
    ):
        known.note_check(ready, demand)
        assert known.maybe_any == expected


def test_what_could_not_be_claimed_is_remembered_until_something_changes() -> None:
    known = KnownWork(StoppedClock())
    ready = work(ready=(("mail", "send"),))
    known.note_round(DEMAND, RoundResult(ready))
    known.note_check(ready, DEMAND)
    assert not known.maybe_any
    known.note_check(work(ready=(("mail", "receive"),)), DEMAND)
    assert known.maybe_any
    known.note_commit()
    known.note_check(ready, DEMAND)
    assert known.maybe_any


def test_a_round_without_room_says_nothing_about_jobs() -> None:
    known = KnownWork(StoppedClock())
    ready = work(ready=(("mail", "send"),))
    known.note_round(Demand(worker="w", slots=0), RoundResult(ready))
    known.note_check(ready, DEMAND)
    assert known.maybe_any


def test_a_notification_and_a_check_count_until_the_next_round() -> None:
    known = KnownWork(StoppedClock())
    known.note_round(DEMAND, RoundResult(work()))
    assert (known.maybe_any, known.is_notified, known.is_checked) == (False, False, False)
    known.note_notified()
    known.note_before_wait()
    assert (known.maybe_any, known.is_notified, known.is_checked) == (True, True, True)
    known.note_woken()
    assert not known.is_checked
    known.note_round(DEMAND, RoundResult(work()))
    assert (known.maybe_any, known.is_notified) == (False, False)


# together with `next_step`

SECONDS = 8.0
LATE_SECONDS = 0.002
"""How late a wait ends: the database's clock counts whole milliseconds."""
FOR_EVER = 10**9
THINGS = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000) | st.just(FOR_EVER)), max_size=5)
"""When each falls due, and until when others lock it, in milliseconds."""
WAKEUPS = st.lists(st.tuples(st.floats(0.001, 2.0), st.sampled_from(Wakeup)), max_size=20)
"""What ends a wait, and after how many seconds, unless its time is over before."""


class IdleLoop:
    """A loop with a free slot. It knows what its rounds and checks have found."""

    def __init__(self, things: Iterable[tuple[int, int]], wakeups: Iterable[tuple[float, Wakeup]]) -> None:
        self.clock = StoppedClock()
        self.started_at = self.clock.at
        self.known = KnownWork(self.clock)
        self.left = list(things)
        self.wakeups = iter(wakeups)
        self.longest_ms = 0
        """How long at most a thing was due, and not locked, before a round did it."""

    @property
    def seconds(self) -> float:
        return self.clock.at - self.started_at

    def step(self) -> None:
        known = self.known
        knowledge = Knowledge(
            slots=1,
            maybe_any=known.maybe_any,
            is_checked=known.is_checked,
            due_at=known.due_at,
            schedule_at=known.schedule_at,
            stuck_until=known.stuck_until,
            retry_at=known.retry_at,
            unsure_at=known.unsure_at,
        )
        match next_step(knowledge, self.clock.at):
            case RunRound():
                self._round()
            case Check():
                self._check()
                known.note_before_wait()
            case Wait(seconds=seconds):
                self._wait(seconds)

    def _round(self) -> None:
        now_ms = int(self.seconds * 1000)
        done = [thing for thing in self.left if max(thing) <= now_ms]
        stuck = not done and any(due_ms <= now_ms for due_ms, _ in self.left)
        self.longest_ms = max([self.longest_ms, *(now_ms - max(thing) for thing in done)])
        self.left = [thing for thing in self.left if thing not in done]
        self.known.note_round(DEMAND, RoundResult(self._work(), stuck=stuck))

    def _check(self) -> None:
        self.known.note_check(self._work(), DEMAND)

    def _work(self) -> Work:
        next_ms = min((due_ms for due_ms, _ in self.left), default=None)
        return work(due_in=None if next_ms is None else (next_ms - int(self.seconds * 1000)) / 1000)

    def _wait(self, seconds: float) -> None:
        after, wakeup = next(self.wakeups, (NEVER, Wakeup.TIMEOUT))
        if after >= seconds:
            after, wakeup = seconds, Wakeup.TIMEOUT
        self.clock.at += after + LATE_SECONDS
        match wakeup:
            case Wakeup.WOKEN:
                self.known.note_woken()
            case Wakeup.NOTIFIED:
                self.known.note_notified()
            case Wakeup.CHANGED:
                self.known.note_commit()
                self._check()
            case Wakeup.TIMEOUT:
                self._check()


@settings(max_examples=300, deadline=None)
@given(THINGS, WAKEUPS)
@example([(0, FOR_EVER), (1000, 0)], [])
@example([(0, FOR_EVER), (1000, 0)], [(0.02, Wakeup.CHANGED)] * 20)
def test_what_is_locked_delays_nothing_else_for_long_and_is_not_tried_all_the_time(
    things: list[tuple[int, int]], wakeups: list[tuple[float, Wakeup]]
) -> None:
    loop = IdleLoop(things, wakeups)
    steps = 0
    while loop.seconds < SECONDS:
        loop.step()
        steps += 1
        # the pause has its full length after six rounds; each round has a check and a wait
        assert steps <= 3 * (7 * (len(things) + 1) + len(wakeups) + SECONDS)
    assert all(locked_until == FOR_EVER for _, locked_until in loop.left)
    assert loop.longest_ms <= 1000 * (LAST_STUCK_SECONDS + 2 * LATE_SECONDS)
