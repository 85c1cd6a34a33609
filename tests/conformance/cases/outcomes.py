"""What follows the end of a job: handlers that are enqueued with it, and observers."""

from __future__ import annotations

import itertools
import logging
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable

import pytest

from rowcall import Context, Fail, Job, JobOutcome, Rowcall, Snooze, Status, TaskDefaults
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.cases.plain_sql import UNREADABLE
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.notes import Notes
from tests.conformance.store import Store
from tests.conformance.worker_parts import StoreWorker, checking, watcher

Way = Callable[["Handled"], Job]


class Handled:
    """A queue with a task whose ends are handled, and one whose jobs were enqueued by a process that knows no task."""

    def __init__(self, jobs: Rowcall, elsewhere: Rowcall, clock: FakeClock, store: Store) -> None:
        self.jobs, self.elsewhere, self.clock, self.store = jobs, elsewhere, clock, store
        self.seen: list[JobOutcome] = []

        @jobs.task(max_attempts=1)
        def work(ctx: Context, number: int) -> int:
            if number < 0:
                raise ValueError(f"{number} is negative")
            return number * 2

        self.work = work

        @work.on_failure(queue="ops", priority=7, max_attempts=3)
        def failed(job: JobOutcome) -> None:
            self.seen.append(job)

        @work.on_success
        async def succeeded(job: JobOutcome) -> None:
            self.seen.append(job)

    def handlers(self, task: str = "failed") -> list[Job]:
        return self.jobs.list(type=task, order="oldest").jobs


def _raise(handled: Handled) -> Job:
    job = handled.work.enqueue(-1)
    handled.jobs.drain()
    return job


def _raise_enqueued_elsewhere(handled: Handled) -> Job:
    job = handled.elsewhere.enqueue("work", {"number": -1}, max_attempts=1)
    handled.jobs.drain()
    return job


def _fail_by_hand(handled: Handled) -> Job:
    job = handled.work.enqueue(-1)
    (claimed,) = handled.elsewhere.claim("hand")
    handled.elsewhere.fail(claimed, "A:B", "by hand")
    return job


def _fail_in_a_transaction(handled: Handled) -> Job:
    job = handled.elsewhere.enqueue("work", {"number": 1}, max_attempts=1)
    (claimed,) = handled.jobs.claim("hand")
    with handled.jobs.transaction() as transaction:
        handled.jobs.fail(claimed, ValueError("no"), connection=transaction)
    return job


def _lose_the_worker(handled: Handled) -> Job:
    job = handled.elsewhere.enqueue("work", {"number": 1}, max_attempts=1)
    StoreWorker(handled.elsewhere, "doomed").start_one()
    others = watcher(handled.jobs)
    others.check()
    handled.clock.advance(15)
    assert others.check() == 1
    return job


def _let_the_lease_expire(handled: Handled) -> Job:
    job = handled.work.enqueue(1)
    assert handled.elsewhere.dequeue("hand", lease=10) is not None
    handled.clock.advance(11)
    assert handled.elsewhere.dequeue("other", queues=["default"]) is None
    return job


def _fail_what_it_waits_for(handled: Handled) -> Job:
    blocker = handled.elsewhere.enqueue("blocker", max_attempts=1)
    job = handled.work.using(after=blocker).enqueue(1)
    (claimed,) = handled.elsewhere.claim("hand")
    handled.elsewhere.fail(claimed, "A:B")
    return job


def _enqueue_wrong_arguments(handled: Handled) -> Job:
    job = handled.elsewhere.enqueue("work", {"other": 1}, max_attempts=1)
    handled.jobs.drain()
    check = checking(handled.jobs, handled.clock)
    check(0)
    check(600)
    return job


def _write_an_unreadable_row(handled: Handled) -> Job:
    job = handled.work.enqueue(1)
    handled.store.execute(f"update rowcall_job set retry = '{UNREADABLE['retry']}' where id = {job.id}")
    handled.jobs.drain()
    return job


