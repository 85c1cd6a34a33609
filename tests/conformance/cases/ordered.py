"""Jobs that run one at a time for each value of an argument, in the order of their ids."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from rowcall import Fail, Job, Limit, Retry, Rowcall, Snooze
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.notes import Notes
from tests.conformance.store import Store

ACCOUNTS = int(os.environ.get("ROWCALL_TEST_ORDER_ACCOUNTS", "20"))
EACH = min(50, ACCOUNTS)
Enqueue = Callable[[str], list[Job]]


def declare(jobs: Rowcall, **options: object) -> Enqueue:
    """Return a function that enqueues a job for each letter, which is its account."""

    @jobs.task(ordered_by="account", **options)  # type: ignore[call-overload, untyped-decorator]
    def post(account: str) -> None: ...

    return lambda accounts: [post.enqueue(account) for account in accounts]


def ids(claimed: Sequence[Job]) -> list[int]:
    return [job.id for job in claimed]


def claim(jobs: Rowcall, limit: int = 9) -> list[Job]:
    return jobs.claim("hand", limit=limit)


class TestOrderedJobs:
    def test_the_next_job_of_a_value_starts_when_the_one_before_has_ended(self, jobs: Rowcall) -> None:
        one, two, other, three = declare(jobs)("AABA")
        first = claim(jobs)
        assert ids(first) == [one.id, other.id]
        assert not claim(jobs)
        jobs.complete(first[0])
        (second,) = claim(jobs)
        assert second.id == two.id
        jobs.complete(second)
        assert ids(claim(jobs)) == [three.id]

    def test_a_job_that_waits_for_its_retry_holds_its_value_back(self, jobs: Rowcall, clock: FakeClock) -> None:
        one, two = declare(jobs)("AA")
        jobs.fail(claim(jobs)[0], "UPSTREAM:DOWN", "")
        assert not claim(jobs)
        assert not claim(jobs)
        clock.advance(3600)
        (again,) = claim(jobs)
        assert again.id == one.id
        jobs.complete(again)
        assert ids(claim(jobs)) == [two.id]

    def test_a_failed_job_is_skipped_or_blocks_until_it_is_retried(self, jobs: Rowcall) -> None:
        skipping = declare(jobs, max_attempts=1)("AA")
        jobs.fail(claim(jobs)[0], "NOT:LUCKY", "")
        (second,) = claim(jobs)
        assert second.id == skipping[1].id
        jobs.complete(second)
        one, two = declare(jobs, name="block", max_attempts=1, on_failure="block")("AA")
        jobs.fail(claim(jobs)[0], "NOT:LUCKY", "")
        assert not claim(jobs)
        why = jobs.why(two)
        assert (why.reason, why.first) == ("order", one.id)
        assert "failed with NOT:LUCKY; retry or delete it" in why.sentence
        jobs.retry(one)
        jobs.complete(*claim(jobs))
        assert ids(claim(jobs)) == [two.id]

    @pytest.mark.parametrize("blocks", [False, True])
    def test_a_failed_or_waiting_job_that_is_deleted_lets_the_next_one_run(self, jobs: Rowcall, blocks: bool) -> None:
        one, two = declare(jobs, max_attempts=1, on_failure="block")("AA")
        if blocks:
            jobs.fail(claim(jobs)[0], "NOT:LUCKY", "")
        else:
            jobs.reschedule(one, delay=60)
        assert not claim(jobs)
        jobs.delete(one)
        assert ids(claim(jobs)) == [two.id]

    def test_a_waiting_job_that_is_cancelled_lets_the_next_one_run(self, jobs: Rowcall) -> None:
        one, two, three = declare(jobs)("AAA")
        jobs.reschedule(one, delay=60)
        assert not claim(jobs)
        jobs.cancel(one)
        (second,) = claim(jobs)
        assert second.id == two.id
        jobs.cancel(three)
        jobs.complete(second)
        assert not claim(jobs)

    def test_so_does_one_that_expires_or_falls_with_its_blocker(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(ordered_by="account")
        def post(account: str) -> None: ...

        post.using(delay=60, expires_in=30).enqueue("A")
        blocker = jobs.enqueue("other", queue="other", max_attempts=1)
        post.using(after=blocker).enqueue("B")
        last = [post.enqueue("A"), post.enqueue("B")]
        assert not jobs.claim("hand", limit=9, queues=["default"])
        clock.advance(31)
        jobs.fail(jobs.claim("hand", queues=["other"])[0], "NOT:LUCKY", "")
        assert ids(claim(jobs)) == ids(last)

    def test_priorities_and_delays_do_not_change_the_order(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(ordered_by="account")
        def post(account: str) -> None: ...

        one = post.using(delay=30).enqueue("A")
        two = post.using(priority=9).enqueue("A")
        three = post.enqueue("A")
        assert not claim(jobs)
        clock.advance(31)
        seen = []
        while claimed := claim(jobs):
            seen += ids(claimed)
            jobs.complete(*claimed)
        assert seen == ids([one, two, three])

    def test_a_retry_of_an_earlier_job_waits_for_the_one_that_runs_and_comes_next(self, jobs: Rowcall) -> None:
        one, two, three = declare(jobs, max_attempts=1)("AAA")
        jobs.fail(claim(jobs)[0], "NOT:LUCKY", "")
        (second,) = claim(jobs)
        jobs.retry(one)
        assert not claim(jobs)
        jobs.complete(second)
        (first,) = claim(jobs)
        assert (first.id, second.id) == (one.id, two.id)
        jobs.complete(first)
        assert ids(claim(jobs)) == [three.id]

    def test_released_snoozed_and_recovered_jobs_stay_first(self, jobs: Rowcall, clock: FakeClock) -> None:
        one, two = declare(jobs)("AA")
        jobs.release(*claim(jobs))
        (again,) = jobs.claim("hand", lease=10)
        assert again.id == one.id
        clock.advance(11)
        (recovered,) = claim(jobs)
        assert recovered.id == one.id
        jobs.complete(recovered)
        assert ids(claim(jobs)) == [two.id]

    def test_limits_apply_as_well(self, jobs: Rowcall) -> None:
        one, two, other = declare(jobs, limit=Limit("posts", concurrency=1))("AAB")
        (first,) = claim(jobs)
        jobs.complete(first)
        (second,) = claim(jobs)
        assert sorted([first.id, second.id]) in ([one.id, two.id], [one.id, other.id])
        jobs.complete(second)
        (third,) = claim(jobs)
        assert {first.id, second.id, third.id} == {one.id, two.id, other.id}

    def test_fair_and_ordered_at_once(self, jobs: Rowcall) -> None:
        @jobs.task(fair_by="customer", ordered_by="account")
        def post(customer: str, account: int) -> None: ...

        for customer, account in [("A", 1), ("A", 1), ("A", 2), ("B", 3)]:
            post.enqueue(customer, account)
        claimed = claim(jobs)
        assert [job.payload["account"] for job in claimed] == [1, 3, 2]
        jobs.complete(claimed[0])
        assert [job.payload["account"] for job in claim(jobs)] == [1]

    def test_plain_sql_and_other_programs_take_part(self, jobs: Rowcall, store: Store, clock: FakeClock) -> None:
        enqueue = declare(jobs)
        (one,) = enqueue("A")
        store.execute("""INSERT INTO rowcall_job (type, payload) VALUES ('post', '{"account": "A"}')""")
        (three,) = enqueue("A")
        clock.advance(1e9)  # by the clock of the database, it is due
        seen = []
        while claimed := claim(jobs):
            assert len(claimed) == 1
            seen += ids(claimed)
            jobs.complete(*claimed)
        assert seen == [one.id, one.id + 1, three.id]

    def test_all_names_of_a_task_share_its_order(self, jobs: Rowcall, open_queue: OpenQueue, clock: FakeClock) -> None:
        @jobs.task(name="new", aliases=["old", "older"], ordered_by="account")
        def post(account: str) -> None: ...

        programs = [jobs, open_queue(clock=clock), open_queue(clock=clock)]  # and two earlier versions of the program
        for name, program in zip(["old", "older"], programs[1:], strict=True):
            program.task(name=name, ordered_by="account")(lambda account: None)
        waiting = [
            program.enqueue(name, {"account": account})
            for program, name, account in [
                (programs[1], "old", "A"),
                (programs[0], "new", "A"),
                (programs[2], "older", "A"),
                (programs[1], "old", "B"),
                (programs[1], "old", "A"),
                (programs[0], "old", "A"),
                (programs[0], "new", "A"),
                (programs[2], "older", "A"),
            ]
        ]
        (first, other) = claim(jobs)
        assert [first.id, other.id] == [waiting[0].id, waiting[3].id]
        assert not claim(jobs)
        assert [jobs.why(job).first for job in waiting[1:3]] == [first.id, waiting[1].id]
        jobs.complete(first)
        (second,) = claim(jobs)
        jobs.fail(second, "UPSTREAM:DOWN")
        assert not claim(jobs)
        clock.advance(3600)
        jobs.complete(*claim(jobs))
        jobs.cancel(waiting[2])
        jobs.delete(waiting[4])
        seen = []
        while claimed := claim(jobs):
            seen += ids(claimed)
            jobs.complete(*claimed)
        assert seen == [waiting[5].id, waiting[6].id, waiting[7].id]

    def test_new_arguments_move_a_job_to_another_order(self, jobs: Rowcall) -> None:
        one, two, other, last = declare(jobs)("AABA")
        assert ids(claim(jobs)) == [one.id, other.id]
        jobs.edit(two, {"account": "C"})
        assert ids(claim(jobs)) == [two.id]
        assert jobs.why(last).first == one.id

    def test_why_and_the_timeline_name_the_job_that_comes_first(self, jobs: Rowcall, clock: FakeClock) -> None:
        one, two = declare(jobs)("AA")
        (running,) = claim(jobs)
        claim(jobs)
        assert (jobs.why(two).reason, jobs.why(two).first) == ("order", one.id)
        assert str(jobs.why(two)) == f'job {one.id} comes first, in order of post of "A": it is running'
        assert [event.detail for event in jobs.timeline(two.id) if event.event == "HELD"] == [
            'behind an earlier job of ["post","A"]'
        ]
        jobs.fail(running, "UPSTREAM:DOWN", "")
        assert f"job {one.id} comes first" in str(jobs.why(two))
        assert "it is scheduled until" in str(jobs.why(two))

    def test_workers_keep_the_order_through_failures_and_snoozes(self, open_queue: OpenQueue) -> None:
        jobs, second = open_queue(), open_queue()
        seen: dict[int, list[int]] = {}
        running: set[int] = set()
        lock = threading.Lock()

        def post(account: int, number: int) -> None:
            with lock:
                assert account not in running
                running.add(account)
                seen.setdefault(account, []).append(number)
                times = seen[account].count(number)
            try:
                if number % 5 == 1 and times == 1:
                    raise Snooze(delay=0.01)
                if number % 5 == 2 and times < 3:
                    raise Retry(delay=timedelta(milliseconds=10))
                if number % 5 == 3:
                    raise Fail("NOT:LUCKY", "")
            finally:
                with lock:
                    running.discard(account)

        tasks = [queue.task(ordered_by="account")(post) for queue in (jobs, second)]
        written = tasks[0].enqueue_many([{"account": one % 7, "number": one // 7} for one in range(70)])
        with jobs.worker(concurrency=4), second.worker(concurrency=4):
            eventually(lambda: not jobs.list(status=["pending", "scheduled", "running"], limit=1).jobs)
        assert all(numbers == sorted(numbers) and {*numbers} == {*range(10)} for numbers in seen.values())
        assert {str(jobs.get(job.id).status) for job in written} == {"succeeded", "failed"}


@pytest.mark.crash
class TestOrderStorm:
    def test_jobs_of_an_account_settle_in_order_through_failures_and_kills(
        self, open_queue: OpenQueue, start_program: StartProgram, notes: Notes
    ) -> None:
        jobs = open_queue()
        rows = [{"account": account, "number": number} for number in range(EACH) for account in range(ACCOUNTS)]

        @jobs.task(ordered_by="account", max_attempts=50)
        def posted(account: int, number: int) -> None: ...

        written = posted.enqueue_many(rows)
        workers = [start_program("work", "--concurrency", "8") for _ in range(2)]

        def ended() -> int:
            counts = jobs.stats().by_status
            return counts["succeeded"] + counts["failed"]

        for share in (0.2, 0.4, 0.6):
            eventually(lambda share=share: ended() >= share * len(rows), within=600, message="some progress")  # type: ignore[misc]
            workers.pop(0).kill()
            workers.append(start_program("work", "--concurrency", "8"))
        eventually(lambda: ended() == len(rows), within=600, message="all have ended")
        accounts = {job.id: job.payload["account"] for job in written}
        started: dict[object, list[int]] = {}
        for note in notes.read("started"):
            started.setdefault(accounts[note.job_id], []).append(note.job_id)
        assert all(ids == sorted(ids) for ids in started.values()), "a later job started before an earlier one ended"
        by_account: dict[object, list[int]] = {}
        for job_id, account in accounts.items():
            by_account.setdefault(account, []).append(job_id)
        for ids in by_account.values():
            ends = [one.finished_at for job_id in ids for one in jobs.attempts(job_id)]
            assert all(earlier <= later for earlier, later in pairwise(map(_known, ends)))


def _known(at: datetime | None) -> datetime:
    assert at is not None
    return at
