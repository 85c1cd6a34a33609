"""Rates that count units of jobs: computed at the enqueue, reserved at the claim, corrected by the handler."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rowcall import Context, InvalidOption, Job, Limit, Rowcall, Status
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.cases.limits import declare
from tests.conformance.fixtures import OpenQueue
from tests.conformance.isolated import uses_units
from tests.conformance.store import Store

TOKENS = Limit("tokens", rate=100, per=60, units="number")


def sizes(jobs: list[Job]) -> list[object]:
    return [job.payload["number"] for job in jobs]


def enqueue(jobs: Rowcall, *numbers: int, **options: Any) -> list[Job]:
    return [jobs.enqueue("charge", {"number": number}, **options) for number in numbers]


class TestLimitUnits:
    def test_units_are_reserved_and_come_back_after_the_period(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, TOKENS)
        enqueue(jobs, 60, 30, 20, 10, 0)
        assert sizes(jobs.claim("w", limit=9)) == [60, 30]
        (limit,) = jobs.limits()
        assert (limit.started, limit.waiting) == (90, 3)
        why = jobs.why(3).sentence
        assert why.startswith(
            "limit tokens allows 100 units in 1 min, and this job needs 20; the next start is checked"
        )
        clock.advance(59)
        assert jobs.claim("w", limit=9) == []
        clock.advance(2)
        assert sizes(jobs.claim("w", limit=9)) == [20, 10, 0]

    def test_small_jobs_do_not_overtake_a_large_one_that_waits(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, TOKENS)
        enqueue(jobs, 50, 90)
        assert sizes(jobs.claim("w", limit=9)) == [50]
        enqueue(jobs, 10, 10)
        assert jobs.claim("w", limit=9) == []
        enqueue(jobs, 20, priority=5)  # which comes first
        assert sizes(jobs.claim("w", limit=9)) == [20]
        clock.advance(61)
        assert sizes(jobs.claim("w", limit=9)) == [90]

    @pytest.mark.parametrize(
        ("units", "needed"),
        [
            (7, [7, 7]),
            ("number", [0, 30]),
            (lambda customer, number: number + len(customer), [4, 33]),
        ],
    )
    def test_units_are_a_number_an_argument_or_a_function(self, jobs: Rowcall, units: Any, needed: list[int]) -> None:
        declare(jobs, Limit("tokens", rate=100, per=60, units=units))
        jobs.enqueue("charge")
        jobs.enqueue("charge", {"number": 30, "customer": "ann"})
        jobs.claim("w", limit=9)
        assert jobs.limits()[0].started == sum(needed)

    def test_rows_of_plain_sql_have_units_too(self, jobs: Rowcall, store: Store) -> None:
        declare(jobs, TOKENS)
        jobs.migrate()
        for number in (60, 60, -1):
            store.execute(f"""insert into rowcall_job (type, payload) values ('charge', '{{"number": {number}}}')""")
        assert sizes(jobs.claim("w", limit=9)) == [60]
        assert "units must be a whole number, got -1" in str(jobs.get(3).error_detail)

    def test_what_a_handler_has_used_counts(self, jobs: Rowcall, clock: FakeClock, store: Store) -> None:
        @jobs.task(name="charge", limit=TOKENS)
        def charge(ctx: Context, number: int, used: int) -> None:
            ctx.used("tokens", used - 1)
            ctx.used("tokens", 1)

        charge.enqueue(number=90, used=20)
        assert jobs.drain().succeeded == 1
        assert jobs.limits()[0].started == 20
        charge.enqueue(number=10, used=75)
        assert jobs.drain().succeeded == 1
        assert jobs.limits()[0].started == 95
        waiting = charge.enqueue(number=20, used=300)
        assert jobs.drain().total == 0
        clock.advance(61)
        assert jobs.drain().succeeded == 1
        assert (jobs.get(waiting).status, jobs.limits()[0].started) == (Status.SUCCEEDED, 300)
        charge.enqueue(number=1, used=1)
        clock.advance(59)
        assert jobs.drain().total == 0
        clock.advance(2)
        assert jobs.drain().succeeded == 1
        assert len(store.execute("select * from rowcall_start")) == 1

    def test_units_that_come_back_let_held_jobs_start(self, jobs: Rowcall) -> None:
        @jobs.task(name="charge", limit=TOKENS)
        def charge(ctx: Context, number: int) -> None:
            ctx.used("tokens", 1)

        charge.enqueue_many([{"number": 60} for _ in range(5)])
        assert jobs.drain().succeeded == 5

    def test_random_jobs_never_reserve_more_than_the_rate_in_any_window(
        self, jobs: Rowcall, open_queue: OpenQueue, clock: FakeClock
    ) -> None:
        chance = random.Random(7)
        other = open_queue(clock=clock)
        for queue in (jobs, other):
            declare(queue, TOKENS)
        started: list[tuple[float, int]] = []
        for _ in range(120):
            for _ in range(chance.randrange(3)):
                enqueue(jobs, chance.choice([1, 5, 20, 60, 100]))
            for job in chance.choice([jobs, other]).claim("w", limit=chance.randrange(1, 6), lease=20):
                now = clock.now().timestamp()
                started.append((now, job.payload["number"]))  # type: ignore[arg-type]
                assert sum(units for at, units in started if at > now - 60) <= 100
                if chance.random() < 0.7:  # others are lost
                    chance.choice([jobs.complete, jobs.release])(job)
            clock.advance(chance.choice([0, 1, 7, 20]))
        while jobs.list(status=["pending", "running"], limit=1).jobs:
            clock.advance(61)
            for job in jobs.claim("w", limit=9):
                jobs.complete(job)
        assert len(started) > 20

    def test_a_lost_attempt_keeps_its_units_for_the_period_only(
        self, jobs: Rowcall, clock: FakeClock, store: Store
    ) -> None:
        declare(jobs, TOKENS)
        enqueue(jobs, 90)
        assert len(jobs.claim("w", lease=5)) == 1
        clock.advance(10)
        assert jobs.claim("w", limit=9) == []  # it may have used them
        clock.advance(51)
        (again,) = jobs.claim("w", limit=9)
        assert (again.attempt, jobs.limits()[0].started) == (2, 90)
        jobs.complete(again)
        clock.advance(61)
        jobs.prune()
        assert store.execute("select * from rowcall_start") == []

    def test_jobs_that_need_too_much_are_refused(self, jobs: Rowcall) -> None:
        declare(jobs, TOKENS)
        for number, problem in (
            (101, "the job needs 101 units, and all may use 100 in 1 min"),
            (-1, "got -1 from the arg"),
        ):
            with pytest.raises(InvalidOption, match=problem):
                enqueue(jobs, number)
        with pytest.raises(InvalidOption, match="got None from the argument 'tokens'"):
            jobs.enqueue("unknown", limit=Limit("other", rate=1, per=1, units="tokens"))
        for options, problem in (
            ({"concurrency": 1, "units": 1}, "units need rate=… and per=…"),
            ({"rate": 1, "per": 1, "units": 2}, "units must be a whole number from 1 to 1, got 2"),
            ({"rate": 1, "per": 1, "units": 2.5}, "units must be a number, an argument's name or a function"),
        ):
            with pytest.raises(InvalidOption, match=problem):
                Limit("other", **options)
        with pytest.raises(InvalidOption, match="units='size' is not an argument of charge"):
            declare(jobs, Limit("other", rate=1, per=1, units="size"), name="charge")
        with pytest.raises(InvalidOption, match="units of a queue's limit must be a number"):
            jobs.limit_queue("mail", Limit("other", rate=1, per=1, units="size"))
        assert jobs.list().jobs == []

    def test_wrong_uses_fail_the_attempt(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()

        @jobs.task(limit=TOKENS, max_attempts=1)
        def charge(ctx: Context, number: int, name: str = "tokens") -> None:
            ctx.used(name, number - 5)

        @jobs.task(limit=Limit("batch", rate=5, per=1, units=1), batch=2, max_attempts=1)
        def many(ctx: Context, items: list[int]) -> None:
            ctx.used("batch", 1)

        jobs.task(isolation="process", limit=Limit("child", rate=50, per=60, units=40))(uses_units)
        failed = [charge.enqueue(1), charge.enqueue(9, "token"), *many.enqueue_many([{"item": 1}])]
        child = jobs.enqueue("uses_units")
        with jobs.worker():
            jobs.result(child, timeout=60)
            eventually(lambda: jobs.stats().by_status["failed"] == 3)
        details = [str(jobs.get(job).error_detail) for job in failed]
        assert "units must be a whole number, at least 0, got -4" in details[0]
        assert "'token' is not a limit with units of this job (it has: 'tokens')" in details[1]
        assert "ctx.used is not available in a batch" in details[2]
        assert {one.name: one.started for one in jobs.limits()}["child"] == 15
