"""Holds: a handler asks that no job of its limit starts for a while, as after a 429."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from datetime import timedelta
from typing import Any

import pytest

from rowcall import Breaker, Context, InvalidOption, Job, LeaseLost, Limit, Retry, Rowcall, Snooze, Status
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.cases.levers import Shared
from tests.conformance.cases.limits import declare, enqueue
from tests.conformance.fixtures import OpenQueue
from tests.conformance.isolated import too_many_requests
from tests.conformance.store import Store

STRIPE = Limit("stripe", concurrency=5)


class TestLimitHolds:
    def test_a_held_limit_starts_nothing_until_then(
        self, jobs: Rowcall, open_queue: OpenQueue, clock: FakeClock
    ) -> None:
        other = open_queue(clock=clock)
        declare(jobs, STRIPE)
        declare(other, STRIPE)
        first, *rest = enqueue(jobs, "abcdefgh")
        running = jobs.claim("w", limit=3)
        jobs.fail(running.pop(0), Retry(delay=30, hold="stripe", reason="429"))
        assert other.claim("w", limit=9) == []
        jobs.complete(running.pop())
        clock.advance(29)
        assert other.claim("w", limit=9) == jobs.claim("w", limit=9) == []
        (limit,) = jobs.limits()
        assert (limit.held_until, limit.held_by, limit.held_reason) == (
            clock.now() + timedelta(seconds=1),
            first.id,
            "429",
        )
        clock.advance(2)
        assert [job.id for job in other.claim("w", limit=9)] == [first.id, *(job.id for job in rest[2:5])]
        assert jobs.limits()[0].held_until is None

    def test_other_values_of_its_argument_go_on(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("stripe", concurrency=1, by="customer"), Limit("all", concurrency=2))
        enqueue(jobs, "ab")
        one, two = jobs.claim("w", limit=2)
        jobs.fail(one, Snooze(delay=60, hold="stripe"))
        jobs.complete(two)
        enqueue(jobs, "aabb")
        assert [job.payload["customer"] for job in jobs.claim("w", limit=9)] == ["b"]
        (held,) = [key for limit in jobs.limits() for key in limit.by_key if key.held_until]
        assert (held.value, held.waiting) == ("a", 2)

    def test_the_last_attempt_holds_it_too_and_no_hold_is_made_shorter(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, STRIPE)
        jobs.enqueue("charge", max_attempts=1)
        enqueue(jobs, "ab")
        last, second, third = jobs.claim("w", limit=3)
        jobs.fail(last, Retry(run_at=clock.now() + timedelta(seconds=60), hold="stripe"))
        jobs.fail(second, Retry(delay=10, hold="stripe"))
        jobs.fail(third, Retry(delay=70, hold="stripe"))
        assert jobs.get(last.id).status is Status.FAILED
        changes = [(one.event, one.limit, one.actor) for one in jobs.limit_changes()]
        assert changes == [("LIMIT_HELD", "stripe", f"job {last.id}")]
        clock.advance(61)
        assert jobs.claim("w", limit=9) == []
        clock.advance(10)
        assert len(jobs.claim("w", limit=9)) == 2

    def test_it_says_why_jobs_wait_and_a_reset_lets_them_start(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, STRIPE)
        first, second = enqueue(jobs, "ab")
        (running,) = jobs.claim("w", limit=1)
        jobs.fail(running, Retry(delay=30, hold="stripe", reason="429"))
        assert jobs.claim("w", limit=9) == []
        until = f"{clock.now() + timedelta(seconds=30):%Y-%m-%d %H:%M:%S} UTC"
        why = jobs.why(second.id)
        assert why.sentence == f"limit stripe is held until {until} (429, by job {first.id})"
        assert why.until == clock.now() + timedelta(seconds=30)
        assert jobs.reset_limit("stripe", actor="ann")
        assert not jobs.reset_limit("stripe")
        assert jobs.limit_changes()[0].detail == "ended a hold"
        assert [job.id for job in jobs.claim("w", limit=9)] == [second.id]

    def test_holds_that_are_over_are_pruned(self, jobs: Rowcall, clock: FakeClock, store: Store) -> None:
        declare(jobs, STRIPE)
        enqueue(jobs, "a")
        jobs.fail(jobs.claim("w")[0], Retry(delay=30, hold="stripe"))
        clock.advance(31)
        jobs.prune()
        assert store.execute("select * from rowcall_limit_hold") == []

    def test_an_unknown_limit_fails_the_job(self, jobs: Rowcall) -> None:
        jobs.limit_queue("mail", Limit("mail", concurrency=1))
        jobs.task(limit=Limit("each", concurrency=1, by="customer"), name="each")(lambda customer: None)

        @jobs.task(limit=STRIPE)
        def charge(limit: str) -> None:
            raise Retry(delay=5, hold=limit)

        failed = [charge.enqueue(name) for name in ("stipe", "each")]
        assert jobs.drain().failed == 2
        details = [jobs.get(job.id).error_detail for job in failed]
        assert details == [
            "hold: unknown limit 'stipe' (did you mean 'stripe'?); the job has no such limit",
            "hold cannot be 'each': that limit counts by 'customer', and the job is not under it",
        ]
        other = charge.enqueue("mail")  # it is not under this one, which has no keys
        jobs.drain()
        assert jobs.get(other.id).error_code == "RETRY:REQUESTED"
        assert [one.name for one in jobs.limits() if one.held_until] == ["mail"]
        jobs.enqueue("plain")
        (running,) = jobs.claim("w", limit=1)
        for wrong in ("", 7):
            with pytest.raises(InvalidOption, match="hold must be the name of a limit"):
                Retry(hold=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match="hold: unknown limit 'nothing'"):
            jobs.fail(running, Snooze(5, hold="nothing"))

    def test_every_lane_can_hold(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()
        jobs.task(isolation="process", limit=Limit("child", concurrency=1))(too_many_requests)

        @jobs.task(limit=Limit("batch", concurrency=9), batch=2)
        def many(items: list[int]) -> None:
            raise Snooze(60, hold="batch")

        @jobs.task(limit=Limit("async", concurrency=1))
        async def waits() -> None:
            raise Retry(60, "busy", hold="async") from OSError("429")

        jobs.enqueue("too_many_requests")
        many.enqueue_many([{"item": 1}, {"item": 2}])
        waits.enqueue()
        with jobs.worker():
            eventually(lambda: sum(one.held_until is not None for one in jobs.limits()) == 3)
        assert {one.name: one.held_reason for one in jobs.limits()} == {"async": "busy", "batch": None, "child": "429"}

    def test_jobs_in_a_buffer_do_not_start(self, open_queue: OpenQueue) -> None:
        """Two workers, of which one has claimed jobs ahead when a handler of the other holds the limit."""
        first, second = open_queue(), open_queue()
        shared, asked = Shared(), threading.Event()
        shared.may_end.set()
        for queue in (first, second):
            declare_until(queue, shared, asked)
        enqueue(first, ["x"] * 300)
        with first.worker(concurrency=2), second.worker(concurrency=2):
            eventually(lambda: shared.calls >= 20, message="handlers to run")
            asked.set()
            eventually(lambda: first.limits()[0].held_until is not None)
            eventually(lambda: not first.list(status="running").jobs, message="buffers to be released")
            shared.restart()
            assert first.stats().by_status["pending"] > 100
            assert shared.calls == 0
            assert first.reset_limit("stripe")
            eventually(lambda: shared.calls > 0)


def declare_until(jobs: Rowcall, shared: Shared, asked: threading.Event) -> None:
    @jobs.task(limit=Limit("stripe", concurrency=40))
    def charge(ctx: Context, customer: str) -> None:
        shared.run()
        if asked.is_set():
            asked.clear()
            raise Retry(600, hold="stripe")


class TestBreakers:
    def test_it_opens_lets_one_try_and_closes_on_success(
        self, jobs: Rowcall, open_queue: OpenQueue, clock: FakeClock
    ) -> None:
        other = open_queue(clock=clock)
        for queue in (jobs, other):
            declare(queue, Limit("stripe", concurrency=3, breaker=Breaker(failures=0.5, of=4, pause=30)))
        enqueue(jobs, "abcdefghijklmno")
        first, second, slow = jobs.claim("w", limit=9)
        for number in range(4):
            job = first if number == 0 else second if number == 1 else other.claim("w")[0]
            jobs.complete(job) if number % 2 else jobs.fail(job, "DOWN:DOWN")
        assert jobs.claim("w", limit=9) == other.claim("w", limit=9) == []
        (limit,) = jobs.limits()
        assert (limit.is_open, limit.held_until) == (True, clock.now() + timedelta(seconds=30))
        waiting = jobs.list(status="pending", order="oldest").jobs[0]
        assert jobs.why(waiting).sentence.startswith(
            "the breaker of limit stripe is open: 2 of 4 attempts failed; one job"
        )
        clock.advance(31)
        jobs.fail(slow, "DOWN:DOWN")  # it began before the breaker opened, and says nothing new
        (trial,) = jobs.claim("w", limit=9)
        assert other.claim("w", limit=9) == []
        clock.advance(2)
        assert other.claim("w", limit=9) == []
        other.fail(trial, "DOWN:DOWN")
        assert jobs.claim("w", limit=9) == []
        clock.advance(29)
        assert jobs.claim("w", limit=9) == []
        clock.advance(2)
        (trial,) = other.claim("w", limit=9)
        jobs.release(trial)  # which says nothing: the next one tries
        (trial,) = jobs.claim("w", limit=9)
        jobs.complete(trial)
        clock.advance(1.1)
        assert len(jobs.claim("w", limit=9)) == 3
        assert not jobs.limits()[0].is_open
        events = [one.event for one in jobs.limit_changes()]
        assert events == ["BREAKER_CLOSED", "BREAKER_OPENED", "BREAKER_OPENED"]

    def test_a_lost_trial_lets_another_one_try(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("one", concurrency=9, breaker=Breaker(failures=1, of=1, pause=10)))
        enqueue(jobs, "abc")
        jobs.fail(jobs.claim("w")[0], "DOWN:DOWN")
        clock.advance(11)
        (lost,) = jobs.claim("w", limit=9, lease=5)
        clock.advance(6)
        (trial,) = jobs.claim("w", limit=9)
        with pytest.raises(LeaseLost):
            jobs.complete(lost)
        assert jobs.claim("w", limit=9) == []
        assert jobs.reset_limit("one")
        assert len(jobs.claim("w", limit=9)) > 0
        jobs.complete(trial)
        assert not jobs.limits()[0].is_open

    def test_random_failures_never_let_more_than_one_try(self, jobs: Rowcall, clock: FakeClock, store: Store) -> None:
        """What counts is what the rows say: while it is open, no job starts, or one tries."""
        chance = random.Random(31)
        jobs.migrate()
        declare(jobs, Limit("all", concurrency=6, breaker=Breaker(failures=0.5, of=6, pause=20)))
        enqueue(jobs, "x" * 120)
        claimed: list[Job] = []
        opened = 0
        while jobs.stats().by_status["succeeded"] < 60:
            is_open = jobs.limits()[0].is_open
            held_until = jobs.limits()[0].held_until
            opened += is_open
            started = jobs.claim("w", limit=6, lease=60)
            assert not (is_open and len(started) > 1)
            assert not (started and held_until is not None)
            claimed += started
            for _ in range(chance.randrange(3)):
                if claimed:
                    self._end(jobs, claimed.pop(chance.randrange(len(claimed))), chance)
            clock.advance(chance.choice([0, 0, 1, 25]))
        assert opened > 5
        assert len(store.execute("select * from rowcall_outcome")) <= 6

    def _end(self, jobs: Rowcall, job: Job, chance: random.Random) -> None:
        with contextlib.suppress(LeaseLost):
            match chance.randrange(6):
                case 0 | 1:
                    jobs.fail(job, Retry(delay=chance.randrange(10)))
                case 2:
                    jobs.release(job)
                case _:
                    jobs.complete(job)

    def test_attempts_of_workers_count_however_they_end(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()
        breaker = Breaker(failures=1, of=5, pause=600)

        @jobs.task(limit=Limit("api", concurrency=1, breaker=breaker), max_attempts=1, timeout=0.2)
        async def call(way: str) -> None:
            if way == "late":
                await asyncio.sleep(60)
            if way == "snooze":
                raise Snooze(600)
            if way != "fine":
                raise Retry(5) if way == "retry" else OSError("down")

        for way in ("fine", "snooze", "late", "retry", "down", "down"):
            call.enqueue(way)
        with jobs.worker():
            eventually(lambda: jobs.stats().by_status["failed"] == 4)
            assert not jobs.limits()[0].is_open
            call.enqueue("down")
            eventually(lambda: jobs.limits()[0].is_open)
            held = call.enqueue("fine")
            eventually(lambda: "HELD" in [one.event for one in jobs.timeline(held.id)])
            jobs.reset_limit("api")
            assert jobs.result(held, timeout=30) is None

    def test_jobs_that_complete_in_their_own_transaction_count(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()

        @jobs.task(limit=Limit("api", concurrency=1, breaker=Breaker(failures=1, of=1, pause=0.05)))
        def call(ctx: Context, is_fine: bool) -> None:
            if not is_fine:
                raise OSError("down")
            with jobs.transaction() as connection:
                ctx.complete(connection=connection)

        with jobs.worker():
            call.enqueue(False)
            eventually(lambda: jobs.limits()[0].is_open)
            jobs.result(call.enqueue(True), timeout=30)
            eventually(lambda: not jobs.limits()[0].is_open)

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"failures": 0}, "failures must be a share of attempts"),
            ({"failures": 1.5}, "failures must be a share of attempts"),
            ({"of": 0}, "of must be a whole number from 1 to 1000"),
            ({"pause": 0}, "pause must be a duration"),
            ({"share": 0.5}, "unknown option 'share'"),
        ],
    )
    def test_wrong_breakers_are_refused(self, jobs: Rowcall, options: dict[str, Any], problem: str) -> None:
        with pytest.raises(InvalidOption, match=problem):
            Breaker(**options)
        with pytest.raises(InvalidOption, match="breaker must be a Breaker"):
            Limit("one", concurrency=1, breaker=0.5)  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match="'one': declare a limit with a breaker, with task"):
            jobs.enqueue("charge", limit=Limit("one", concurrency=1, breaker=Breaker()))
