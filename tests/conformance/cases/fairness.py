"""Jobs that take turns by the value of an argument."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

import pytest

from rowcall import Fail, InvalidArguments, InvalidOption, Job, Limit, Rowcall, Snooze
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store

JOBS = int(os.environ.get("ROWCALL_TEST_FAIR_JOBS", "2000"))
SLOTS = 4


def customers(claimed: Sequence[Job]) -> str:
    return "".join([str(job.payload["customer"]) for job in claimed])


def declare(jobs: Rowcall, customers: str = "", **options: object) -> Callable[[str], Job]:
    @jobs.task(fair_by="customer", **options)  # type: ignore[call-overload, untyped-decorator]
    def send(customer: str) -> None: ...

    def enqueue(customers: str) -> Job:
        return send.enqueue_many([{"customer": customer} for customer in customers])[-1]  # type: ignore[no-any-return]

    if customers:
        enqueue(customers)
    return enqueue


class TestFairness:
    def test_a_single_job_behind_many_of_another_value_starts_next(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()
        started: list[str] = []
        go_on = threading.Semaphore(0)

        @jobs.task(fair_by="customer")
        def send(customer: str) -> None:
            started.append(customer)
            assert go_on.acquire(timeout=60)

        send.enqueue_many([{"customer": "A"}] * JOBS)
        with jobs.worker(concurrency=SLOTS):
            eventually(lambda: len(started) >= SLOTS)
            send.enqueue("B")
            for number in range(SLOTS + 1):
                go_on.release()
                eventually(lambda: len(started) > SLOTS + number)  # noqa: B023
            assert "B" in started[SLOTS : 2 * SLOTS + 1]
            go_on.release(JOBS)

    def test_values_take_turns_and_each_keeps_its_order(self, jobs: Rowcall) -> None:
        enqueue = declare(jobs, "AAAAA")
        assert customers(jobs.claim("hand", limit=2)) == "AA"
        enqueue("BBC")
        assert customers(jobs.claim("hand", limit=9)) == "ABCABA"

    def test_a_value_that_was_idle_is_not_punished_and_does_not_overtake_for_ever(self, jobs: Rowcall) -> None:
        enqueue = declare(jobs, "A" * 20)
        seen = customers(jobs.claim("hand", limit=10))
        for customer in "BCDEFG":  # each is new, and each comes when A has waited for a turn
            enqueue(customer)
            seen += customers(jobs.claim("hand"))
        assert seen == "A" * 11 + "BACDA"
        enqueue("B")
        assert customers(jobs.claim("hand", limit=9)) == "EFGABAAAA"

    def test_priority_comes_before_fairness(self, jobs: Rowcall) -> None:
        @jobs.task(fair_by="customer")
        def send(customer: str) -> None: ...

        for customer, priority in (*[("A", 0)] * 3, ("B", 0), *[("A", 5)] * 3, ("B", 5)):
            send.using(priority=priority).enqueue(customer)
        first = jobs.claim("hand", limit=3)
        assert [(customers([job]), job.priority) for job in first] == [("A", 5), ("B", 5), ("A", 5)]
        assert customers(jobs.claim("hand", limit=9)) == "AABAA"

    def test_a_changed_priority_is_a_new_turn(self, jobs: Rowcall) -> None:
        enqueue = declare(jobs, "AAAA")
        last = enqueue("A")
        jobs.set_priority(last, 3)
        assert [job.id for job in jobs.claim("hand")] == [last.id]
        assert customers(jobs.claim("hand", limit=9)) == "AAAA"

    def test_a_changed_priority_that_is_the_turn_of_another_value_keeps_the_job_ready(self, jobs: Rowcall) -> None:
        first_of_b = declare(jobs, "AAA")("B")
        jobs.set_priority(first_of_b, 3)
        assert customers(jobs.claim("hand", limit=9)) == "BAAA"

    @pytest.mark.parametrize("weight", [{"A": 2}, lambda customer: 2 if customer == "A" else 1])
    def test_a_value_with_a_weight_has_more_jobs_in_a_turn(self, jobs: Rowcall, weight: object) -> None:
        declare(jobs, "AAAAAABBB", weight=weight)
        assert customers(jobs.claim("hand", limit=9)) == "AABAABAAB"

    def test_jobs_that_fall_due_together_take_turns(self, jobs: Rowcall, clock: FakeClock) -> None:
        enqueue = declare(jobs, "AAAABB", delay=60)
        clock.advance(61)
        assert sorted(customers(jobs.claim("hand", limit=4))) == ["A", "A", "B", "B"]
        enqueue("C")
        clock.advance(61)
        assert sorted(customers(jobs.claim("hand", limit=2))) == ["A", "C"]

    def test_retried_and_snoozed_jobs_take_new_turns(self, jobs: Rowcall, clock: FakeClock) -> None:
        enqueue = declare(jobs, "AAAA")
        for job in jobs.claim("hand", limit=4):
            jobs.fail(job, "UPSTREAM:DOWN", "")
        enqueue("BB")
        clock.advance(3600)
        assert sorted(customers(jobs.claim("hand", limit=4))) == ["A", "A", "B", "B"]

    def test_a_released_job_keeps_its_turn(self, jobs: Rowcall) -> None:
        declare(jobs, "AAB")
        (first,) = jobs.claim("hand")
        jobs.release(first)
        assert [job.id for job in jobs.claim("hand", limit=2)] == [first.id, first.id + 2]

    def test_unblocked_jobs_take_turns(self, jobs: Rowcall) -> None:
        @jobs.task(fair_by="customer")
        def send(customer: str) -> None: ...

        first = jobs.enqueue("work", queue="other")
        for customer in "AAAB":
            send.using(after=first).enqueue(customer)
        jobs.complete(*jobs.claim("hand", queues=["other"]))
        assert sorted(customers(jobs.claim("hand", limit=2))) == ["A", "B"]

    def test_a_queue_is_fair_between_its_tasks(self, jobs: Rowcall) -> None:
        jobs.fair_queue("mail", by="customer", weight={"C": 2})
        for task, customer in zip("11112222", "AAAAABCC", strict=True):
            jobs.enqueue(task, {"customer": customer}, queue="mail")
        jobs.enqueue("2", {"other": 1}, queue="mail")
        claimed = jobs.claim("hand", limit=9)
        assert "".join([str(job.payload.get("customer", "-")) for job in claimed]) == "ABCC-AAAA"

    def test_a_limit_holds_a_value_and_not_the_others(self, jobs: Rowcall) -> None:
        declare(jobs, "AAAABB", limit=Limit("send", concurrency=1, by="customer"))
        first = jobs.claim("hand", limit=9)
        assert customers(first) == "AB"
        jobs.complete(first[0])
        assert customers(jobs.claim("hand", limit=9)) == "A"

    def test_plain_sql_gives_the_value_in_a_column(self, jobs: Rowcall, store: Store) -> None:
        enqueue = declare(jobs, "AAA")
        store.execute(
            """INSERT INTO rowcall_job (type, payload, fair) VALUES ('send', '{"customer": "B"}', '["send","B"]')"""
        )
        assert customers(jobs.claim("hand", limit=2)) == "AB"
        enqueue("A")
        assert customers(jobs.claim("hand", limit=9)) == "AAA"

    def test_other_tasks_of_the_queue_come_in_between(self, jobs: Rowcall) -> None:
        enqueue = declare(jobs, "A")
        enqueue("A")  # apart, as a bulk may leave a gap in the ids behind it
        other = jobs.enqueue("other")
        enqueue("AAB")
        claimed = jobs.claim("hand", limit=9)
        assert [job.id for job in claimed].index(other.id) == 3
        assert "".join([str(job.payload.get("customer", "-")) for job in claimed]) == "ABA-AA"

    def test_new_arguments_are_a_new_turn(self, jobs: Rowcall) -> None:
        enqueue = declare(jobs, "AAA")
        edited = enqueue("A")
        jobs.edit(edited, {"customer": "B"})
        assert customers(jobs.claim("hand", limit=2)) == "AB"

    def test_handlers_may_snooze(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()
        snoozed: set[int] = set()

        @jobs.task(fair_by="customer", retry=lambda attempt, error: 0)
        def send(customer: int) -> int:
            if customer not in snoozed:
                snoozed.add(customer)
                raise Snooze(delay=0)
            if customer == 3:
                raise Fail("NOT:LUCKY", "")
            return customer

        written = send.enqueue_many([{"customer": number % 5} for number in range(20)])
        jobs.drain()
        assert {str(jobs.get(job.id).status) for job in written if job.payload["customer"] != 3} == {"succeeded"}


class TestUnfairInput:
    def test_an_argument_that_the_task_lacks_is_refused(self, jobs: Rowcall) -> None:
        for option in ("fair_by", "ordered_by"):
            with pytest.raises(InvalidOption, match=f"{option}.*'client' is not an argument of send"):

                @jobs.task(**{option: "client"})  # type: ignore[call-overload, untyped-decorator]
                def send(customer: str) -> None: ...

    def test_a_value_that_cannot_be_hashed_is_refused_and_nothing_is_written(self, jobs: Rowcall) -> None:
        @jobs.task(fair_by="customer")
        def send(customer: list[int] | int) -> None: ...

        @jobs.task(ordered_by="account")
        def post(account: dict[str, int]) -> None: ...

        for call in (
            lambda: post.enqueue({"a": 1}),
            lambda: send.enqueue([1]),
            lambda: send.enqueue_many([{"customer": 1}, {"customer": [1]}]),
            lambda: send.using(key="k").enqueue([1]),
        ):
            with pytest.raises(InvalidArguments, match="can be hashed"):
                call()
        assert not jobs.list().jobs

    def test_other_options_are_checked(self, jobs: Rowcall) -> None:
        for options, problem in (
            ({"weight": {"A": 2}}, "weight needs fair_by"),
            ({"on_failure": "block"}, "on_failure needs ordered_by"),
            ({"ordered_by": "customer", "on_failure": "retry"}, "skip or block"),
            ({"fair_by": "customer", "weight": 3}, "weights by value"),
            ({"fair_by": "customer", "weight": {"A": 0}}, "from 1 to 1000"),
            ({"fair_by": 7}, "name of an argument"),
        ):
            with pytest.raises(InvalidOption, match=problem):
                jobs.task(**options)(lambda customer: None)
        with pytest.raises(InvalidOption, match="name of an argument"):
            jobs.fair_queue("mail", by="")

        @jobs.task(fair_by="customer", weight=lambda customer: 0)
        def send(customer: str) -> None: ...

        with pytest.raises(InvalidOption, match="got 0 for customer='A' of send"):
            send.enqueue("A")