class TestOutcomes:
    @pytest.fixture
    def handled(self, jobs: Rowcall, open_queue: OpenQueue, clock: FakeClock, store: Store) -> Handled:
        return Handled(jobs, open_queue(clock=clock), clock, store)

    @pytest.mark.parametrize(
        "way",
        [
            _raise,
            _raise_enqueued_elsewhere,
            _fail_by_hand,
            _fail_in_a_transaction,
            _lose_the_worker,
            _let_the_lease_expire,
            _fail_what_it_waits_for,
            _enqueue_wrong_arguments,
            _write_an_unreadable_row,
        ],
    )
    def test_each_way_to_fail_is_followed_by_one_handler(self, handled: Handled, way: Way) -> None:
        job = handled.jobs.get(way(handled))
        (handler,) = handled.handlers()
        assert (job.status, handler.queue, handler.priority, handler.max_attempts) == (Status.FAILED, "ops", 7, 3)
        handled.jobs.drain()
        (seen,) = handled.seen
        known = (seen.id, seen.type, seen.queue, seen.event, seen.attempt, seen.error_code, seen.error_detail)
        assert known == (job.id, "work", "default", "failed", job.attempt, job.error_code, job.error_detail)
        assert seen.arguments == job.payload
        assert handled.handlers("succeeded") == []

    def test_only_the_last_attempt_is_followed_and_a_rerun_again(self, handled: Handled) -> None:
        job = handled.work.using(max_attempts=2).enqueue(-1)
        handled.jobs.drain()
        assert (handled.jobs.get(job).attempt, handled.handlers()) == (1, [])
        handled.clock.advance(3600)
        handled.jobs.drain()
        assert [one.attempt for one in handled.seen] == [2]
        handled.jobs.retry(job)
        handled.jobs.drain()
        assert [one.id for one in handled.seen] == [job.id, job.id]

    def test_a_success_is_followed_with_its_result(self, handled: Handled) -> None:
        done = handled.work.enqueue(21)
        by_hand = handled.elsewhere.enqueue("work", {"number": 5}, priority=9)
        (claimed,) = handled.jobs.claim("hand")
        handled.jobs.complete(claimed, 7)
        handled.jobs.drain()
        assert {(one.id, one.result) for one in handled.seen} == {(done.id, 42), (by_hand.id, 7)}

    def test_a_completion_that_is_rolled_back_is_not_followed(self, handled: Handled) -> None:
        jobs = handled.jobs

        @jobs.task(max_attempts=1)
        def complete(ctx: Context, commit: bool) -> None:
            with jobs.transaction() as transaction:
                ctx.complete("well", connection=transaction)
                if not commit:
                    raise ValueError("rolled back")

        complete.on_success(_task(jobs, handled, "completed"))
        complete.enqueue(True)
        complete.enqueue(False)
        jobs.drain()
        assert [(one.event, one.result, one.arguments) for one in handled.seen] == [
            ("succeeded", "well", {"commit": True})
        ]

    def test_cancelled_jobs_are_followed_only_if_that_is_asked(self, handled: Handled) -> None:
        jobs = handled.jobs

        @jobs.task
        def other() -> None: ...

        @other.on_failure(cancelled=True)
        def ended(job: JobOutcome) -> None:
            handled.seen.append(job)

        jobs.cancel(handled.work.enqueue(1))
        jobs.cancel(other.enqueue(), reason="not needed")
        other.using(expires_in=5).enqueue()
        handled.clock.advance(6)
        jobs.drain()
        assert handled.handlers() == []
        assert sorted((one.event, one.error_code) for one in handled.seen) == [
            ("cancelled", "CANCELLED:BY_HAND"),
            ("cancelled", "EXPIRED:NOT_STARTED"),
        ]

    def test_the_app_and_a_queue_have_a_handler_for_tasks_without_one(
        self, open_queue: OpenQueue, store: Store, clock: FakeClock
    ) -> None:
        queues = {"mail": TaskDefaults(on_failure="mail_failed")}
        defaults = TaskDefaults(max_attempts=1, on_failure="dead_letter", queues=queues)
        with Rowcall(store.url, clock=clock, defaults=defaults) as jobs:
            seen: list[tuple[str, int]] = []

            @jobs.task
            def fails() -> None:
                raise ValueError

            @jobs.task
            def dead_letter(job: JobOutcome) -> None:
                seen.append(("dead_letter", job.id))
                raise ValueError("a handler that fails is not its own follow-up")

            @jobs.task
            def mail_failed(job: JobOutcome) -> None:
                seen.append(("mail_failed", job.id))

            ids = fails.enqueue().id, fails.using(queue="mail").enqueue().id
            unknown = open_queue(clock=clock).enqueue("unknown")
            jobs.drain()
            assert sorted(seen) == [("dead_letter", ids[0]), ("mail_failed", ids[1])]
            check = checking(jobs, clock)
            check(0)
            check(600)
            assert jobs.get(unknown).status is Status.FAILED
            jobs.drain()
            assert seen[2:] == [("dead_letter", unknown.id)]

    def test_a_handler_of_a_large_payload_gets_it_after_the_job_was_deleted(self, handled: Handled) -> None:
        jobs = handled.jobs

        @jobs.task(max_attempts=1)
        def large(text: str) -> None:
            raise Fail("A:B", text[:5])

        large.on_failure(_task(jobs, handled, "large_failed"))
        job = large.enqueue("x" * 400_000)
        (claimed,) = jobs.claim("hand")
        jobs.fail(claimed, "A:B")
        jobs.delete(job)
        assert jobs.drain().succeeded == 1
        assert [len(str(one.arguments["text"])) for one in handled.seen] == [400_000]

    def test_garbage_in_the_row_is_not_followed_and_harms_no_other(self, handled: Handled, store: Store) -> None:
        values = ["1", '"x"', "[]", '{"failed": 1}', '{"failed": {"type": 1}}', '{"failed": {"type": "a", "queue": 7}}']
        ids = [handled.work.enqueue(-1).id for _ in range(len(values) + 1)]
        for job_id, value in zip(ids, values, strict=False):
            store.execute(f"update rowcall_job set on_end = '{value}' where id = {job_id}")
        assert handled.jobs.drain().failed == len(ids)
        assert [one.id for one in handled.seen] == [ids[-1]]

    def test_what_plain_sql_ends_is_not_followed(self, handled: Handled, store: Store) -> None:
        job = handled.work.enqueue(1)
        store.execute(f"update rowcall_job set status = 'failed', error_code = 'A:B' where id = {job.id}")
        handled.jobs.drain()
        assert handled.seen == []

    def test_observers_are_called_after_the_commit(self, handled: Handled, caplog: pytest.LogCaptureFixture) -> None:
        jobs, clock = handled.jobs, handled.clock
        seen: list[tuple[str, Status, object]] = []

        errors = itertools.cycle([KeyError, SystemExit, KeyboardInterrupt, CancelledError, GeneratorExit])

        def broken(job: JobOutcome) -> None:
            raise next(errors)

        @jobs.on("succeeded")
        def observe(job: JobOutcome) -> None:
            seen.append((job.event, jobs.get(job.id).status, job.result))

        for event in ("failed", "retried", "snoozed", "cancelled", "recovered"):
            for function in (*[broken] * 5, observe):
                jobs.on(event, function)

        @jobs.task
        def snooze(ctx: Context) -> None:
            raise Snooze(delay=60)

        handled.work.enqueue(1)
        handled.work.enqueue(-1)
        handled.work.using(max_attempts=2).enqueue(-1)
        snooze.enqueue()
        with caplog.at_level(logging.ERROR):
            jobs.drain()
        assert Counter(seen) == Counter(
            {
                ("succeeded", Status.SUCCEEDED, 2): 1,
                ("succeeded", Status.SUCCEEDED, None): 2,  # the handlers
                ("failed", Status.FAILED, None): 1,
                ("retried", Status.SCHEDULED, None): 1,
                ("snoozed", Status.SCHEDULED, None): 1,
            }
        )
        assert caplog.text.count("broken failed") == 3 * 5
        seen.clear()
        handled.work.using(max_attempts=2, priority=9).enqueue(1)
        StoreWorker(jobs, "doomed").start_one()
        others = watcher(jobs)
        others.check()
        clock.advance(15)
        others.check()
        assert seen == [("recovered", Status.PENDING, None)]


