"""Retention: what is kept, for how long, and by whose rule."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from rowcall import LeaseLost, Retention, Rowcall, Status
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.operations.retention import delete_all, publish_rules
from rowcall.store.counts import questions
from rowcall.store.queries.counts import ONCE_EVERY
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store

DAY = timedelta(days=1)


def finish(jobs: Rowcall, kind: str, status: Status, *, queue: str = "default") -> int:
    job_id = jobs.enqueue(kind, queue=queue, tags=["red"], max_attempts=1).id
    if status is Status.CANCELLED:
        jobs.cancel(job_id)
        return job_id
    (job,) = jobs.claim("hand", queues=[queue])
    if status is Status.FAILED:
        jobs.fail(job, "A:B")
    else:
        jobs.complete(job)
    return job_id


def ids(jobs: Rowcall) -> list[int]:
    return sorted(job.id for job in jobs.list(limit=1000).jobs)


class TestRetention:
    def test_each_status_has_its_time(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        jobs = open_queue(clock=clock, retention=Retention(succeeded=DAY, failed=2 * DAY, cancelled=None))
        succeeded, failed, cancelled = (
            finish(jobs, "send", status) for status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)
        )
        waiting = jobs.enqueue("send").id
        clock.advance(DAY)
        assert jobs.prune().jobs == 0  # a day is over only after its last moment
        clock.advance(0.001)
        assert jobs.prune(dry_run=True).by_status == {"succeeded": 1, "failed": 0, "cancelled": 0}
        assert ids(jobs) == [succeeded, failed, cancelled, waiting]
        assert jobs.prune().by_status == {"succeeded": 1, "failed": 0, "cancelled": 0}
        assert ids(jobs) == [failed, cancelled, waiting]
        clock.advance(1000 * DAY)
        assert jobs.prune().jobs == 1
        assert ids(jobs) == [cancelled, waiting]
        assert jobs.stats().total == 2

    def test_of_very_many_prunable_jobs_some_are_counted(
        self, open_queue: OpenQueue, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = open_queue(clock=clock, retention=Retention(succeeded=DAY))
        for kind in ("first", "second", "third"):
            for _ in range(1 if kind == "first" else 3):
                finish(jobs, kind, Status.SUCCEEDED)
        clock.advance(2 * DAY)
        finish(jobs, "second", Status.SUCCEEDED)
        monkeypatch.setattr(questions, "MOST_PRUNABLE_COUNTED", 6)
        monkeypatch.setattr(questions, "FEWEST_PRUNABLE_COUNTED", 1)
        report = jobs.retention()
        # the first leaves its share to the others; of the third, all that are kept are prunable
        assert [(one.prunable, one.more_prunable) for one in report.kept] == [(1, False), (2, True), (3, False)]
        assert (report.prunable, report.more_prunable) == (6, True)
        assert jobs.prune(dry_run=True).jobs == 7

    def test_a_task_goes_before_its_queue_and_that_before_the_rest(
        self, open_queue: OpenQueue, clock: FakeClock
    ) -> None:
        rule = Retention(succeeded=3 * DAY, queues={"mail": Retention(succeeded=2 * DAY)})
        jobs = open_queue(clock=clock, retention=rule)

        @jobs.task(retention=Retention(succeeded=DAY))
        def quick() -> None: ...

        quick_one = finish(jobs, "quick", Status.SUCCEEDED, queue="mail")
        of_queue = finish(jobs, "send", Status.SUCCEEDED, queue="mail")
        common = finish(jobs, "send", Status.SUCCEEDED)
        keeps = {(kept.queue, kept.type): kept.keep for kept in jobs.retention().kept}
        assert keeps == {("mail", "quick"): 86_400, ("mail", "send"): 2 * 86_400, ("default", "send"): 3 * 86_400}
        for left in ([quick_one, of_queue, common], [of_queue, common], [common], []):
            jobs.prune()
            assert ids(jobs) == left
            clock.advance(DAY + timedelta(seconds=1))

    def test_a_process_that_does_not_know_a_task_keeps_to_its_rule(
        self, open_queue: OpenQueue, clock: FakeClock
    ) -> None:
        knows, stranger = open_queue(clock=clock), open_queue(clock=clock, retention=Retention(succeeded=60))

        @knows.task(retention=Retention(succeeded=None, failed=DAY))
        def audit() -> None: ...

        finish(knows, "audit", Status.SUCCEEDED)
        finish(knows, "audit", Status.FAILED)
        finish(knows, "send", Status.SUCCEEDED)
        publish_rules(queue_of(knows))
        publish_rules(queue_of(knows))
        clock.advance(7200)
        assert stranger.prune().by_status == {"succeeded": 1, "failed": 0, "cancelled": 0}
        assert {job.type for job in stranger.list().jobs} == {"audit"}
        clock.advance(DAY)
        assert stranger.prune().by_status == {"succeeded": 0, "failed": 1, "cancelled": 0}

    def test_a_process_without_rules_uses_the_rules_of_others(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        told = open_queue(clock=clock, retention=Retention(succeeded=60, queues={"mail": Retention(succeeded=None)}))
        other, elsewhere = open_queue(clock=clock), open_queue(clock=clock, retention=Retention(succeeded=DAY))
        finish(told, "send", Status.SUCCEEDED)
        assert [kept.keep for kept in other.retention().kept] == [30 * 86_400]
        publish_rules(queue_of(told))
        assert [kept.keep for kept in other.retention().kept] == [60]
        assert [kept.keep for kept in elsewhere.retention().kept] == [86_400]
        finish(told, "send", Status.SUCCEEDED, queue="mail")
        clock.advance(61)
        assert other.prune().jobs == 1
        assert [job.queue for job in other.list().jobs] == ["mail"]

    def test_all_that_belongs_to_a_job_goes_with_it(
        self, open_queue: OpenQueue, clock: FakeClock, store: Store
    ) -> None:
        jobs = open_queue(clock=clock, retention=Retention(succeeded=0))
        job_id = finish(jobs, "send", Status.SUCCEEDED)
        jobs.retry(job_id)  # an attempt, and an event
        jobs.complete(jobs.claim("hand")[0])
        for table in ("attempt", "event", "job_tag"):
            assert store.execute(f"select count(*) from rowcall_{table}") == [(1,)]
        clock.advance(1)
        assert jobs.prune().jobs == 1
        for table in ("attempt", "event", "job_tag"):
            assert store.execute(f"select count(*) from rowcall_{table}") == [(0,)]

    def test_many_may_prune_at_once(self, open_queue: OpenQueue, clock: FakeClock, store: Store) -> None:
        queues = [open_queue(clock=clock, retention=Retention(succeeded=0)) for _ in range(3)]
        queues[0].migrate()
        values = ", ".join(["('old', 'succeeded')"] * 500)
        for _ in range(3):
            store.execute(f"insert into rowcall_job (type, status) values {values}")
        kept = queues[0].enqueue("send").id
        clock.advance(1)
        with ThreadPoolExecutor(len(queues)) as threads:
            pruned = [threads.submit(jobs.prune) for jobs in queues]
            assert sum(future.result().jobs for future in pruned) == 1500
        assert ids(queues[0]) == [kept]
        assert queues[0].stats().total == 1

    def test_a_duty_is_given_to_one_at_a_time(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        first, second = open_queue(clock=clock), open_queue(clock=clock)

        def taken(jobs: Rowcall, duty: str = "clean up") -> bool:
            return bool(queue_of(jobs).run(Write(lambda: queue_of(jobs).dialect.ask(ONCE_EVERY, duty, 20_000))))

        assert [taken(first), taken(second), taken(first)] == [True, False, False]
        assert taken(second, "dust")
        clock.advance(19.999)
        assert not taken(second)
        clock.advance(0.001)
        assert [taken(second), taken(first)] == [True, False]
        clock.jump(-3600)  # no one has done it in the future
        assert [taken(first), taken(second)] == [True, False]


class TestClear:
    def test_nothing_is_left(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        jobs = open_queue(clock=clock)
        for status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED):
            finish(jobs, "send", status)
        first = jobs.enqueue("send", {"text": "x" * 300_000}, key="a")
        jobs.enqueue("send", after=[first])
        (running,) = jobs.claim("hand")
        jobs.add_schedule("hourly", "send", every=3600)
        jobs.pause("mail")
        jobs.clear()
        assert (jobs.list().jobs, jobs.schedules(), jobs.paused(), jobs.stats().total) == ([], [], [], 0)
        with pytest.raises(LeaseLost):
            jobs.complete(running)
        again = jobs.enqueue("send", key="a")
        assert not again.duplicate
        assert again.id > first.id
        assert [job.id for job in jobs.claim("hand", limit=5)] == [again.id]

    def test_ids_can_start_again_where_no_worker_knows_them(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()
        jobs.enqueue("send")
        queue_of(jobs).run(delete_all(queue_of(jobs), restart_ids=True))
        assert jobs.enqueue("send").id == 1
