"""Two versions of the code side by side: a job whose arguments do not fit one worker waits for another one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta

import pytest

from rowcall import Backoff, Context, Job, JobFailed, Limit, Rowcall, Status
from rowcall.app import queue_of
from rowcall.domain import config
from rowcall.domain.outcome import Mismatched
from rowcall.operations.effects import Write
from rowcall.store.ends import waiting
from rowcall.store.ends.waiting import fail_unknown
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from rowcall.worker.upkeep import unknown_tasks
from tests.conformance.counted import statements_of
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store, check_ready
from tests.conformance.worker_parts import StoreWorker, checking

CODE = "INVALID_INPUT:SCHEMA_MISMATCH"


class Versions:
    """The same task as two versions of the code declare it, each with a separate `Rowcall`."""

    def __init__(self, old: Rowcall, new: Rowcall) -> None:
        self.old, self.new = old, new
        self.greeted: list[str] = []

        @old.task(name="greet")
        def greet(name: str) -> None:
            self.greeted.append(name)

        @new.task(name="greet")
        def greet_loudly(name: str, loud: bool = False) -> None:
            self.greeted.append(name.upper() if loud else name)

        self.greet = greet_loudly

    @property
    def old_fingerprint(self) -> str:
        return queue_of(self.old).declared.tasks["greet"].arguments.fingerprint

    @property
    def new_fingerprint(self) -> str:
        return queue_of(self.new).declared.tasks["greet"].arguments.fingerprint

    def refused(self, name: str = "ann") -> int:
        """The id of a job that the old version has refused."""
        job_id = self.greet.enqueue(name, loud=True).id
        assert self.old.drain().released == 1
        return job_id


class TestMismatches:
    @pytest.fixture
    def versions(self, open_queue: OpenQueue, clock: FakeClock) -> Versions:
        return Versions(open_queue(clock=clock), open_queue(clock=clock))

    @pytest.fixture
    def live(self, open_queue: OpenQueue) -> Versions:
        """By the machine's clock."""
        return Versions(open_queue(), open_queue())

    @pytest.fixture
    def check(self, versions: Versions, clock: FakeClock) -> Callable[[float], None]:
        return checking(versions.old, clock)

    def test_it_is_left_for_a_worker_that_fits(self, versions: Versions) -> None:
        job_id = versions.refused()
        waiting = versions.old.get(job_id)
        assert (waiting.status, waiting.attempt, waiting.error_code) == ("pending", 0, CODE)
        assert "unexpected argument 'loud'" in (waiting.error_detail or "")
        assert versions.new.drain().succeeded == 1
        done = versions.new.get(job_id)
        assert (done.status, done.attempt, done.error_code) == ("succeeded", 1, None)
        assert versions.greeted == ["ANN"]

    def test_others_of_the_task_run_on(self, versions: Versions) -> None:
        versions.refused()
        versions.greet.enqueue("bob")
        assert versions.old.drain().succeeded == 1
        assert versions.greeted == ["bob"]

    def test_who_does_not_fit_tries_it_once(self, versions: Versions) -> None:
        job_id = versions.refused()
        for _ in range(3):
            assert versions.old.drain().total == 0
        assert [attempt.status for attempt in versions.old.attempts(job_id)] == ["released"]

    def test_it_fails_when_no_worker_that_fits_has_come_in_time(
        self, versions: Versions, clock: FakeClock, check: Callable[[float], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        job_id = versions.refused()
        check(0)
        check(550)
        assert versions.old.drain().total == 0
        assert versions.old.get(job_id).status is Status.PENDING
        check(50)
        failed = versions.old.get(job_id)
        assert (failed.status, failed.error_code, failed.attempt) == ("failed", CODE, 0)
        assert failed.finished_at == clock.now()
        assert "unexpected argument 'loud'" in (failed.error_detail or "")
        assert (failed.error_detail or "").endswith("; no worker that fits claimed the job in time")
        assert "failed 1 job in queue 'default': no worker whose version of the task 'greet'" in caplog.text
        by_status = versions.old.stats().by_status
        assert (by_status["failed"], by_status.get("pending", 0)) == (1, 0)
        assert [(group.error_code, group.count) for group in versions.old.top_errors()] == [(CODE, 1)]

    def test_any_worker_fails_it_even_one_that_does_not_know_the_task(
        self, versions: Versions, open_queue: OpenQueue, clock: FakeClock
    ) -> None:
        job_id, check = versions.refused(), checking(open_queue(clock=clock), clock)
        check(0)
        check(600)
        assert versions.old.get(job_id).status is Status.FAILED

    def test_each_one_waits_for_the_time_from_its_own_refusal(
        self, versions: Versions, check: Callable[[float], None]
    ) -> None:
        first, late = versions.refused(), versions.greet.enqueue("bob", loud=True).id
        check(0)
        check(300)
        assert versions.old.drain().released == 1
        check(300)
        assert [versions.old.get(job_id).status for job_id in (first, late)] == ["failed", "pending"]
        check(300)
        assert versions.old.get(late).status is Status.FAILED

    def test_it_does_not_fail_because_others_of_its_task_succeed(
        self, versions: Versions, check: Callable[[float], None]
    ) -> None:
        job_id = versions.refused()
        check(0)
        for _ in range(6):
            versions.greet.enqueue("bob")
            assert versions.old.drain().succeeded == 1
            check(100)
        assert versions.old.get(job_id).status is Status.FAILED

    def test_a_worker_that_fits_and_comes_late_still_runs_it(self, versions: Versions, clock: FakeClock) -> None:
        job_id = versions.refused()
        clock.advance(601)
        assert versions.new.drain().succeeded == 1
        assert versions.new.get(job_id).status is Status.SUCCEEDED

    def test_its_time_continues_while_a_worker_that_fits_is_there(
        self, versions: Versions, check: Callable[[float], None], store: Store
    ) -> None:
        job_id = versions.refused()
        check(0)
        for fingerprint in (versions.old_fingerprint, versions.new_fingerprint):
            StoreWorker(versions.new, fingerprint, tasks={"greet": fingerprint})
        check(1200)
        store.execute(f"delete from rowcall_worker where name = '{versions.new_fingerprint}'")
        check(550)
        assert versions.old.get(job_id).status is Status.PENDING
        check(100)
        assert versions.old.get(job_id).status is Status.FAILED

    def test_its_time_begins_again_after_a_retry_an_attempt_or_a_new_run_at(
        self, versions: Versions, check: Callable[[float], None]
    ) -> None:
        @versions.new.task(name="break", max_attempts=1)
        def break_(name: str, loud: bool = False) -> None:
            raise ValueError(name)

        @versions.old.task(name="break")
        def break_old(name: str) -> None: ...

        jobs = versions.old
        retried = break_.enqueue("ann", loud=True)
        failed = break_.using(max_attempts=2, retry=Backoff.constant(300)).enqueue("bob", loud=True)
        assert jobs.drain().released == 2
        summary = versions.new.drain()
        assert (summary.failed, summary.retried) == (1, 1)
        rescheduled = versions.refused()
        replaced = versions.greet.using(key="once", on_duplicate="replace").enqueue("cid", loud=True)
        assert jobs.drain().released == 1
        jobs.reschedule(rescheduled, delay=300)
        check(0)
        check(300)
        jobs.retry(retried.id)
        versions.greet.using(key="once", on_duplicate="replace").enqueue("dan", loud=True)
        assert jobs.drain().released == 3  # the version that refused the job that failed is not asked again
        ids = (retried.id, failed.id, rescheduled, replaced.id)
        check(550)
        assert [jobs.get(job_id).status for job_id in ids] == ["pending"] * 4
        check(100)
        assert [jobs.get(job_id).status for job_id in ids] == ["failed"] * 4

    def test_without_a_grace_period_it_fails_at_once(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        versions = Versions(open_queue(clock=clock, mismatch_grace=0), open_queue(clock=clock))
        job_id = versions.greet.enqueue("ann", loud=True).id
        assert versions.old.drain().failed == 1
        failed = versions.old.get(job_id)
        assert (failed.status, failed.attempt, failed.error_code) == ("failed", 1, CODE)

    def test_what_is_no_object_fits_no_worker(self, versions: Versions, store: Store) -> None:
        job_id = versions.greet.enqueue("ann").id
        store.execute("update rowcall_job set payload = '[1]'")
        assert versions.old.drain().failed == 1
        assert versions.old.get(job_id).error_code == CODE

    def test_the_timeline_says_who_refused_it_and_why(self, versions: Versions, check: Callable[[float], None]) -> None:
        job_id = versions.refused()
        timeline = versions.old.timeline(job_id)
        assert [event.event for event in timeline] == ["ENQUEUED", "CLAIMED", "RELEASED", "HELD"]
        (attempt,) = versions.old.attempts(job_id)
        assert (timeline[2].actor, attempt.started_at) == (attempt.worker, None)
        assert "unexpected argument 'loud'" in (timeline[2].detail or "")
        assert timeline[3].detail == "until a worker comes that the arguments fit"
        check(0)
        check(600)
        assert [event.event for event in versions.old.timeline(job_id)][2:] == ["RELEASED", "FAILED"]
        versions.old.retry(job_id)
        assert versions.new.drain().succeeded == 1
        events = [event.event for event in versions.old.timeline(job_id)]
        assert events[3:] == ["FAILED", "MANUAL_RETRY", "CLAIMED", "STARTED", "SUCCEEDED"]

    def test_what_can_be_done_to_a_waiting_job(self, versions: Versions, clock: FakeClock) -> None:
        jobs = versions.old
        cancelled, deleted, rescheduled, first = (versions.refused(name) for name in "abcd")
        assert jobs.cancel(cancelled).status is Status.CANCELLED
        jobs.delete(deleted)
        jobs.set_priority(first, 7)
        jobs.reschedule(rescheduled, delay=60)
        assert versions.new.drain().succeeded == 1
        clock.advance(60)
        assert versions.old.drain().released == 1
        assert versions.new.drain().succeeded == 1
        assert versions.greeted == ["D", "C"]

    def test_it_keeps_its_key(self, versions: Versions) -> None:
        greet = versions.greet.using(key="once")
        first = greet.enqueue("ann", loud=True)
        versions.old.drain()
        assert greet.enqueue("ann", loud=True).id == first.id
        assert versions.new.drain().succeeded == 1
        assert greet.enqueue("ann", loud=True).id != first.id

    def test_it_expires_as_it_has_not_started(self, versions: Versions, clock: FakeClock) -> None:
        job_id = versions.greet.using(expires_in=60).enqueue("ann", loud=True).id
        versions.old.drain()
        clock.advance(61)
        versions.old.drain()
        assert versions.old.get(job_id).error_code == "EXPIRED:NOT_STARTED"

    def test_a_chain_continues_from_it(self, versions: Versions) -> None:
        def first() -> None: ...

        def last() -> None: ...

        versions.old.task(first)
        steps = [versions.new.task(first).bind(), versions.greet.bind("ann", loud=True), versions.new.task(last).bind()]
        chain_id = versions.new.start_chain(steps).id
        summary = versions.old.drain()
        assert (summary.succeeded, summary.released) == (1, 1)
        assert versions.old.chain(chain_id).status is Status.PENDING
        assert versions.new.drain().succeeded == 2
        assert versions.greeted == ["ANN"]
        assert versions.new.chain(chain_id).status is Status.SUCCEEDED

    def test_what_waits_for_it_fails_with_it(self, versions: Versions, check: Callable[[float], None]) -> None:
        job_id = versions.refused()
        after = versions.greet.using(after=job_id).enqueue("bob").id
        check(0)
        check(600)
        assert versions.old.get(after).error_code == "BLOCKER:FAILED"
        with pytest.raises(JobFailed, match="unexpected argument 'loud'"):
            versions.old.result(versions.old.get(job_id), timeout=5)

    def test_one_of_a_batch_waits_alone(self, open_queue: OpenQueue, clock: FakeClock, store: Store) -> None:
        jobs, calls = open_queue(clock=clock), list[object]()

        @jobs.task(batch=3)
        def take(items: list[int]) -> None:
            calls.append(items)

        made = [take.enqueue(number) for number in range(3)]
        store.execute(f'update rowcall_job set payload = \'{{"item": "one"}}\' where id = {made[1].id}')
        summary = jobs.drain()
        assert (summary.succeeded, summary.released, calls) == (2, 1, [[0, 2]])
        newer = open_queue(clock=clock)

        @newer.task(name="take", batch=3)
        def take_any(items: list[int | str]) -> None:
            calls.append(items)

        assert newer.drain().succeeded == 1
        assert calls[1:] == [["one"]]

    def test_its_slot_under_a_limit_is_freed_and_used_again(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        old, new, done = open_queue(clock=clock), open_queue(clock=clock), list[str]()
        limit = Limit("one", concurrency=1)

        @old.task(name="greet", limit=limit)
        def greet(name: str) -> None:
            done.append(name)

        @new.task(name="greet", limit=limit)
        def greet_loudly(name: str, loud: bool = False) -> None:
            done.append(name.upper() if loud else name)

        for name in ("ann", "bob"):
            greet_loudly.enqueue(name, loud=True)
        greet.enqueue("cid")
        summary = old.drain()
        assert (summary.released, summary.succeeded) == (2, 1)
        assert new.drain().succeeded == 2
        assert done == ["cid", "ANN", "BOB"]

    def test_a_drain_takes_it_when_a_handler_past_its_timeout_ends(self, open_queue: OpenQueue) -> None:
        def outlast(ctx: Context) -> None:
            eventually(lambda: ctx.cancelled)

        self._drain_behind(open_queue(), open_queue(), outlast)

    def test_a_drain_takes_it_when_a_handler_has_completed_its_job(self, open_queue: OpenQueue) -> None:
        new = open_queue()

        def complete(ctx: Context) -> None:
            with new.transaction() as transaction:
                ctx.complete(connection=transaction)

        self._drain_behind(open_queue(), new, complete)

    def _drain_behind(self, old: Rowcall, new: Rowcall, act: Callable[[Context], None]) -> None:
        """Drain while the slot of a refused job under its limit is taken by a handler that does this."""
        limit = Limit("one", concurrency=1)

        @old.task(name="greet", limit=limit)
        def greet(name: str) -> None: ...

        @new.task(name="greet", limit=limit)
        def greet_loudly(name: str, loud: bool = False) -> None: ...

        @new.task(limit=limit, priority=1, timeout=0.2, max_attempts=1)
        def before(ctx: Context) -> None:
            act(ctx)

        job_id = greet_loudly.enqueue("ann", loud=True).id
        assert old.drain().released == 1
        before.enqueue()
        assert new.drain().total == 2
        assert new.get(job_id).status is Status.SUCCEEDED

    def test_higher_priorities_still_come_first(self, versions: Versions) -> None:
        for name, priority in (("low", 1), ("high", 9)):
            versions.greet.using(priority=priority).enqueue(name, loud=True)
        versions.old.drain()
        for name, priority in (("lowest", 0), ("middle", 5), ("highest", 10)):
            versions.greet.using(priority=priority).enqueue(name)
        versions.new.drain(concurrency=1)
        assert versions.greeted == ["highest", "HIGH", "middle", "LOW", "lowest"]

    def test_a_round_of_a_version_that_refused_them_does_not_read_them(self, versions: Versions) -> None:
        for name in "abc":
            versions.refused(name)
        old, new = (
            StoreWorker(versions.old, fingerprint, tasks={"greet": fingerprint})
            for fingerprint in (versions.old_fingerprint, versions.new_fingerprint)
        )
        with statements_of(versions.old) as statements:
            assert old.claim(slots=5, buffer=5).jobs == []
        assert not [sql for sql in statements if "priority" in sql]  # as in each text that reads ready jobs
        with statements_of(versions.old) as statements:
            assert [ready.type for ready in new.claim(slots=2, buffer=1).jobs] == ["greet"] * 3
        assert [sql for sql in statements if "priority" in sql]

    def test_each_version_is_listed_once_and_the_latest_are_kept(self, versions: Versions, store: Store) -> None:
        job = versions.greet.enqueue("ann", loud=True)
        worker = StoreWorker(versions.new, "many versions")
        for number in range(22):
            for _ in range(2):
                assert worker.settle(worker.start_one(), Mismatched("no", f"{number:08}"))
        ((listed,),) = store.execute(f"select unfit from rowcall_job where id = {job.id}")
        assert str(listed).split(",") == [f"{number:08}" for number in range(21, 1, -1)]
        check_ready(store)

    def test_an_edit_lets_every_version_try_again(self, versions: Versions) -> None:
        job_id = versions.refused()
        versions.old.set_priority(job_id, 5)
        assert versions.old.drain().total == 0
        versions.old.edit(job_id, {"name": "bob"})
        assert versions.old.drain().succeeded == 1
        assert versions.greeted == ["bob"]

    def test_claims_by_hand_take_it(self, versions: Versions) -> None:
        job_id = versions.refused()
        (claimed,) = versions.old.claim("hand")
        assert (claimed.id, claimed.type) == (job_id, "greet")
        assert [event.event for event in versions.old.timeline(job_id)][-2:] == ["CLAIMED", "STARTED"]
        versions.old.release(claimed)
        assert versions.old.drain().total == 0
        assert versions.new.drain().succeeded == 1

    def test_it_is_listed_and_counted_under_its_task(self, versions: Versions) -> None:
        jobs, refused = versions.old, versions.refused()
        waiting = versions.greet.enqueue("bob").id
        jobs.enqueue("greeting")
        assert [job.id for job in jobs.list(type="greet", status="pending").jobs] == [waiting, refused]
        assert [job.id for job in jobs.list(type="greet").jobs] == [waiting, refused]
        assert {task: counts["pending"] for task, counts in jobs.stats().by_type.items()} == {"greet": 2, "greeting": 1}
        assert jobs.retries().by_type == {"greet": {0: 2}, "greeting": {0: 1}}
        jobs.pause(task="greet")
        assert versions.new.drain().total == 0

    def test_why_it_waits(self, versions: Versions, clock: FakeClock) -> None:
        jobs, refused = versions.old, versions.refused()
        StoreWorker(jobs, "old", tasks={"greet": versions.old_fingerprint})
        why = jobs.why(refused)
        assert (why.reason, why.until) == ("mismatch", clock.now() + timedelta(seconds=600))
        assert why.sentence.startswith("no worker accepts its arguments; without one, it fails at 2030-01-01 12:10:00")
        behind = versions.greet.enqueue("bob").id
        assert jobs.why(behind).reason == "next"  # no worker would start the other one first
        StoreWorker(jobs, "new", tasks={"greet": versions.new_fingerprint})
        assert (jobs.why(refused).reason, jobs.why(behind).reason) == ("next", "behind")

    def test_a_name_with_the_separator_in_it_is_a_name(self, versions: Versions, store: Store) -> None:
        name = f"greet\x1f{versions.new_fingerprint}"
        odd = versions.new.enqueue(name, {"name": "ann", "loud": True})
        check_ready(store)
        assert versions.new.drain().total == versions.old.drain().total == 0
        assert [job.id for job in versions.new.list(type=name, status="pending").jobs] == [odd.id]
        assert versions.new.list(type="greet", status="pending").jobs == []

        @versions.old.task(name=name)
        def greet(name: str) -> None: ...

        @versions.new.task(name=name)
        def greet_loudly(name: str, loud: bool) -> None: ...

        assert versions.old.drain().released == 1
        assert versions.old.drain().total == 0
        assert [job.id for job in versions.new.list(type=name, status="pending").jobs] == [odd.id]
        assert versions.new.drain().succeeded == 1

    @pytest.mark.concurrency
    def test_one_new_worker_among_old_ones_runs_all_and_each_version_refuses_once(self, open_queue: OpenQueue) -> None:
        count = 300
        queues = [open_queue() for _ in range(4)]
        *older, new = queues
        signatures = ("name: str", "name: str", "name: str, polite: bool = False", "name: str, loud: bool = False")
        greet = None
        for jobs, signature in zip(queues, signatures, strict=True):
            names: dict[str, object] = {}
            exec(f"def greet({signature}) -> None: ...", names)
            greet = jobs.task(names["greet"])  # type: ignore[call-overload]
        assert greet is not None
        with ExitStack() as stack:
            for jobs in older:
                stack.enter_context(jobs.worker(concurrency=2))
            made = greet.enqueue_many([{"name": str(number), "loud": True} for number in range(count)])
            eventually(lambda: any(older[0].attempts(job.id) for job in made[:1]))
            stack.enter_context(new.worker(concurrency=2))
            eventually(lambda: new.stats().by_status["succeeded"] == count)
        for job in made:
            *refusals, last = new.attempts(job.id)
            assert (last.status, last.attempt) == ("succeeded", 1)
            assert [one.error_code for one in refusals] == [CODE] * len(refusals)
            assert len(refusals) <= 2  # two of the three older workers are of one version

    def test_many_wait_and_run(self, versions: Versions) -> None:
        versions.greet.enqueue_many([{"name": str(number), "loud": True} for number in range(1200)])
        assert versions.old.drain().released == 1200
        assert versions.old.drain().total == 0
        assert versions.new.drain().succeeded == 1200
        assert len(set(versions.greeted)) == len(versions.greeted) == 1200

    @pytest.mark.concurrency
    def test_workers_side_by_side(self, live: Versions) -> None:
        with live.old.worker(), live.new.worker():
            made = [live.greet.enqueue(str(number), loud=number % 2 == 0) for number in range(20)]
            for job in made:
                live.new.result(job, timeout=30)
        assert sorted(live.greeted) == sorted(str(number) for number in range(20))
        assert {live.new.get(job.id).attempt for job in made} == {1}

    @pytest.mark.concurrency
    def test_a_busy_worker_that_fits_takes_it_when_it_has_room(self, live: Versions) -> None:
        begun, go_on = threading.Event(), threading.Event()

        @live.new.task
        def hold() -> None:
            begun.set()
            assert go_on.wait(30)

        with live.new.worker(concurrency=1):
            hold.enqueue()
            assert begun.wait(30)
            job_id = live.refused()
            go_on.set()
            eventually(lambda: live.new.get(job_id).status is Status.SUCCEEDED)


class TestUnknownTasks:
    """Jobs of a task that no worker knows wait for `mismatch_grace`, and then fail."""

    CODE = "INVALID_INPUT:UNKNOWN_TASK"

    @pytest.fixture
    def jobs(self, open_queue: OpenQueue, clock: FakeClock) -> Rowcall:
        return open_queue(clock=clock)

    @pytest.fixture
    def check(self, jobs: Rowcall, clock: FakeClock) -> Callable[[float], None]:
        return checking(jobs, clock)

    def status(self, jobs: Rowcall, *made: Job) -> list[str]:
        return [str(jobs.get(job.id).status) for job in made]

    def test_they_fail_when_they_have_waited_for_the_grace(
        self, jobs: Rowcall, clock: FakeClock, check: Callable[[float], None]
    ) -> None:
        jobs.task(name="known")(lambda: None)
        due = [jobs.enqueue("stranger", tags=["odd"]) for _ in range(3)]
        blocked = jobs.enqueue("known", after=[due[0]])
        clock.advance(10_000)  # a worker that has just started fails nothing
        check(0)
        later, known = jobs.enqueue("stranger", delay=300), jobs.enqueue("known")
        paused = jobs.enqueue("stranger", queue="paused")
        jobs.pause("paused")
        check(550)
        new = jobs.enqueue("stranger")
        jobs.drain()
        assert self.status(jobs, *due, later, new) == ["pending"] * 5
        check(50)
        assert self.status(jobs, *due, blocked) == ["failed"] * 4
        assert self.status(jobs, later, new, paused, known) == ["pending"] * 3 + ["succeeded"]
        failed = jobs.get(due[0].id)
        assert (failed.error_code, failed.attempt, failed.finished_at) == (self.CODE, 0, clock.now())
        assert "no worker has known the task 'stranger' for 10 min" in (failed.error_detail or "")
        assert [event.event for event in jobs.timeline(failed.id)] == ["ENQUEUED", "FAILED"]
        assert [job.id for job in jobs.list(tag="odd", status="failed").jobs] == [job.id for job in reversed(due)]
        assert (self.CODE, 3) in [(group.error_code, group.count) for group in jobs.top_errors()]
        assert jobs.stats().by_status["failed"] == 4

    def test_a_retried_one_waits_again(
        self, jobs: Rowcall, check: Callable[[float], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        job = jobs.enqueue("stranger")
        check(0)
        check(600)
        assert self.status(jobs, job) == ["failed"]
        warning, failed = (record.getMessage() for record in caplog.records if record.name == "rowcall")
        assert warning.endswith("left for workers that do; without one, they fail after 10 min")
        assert failed.startswith("failed 1 job in queue 'default': no worker has known the task 'stranger' for 10 min")
        jobs.retry(job.id)
        for seconds in (50, 500):
            check(seconds)
            assert self.status(jobs, job) == ["pending"]
        jobs.task(name="stranger")(lambda: None)
        assert jobs.drain().succeeded == 1

    @pytest.mark.parametrize("known_by", ["worker", "hand"])
    def test_the_time_begins_again_while_a_live_worker_knows_the_task(
        self, jobs: Rowcall, clock: FakeClock, check: Callable[[float], None], store: Store, known_by: str
    ) -> None:
        first, job = jobs.enqueue("stranger"), jobs.enqueue("stranger")
        check(0)
        check(500)
        if known_by == "worker":
            StoreWorker(jobs, "other", tasks={"x": "", "stranger": ""})
        else:
            jobs.dequeue("other", queues=["default"])
        check(200)
        assert jobs.get(job.id).status is Status.PENDING
        if known_by == "worker":
            store.execute("delete from rowcall_worker")
        else:
            jobs.complete(jobs.get(first.id))
        check(600)
        assert jobs.get(job.id).status is Status.PENDING
        check(50)
        assert jobs.get(job.id).status is Status.FAILED

    def test_a_worker_that_was_stopped_counts_from_then_on(
        self, jobs: Rowcall, clock: FakeClock, check: Callable[[float], None]
    ) -> None:
        job = jobs.enqueue("stranger")
        check(0)
        clock.advance(3600)
        check(550)
        assert self.status(jobs, job) == ["pending"]
        check(50)
        assert self.status(jobs, job) == ["pending"]
        check(50)
        assert self.status(jobs, job) == ["failed"]

    def test_many_fail_in_batches_and_newer_ones_of_higher_priority_wait(
        self, jobs: Rowcall, clock: FakeClock, check: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(waiting, "FAILED_AT_ONCE", 3)
        monkeypatch.setattr(unknown_tasks, "FAILED_AT_ONCE", 3)
        with jobs.transaction():
            for _ in range(14):
                jobs.enqueue("stranger")
        check(0)
        check(550)
        newer = [jobs.enqueue("stranger", priority=9) for _ in range(4)]
        for failed in (12, 14):  # four batches each time: the thread has other duties
            check(50)
            assert jobs.stats().by_status["failed"] == failed
        assert self.status(jobs, *newer) == ["pending"] * 4

    def test_a_worker_that_registers_between_two_batches_keeps_the_others_waiting(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        queue, made = queue_of(jobs), [jobs.enqueue("stranger") for _ in range(3)]
        clock.advance(700)
        StoreWorker(jobs, "other", tasks={"stranger": ""})
        assert queue.run(Write(fail_unknown, queue.dialect, "default", "stranger", 0, "late")) == 0
        assert self.status(jobs, *made) == ["pending"] * 3

    def test_a_worker_that_knows_the_task_but_serves_another_queue_does_not_count(
        self, jobs: Rowcall, check: Callable[[float], None]
    ) -> None:
        here, there = jobs.enqueue("stranger"), jobs.enqueue("stranger", queue="mail")
        StoreWorker(jobs, "other", tasks={"stranger": ""}, queues="mail=3,sms")
        check(0)
        check(600)
        assert self.status(jobs, here, there) == ["failed", "pending"]

    def test_the_time_begins_again_when_a_pause_ends(self, jobs: Rowcall, check: Callable[[float], None]) -> None:
        paused, other = jobs.enqueue("stranger", queue="mail"), jobs.enqueue("stranger")
        jobs.pause("mail")
        check(0)
        check(600)
        jobs.resume("mail")
        check(550)
        assert self.status(jobs, paused, other) == ["pending", "failed"]
        check(100)
        assert self.status(jobs, paused) == ["failed"]

    @pytest.mark.concurrency
    def test_a_worker_fails_them_and_a_drain_does_not(
        self, open_queue: OpenQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(config, "SHORTEST_GRACE_SECONDS", 0.1)
        monkeypatch.setattr(unknown_tasks, "UNKNOWN_PAUSE_SECONDS", 0.05)
        jobs, other = open_queue(mismatch_grace=0.1), open_queue(mismatch_grace=0.1)
        known = threading.Event()

        @other.task(name="stranger")
        def stranger() -> None:
            assert known.wait(30)

        job = jobs.enqueue("stranger")
        with other.worker(concurrency=1), jobs.worker():
            eventually(lambda: jobs.get(job.id).status is Status.RUNNING)
            waiting, late = jobs.enqueue("stranger"), jobs.enqueue("missing")
            eventually(lambda: jobs.get(late.id).status is Status.FAILED)
            assert jobs.get(waiting.id).status is Status.PENDING
            assert jobs.get(late.id).error_code == self.CODE
            known.set()
            jobs.result(waiting, timeout=30)
        assert jobs.enqueue("missing").id
        assert jobs.drain().total == 0