def _task(jobs: Rowcall, handled: Handled, name: str) -> Callable[[JobOutcome], None]:
    @jobs.task(name=name)
    def handler(job: JobOutcome) -> None:
        handled.seen.append(job)

    return handler


@pytest.mark.crash
class TestOutcomesOfKilledWorkers:
    COUNT = 300

    def test_each_end_has_exactly_one_handler(
        self, open_queue: OpenQueue, start_program: StartProgram, notes: Notes
    ) -> None:
        jobs = open_queue()
        with jobs.transaction():
            for number in range(self.COUNT):
                jobs.enqueue("fragile", {"number": number}, max_attempts=2)
        workers = [start_program("work", "--concurrency", "8") for _ in range(2)]
        for share in (0.2, 0.4, 0.6):
            eventually(lambda share=share: _ended(jobs) >= share * self.COUNT, message="some progress")  # type: ignore[misc]
            workers.pop(0).kill()
            workers.append(start_program("work", "--concurrency", "8"))
        eventually(lambda: _ended(jobs) == self.COUNT, message="all ended")
        ends = {job.id: str(job.status) for job in jobs.list(type="fragile", limit=500).jobs}
        handlers = [*jobs.list(type="fragile_ended", limit=500).jobs]
        followed = [JobOutcome(**job.payload["job"]) for job in handlers]  # type: ignore[arg-type]
        assert len(ends) == len(handlers) == self.COUNT
        assert {one.id: one.event for one in followed} == ends
        assert set(ends.values()) == {"succeeded", "failed"}


def _ended(jobs: Rowcall) -> int:
    by_type = jobs.stats().by_type.get("fragile", {})
    return by_type.get("succeeded", 0) + by_type.get("failed", 0)
