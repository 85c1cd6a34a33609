"""A limit counts handlers that run, also those whose attempts were settled before they ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Backoff, Context, Job, JobFailed, Limit, Rowcall, Status
from rowcall.app import queue_of
from rowcall.domain.outcome import Succeeded
from rowcall.operations.effects import Write
from rowcall.store.recovery.register import retire
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from rowcall.worker.isolation import child_process
from rowcall.worker.lanes import async_lane
from tests.conformance import isolated
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.notes import Notes
from tests.conformance.store import Store
from tests.conformance.worker_parts import StoreWorker, watcher

ONE = Limit("one", concurrency=1)
AT_ONCE = Backoff.constant(0)
LONGEST_WAIT_SECONDS = 20


class Crowd:
    """Counts handlers that run at the same moment; the first of them runs until it is released."""

    def __init__(self, jobs: Rowcall, store: Store) -> None:
        self.jobs = jobs
        self._store = store
        self._lock = threading.Lock()
        self._running = 0
        self.most = 0
        self.calls = 0
        self.let_go = threading.Event()

    def enter(self) -> bool:
        """Return whether this is the first call."""
        with self._lock:
            self._running += 1
            self.calls += 1
            self.most = max(self.most, self._running)
            return self.calls == 1

    def leave(self) -> None:
        with self._lock:
            self._running -= 1

    def is_held(self, *jobs: Job) -> None:
        """Wait until each of the jobs is held by its limit."""
        eventually(lambda: all(map(self._held, jobs)), message="jobs to be held")

    def _held(self, job: Job) -> bool:
        return any(event.event == "HELD" for event in self.jobs.timeline(job.id))

    def all_succeed(self, *jobs: Job) -> None:
        self.let_go.set()
        ids = [job.id for job in jobs]
        eventually(lambda: {self.jobs.get(one).status for one in ids} == {Status.SUCCEEDED}, message="their success")
        eventually(lambda: self._store.execute("select * from rowcall_slot") == [], message="free slots")
        assert self.most <= 1


@pytest.mark.concurrency
class TestLimitsOfHandlers:
    @pytest.fixture
    def crowd(self, open_queue: OpenQueue, store: Store) -> Iterator[Crowd]:
        crowd = Crowd(open_queue(), store)
        yield crowd
        crowd.let_go.set()

    def test_a_thread_that_continues_past_its_timeout_counts_until_it_ends(self, crowd: Crowd) -> None:
        @crowd.jobs.task(limit=ONE, timeout=0.1, retry=AT_ONCE)
        def charge() -> None:
            if crowd.enter():
                assert crowd.let_go.wait(60)
            crowd.leave()

        first = charge.enqueue()
        with crowd.jobs.worker(concurrency=4):
            eventually(lambda: crowd.calls, message="its start")
            others = [charge.enqueue() for _ in range(3)]
            crowd.is_held(first, *others)
            assert [attempt.error_code for attempt in crowd.jobs.attempts(first.id)] == ["TIMEOUT:HANDLER"]
            crowd.all_succeed(first, *others)

    def test_an_async_handler_that_ignores_its_cancellation_counts_until_it_ends(
        self, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(async_lane, "CANCEL_AGAIN_SECONDS", 0.02)
        monkeypatch.setattr(async_lane, "CANCEL_PATIENCE_SECONDS", 0.02)

        @crowd.jobs.task(limit=ONE, timeout=0.1, retry=AT_ONCE)
        async def charge() -> None:
            is_first = crowd.enter()
            while is_first and not crowd.let_go.is_set():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue
            crowd.leave()

        first = charge.enqueue()
        with crowd.jobs.worker(concurrency=4):
            crowd.is_held(first)
            crowd.all_succeed(first)

    def test_a_batch_that_continues_past_its_timeout_counts_until_it_ends(self, crowd: Crowd) -> None:
        @crowd.jobs.task(batch=2, limit=Limit("pair", concurrency=2), timeout=0.1, retry=AT_ONCE)
        def charge(items: list[int]) -> None:
            if crowd.enter():
                assert crowd.let_go.wait(60)
            crowd.leave()

        made = charge.enqueue_many([{"item": number} for number in range(2)])
        with crowd.jobs.worker(concurrency=4):
            crowd.is_held(*made)
            crowd.all_succeed(*made)

    def test_a_thread_whose_attempt_was_ended_from_outside_counts_until_it_ends(self, crowd: Crowd) -> None:
        seen = threading.Event()

        @crowd.jobs.task(limit=ONE)
        def charge(ctx: Context) -> None:
            if crowd.enter():
                eventually(lambda: ctx.cancelled, within=30)
                seen.set()
                assert crowd.let_go.wait(60)
            crowd.leave()

        chain = crowd.jobs.start_chain([charge.bind()])
        with crowd.jobs.worker(concurrency=4):
            eventually(lambda: crowd.calls, message="its start")
            other = charge.enqueue()
            crowd.jobs.complete_chain(chain.id)
            assert seen.wait(30)
            crowd.is_held(other)
            crowd.all_succeed(other)

    def test_a_handler_that_has_completed_itself_counts_until_it_ends(self, crowd: Crowd) -> None:
        completed = threading.Event()

        @crowd.jobs.task(limit=ONE)
        def charge(ctx: Context) -> None:
            if crowd.enter():
                with crowd.jobs.transaction() as transaction:
                    ctx.complete(connection=transaction)
                completed.set()
                assert crowd.let_go.wait(60)
            crowd.leave()

        first = charge.enqueue()
        with crowd.jobs.worker(concurrency=4):
            assert completed.wait(30)
            other = charge.enqueue()
            crowd.is_held(other)
            crowd.all_succeed(first, other)

    def test_a_child_process_past_its_timeout_counts_until_it_is_dead(
        self, crowd: Crowd, notes: Notes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(child_process, "CHILD_GRACE_SECONDS", 1.0)
        task = crowd.jobs.task(isolation="process", limit=ONE, timeout=1.0, retry=AT_ONCE)(isolated.stubborn)
        job = task.enqueue(notes=str(tmp_path / "notes"))
        assert crowd.jobs.drain(concurrency=4).succeeded == 1
        crowd.all_succeed(job)
        assert [note.event for note in notes.read()] == ["started", "started", "alone"]

    def test_a_handler_counts_until_it_ends_also_after_its_worker_has_stopped(self, crowd: Crowd) -> None:
        @crowd.jobs.task(limit=ONE, timeout=0.1, max_attempts=1)
        def charge() -> None:
            crowd.enter()
            assert crowd.let_go.wait(60)
            crowd.leave()

        made = charge.enqueue_many([{} for _ in range(4)])
        summaries = [crowd.jobs.drain(concurrency=1) for _ in made]
        assert [summary.failed for summary in summaries] == [1, 0, 0, 0]
        assert crowd.calls == crowd.most == 1
        assert [worker.concurrency for worker in crowd.jobs.workers()] == [0]
        crowd.let_go.set()
        eventually(lambda: crowd.jobs.workers() == [], message="the end of the registration")
        assert crowd.jobs.drain().succeeded == 3
        assert crowd.most == 1

    def test_a_handler_that_was_released_counts_after_its_embedded_worker_has_stopped(self, crowd: Crowd) -> None:
        @crowd.jobs.task(limit=ONE)
        def charge() -> None:
            if crowd.enter():
                assert crowd.let_go.wait(60)
            crowd.leave()

        first = charge.enqueue()
        worker = crowd.jobs.worker(concurrency=2, lease=1)
        worker.start()
        eventually(lambda: crowd.calls, message="its start")
        worker.stop_at_once()
        assert worker.ended.wait(30)
        with crowd.jobs.worker(lease=1):
            crowd.is_held(first)
            heartbeats = crowd.jobs.workers()[0].heartbeats
            eventually(
                lambda: crowd.jobs.workers()[0].heartbeats >= heartbeats + 6, message="heartbeats for more than a lease"
            )
            assert crowd.calls == 1
            crowd.all_succeed(first)
        assert crowd.jobs.workers() == []

    def test_closing_the_queue_frees_the_slots_of_a_stopped_worker(self, crowd: Crowd, store: Store) -> None:
        @crowd.jobs.task(limit=ONE, timeout=0.1, max_attempts=1)
        def charge() -> None:
            assert crowd.let_go.wait(60)

        charge.enqueue()
        assert crowd.jobs.drain(concurrency=1).failed == 1
        assert len(crowd.jobs.workers()) == len(store.execute("select * from rowcall_slot")) == 1
        crowd.jobs.close()
        assert store.execute("select * from rowcall_worker") == store.execute("select * from rowcall_slot") == []
        crowd.let_go.set()

    def test_an_async_handler_ends_with_the_event_loop_of_its_worker(
        self, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(async_lane, "CANCEL_AGAIN_SECONDS", 0.02)
        monkeypatch.setattr(async_lane, "CANCEL_PATIENCE_SECONDS", 0.02)

        @crowd.jobs.task(limit=ONE, timeout=0.1, max_attempts=1)
        async def charge() -> None:
            while True:
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue

        charge.enqueue()
        assert crowd.jobs.drain(concurrency=1).failed == 1
        eventually(lambda: crowd.jobs.workers() == [], message="the end of the registration")

    def test_a_stopped_worker_that_owns_a_job_is_removed(self, crowd: Crowd, store: Store) -> None:
        queue = queue_of(crowd.jobs)

        @crowd.jobs.task(limit=ONE)
        def charge() -> None: ...

        charge.enqueue()
        ready = StoreWorker(crowd.jobs, "worker").start_one()
        fence = (ready.id, ready.lease)
        assert queue.run(Write(lambda: retire(queue.dialect, "worker", {fence})))
        assert crowd.jobs.workers() == []
        assert store.execute("select * from rowcall_slot") == []

    def test_a_killed_worker_s_slots_come_free(
        self, open_queue: OpenQueue, start_program: StartProgram, notes: Notes
    ) -> None:
        jobs = open_queue()
        jobs.migrate()
        victim = start_program("work")
        while not notes.read("started"):  # on a busy machine it may time out before its handler begins
            with pytest.raises(JobFailed):
                jobs.result(jobs.enqueue("overdue", max_attempts=1), timeout=LONGEST_WAIT_SECONDS)
        second = jobs.enqueue("overdue", max_attempts=1)
        start_program("work")
        eventually(lambda: any(event.event == "HELD" for event in jobs.timeline(second.id)), message="to be held")
        assert len(notes.read("started")) == 1
        victim.kill()
        eventually(lambda: len(notes.read("started")) == 2, message="its start elsewhere")


class TestSlotsOfWorkers:
    """Who frees the slot of a worker, step by step."""

    @pytest.fixture(autouse=True)
    def _charge(self, jobs: Rowcall) -> None:
        @jobs.task(limit=ONE)
        def charge() -> None: ...

        for _ in range(2):
            charge.enqueue()

    @pytest.mark.parametrize("end", ["complete", "delete", "lease"])
    def test_ending_its_job_from_outside_does_not_free_it(self, jobs: Rowcall, store: Store, end: str) -> None:
        worker = StoreWorker(jobs, "worker")
        ready = worker.start_one()
        match end:
            case "complete":
                jobs.complete(jobs.get(ready.id))
            case "delete":
                store.execute(f"delete from rowcall_job where id = {ready.id}")
            case "lease":
                store.execute(f"update rowcall_job set status = 'failed', lease = lease + 1 where id = {ready.id}")
        assert jobs.dequeue("other") is None
        assert not worker.settle(ready, Succeeded())
        assert jobs.dequeue("other") is not None

    def test_only_the_slot_of_the_attempt_is_freed(self, jobs: Rowcall, store: Store) -> None:
        ready = StoreWorker(jobs, "worker").start_one()
        store.execute(
            "insert into rowcall_slot (limit_key, job_id, lease, worker)"
            f" select limit_key, job_id, lease + 1, worker from rowcall_slot where job_id = {ready.id}"
        )
        freed = queue_of(jobs).run(Write(lambda: queue_of(jobs).dialect.free_slots([(ready.id, ready.lease)])))
        assert len(freed) == 1
        assert store.execute("select job_id, lease from rowcall_slot") == [(ready.id, ready.lease + 1)]

    def test_attempts_of_one_job_are_freed_together_and_each_once(self, jobs: Rowcall, store: Store) -> None:
        ready = StoreWorker(jobs, "worker").start_one()
        store.execute(
            "insert into rowcall_slot (limit_key, job_id, lease, worker)"
            f" select limit_key, job_id, lease + 1, worker from rowcall_slot where job_id = {ready.id}"
        )
        attempts = [(ready.id, ready.lease), (ready.id, ready.lease), (ready.id, ready.lease + 1)]
        assert len(queue_of(jobs).run(Write(lambda: queue_of(jobs).dialect.free_slots(attempts)))) == 2
        assert store.execute("select job_id from rowcall_slot") == []

    def test_it_is_free_when_the_worker_has_left(self, jobs: Rowcall, store: Store) -> None:
        ready = StoreWorker(jobs, "worker").start_one()
        jobs.complete(jobs.get(ready.id))
        assert jobs.dequeue("other") is None
        queue_of(jobs).run(Write(lambda: retire(queue_of(jobs).dialect, "worker")))
        assert jobs.dequeue("other") is not None

    def test_it_is_free_when_the_worker_was_declared_lost(self, jobs: Rowcall, clock: FakeClock) -> None:
        ready = StoreWorker(jobs, "worker").start_one()
        jobs.complete(jobs.get(ready.id))
        watch = watcher(jobs)
        watch.check()
        assert jobs.dequeue("other") is None
        clock.advance(16)
        watch.check()
        assert jobs.dequeue("other") is not None

    def test_it_does_not_count_once_the_worker_is_unknown(self, jobs: Rowcall, store: Store) -> None:
        ready = StoreWorker(jobs, "worker").start_one()
        jobs.complete(jobs.get(ready.id))
        store.execute("delete from rowcall_worker")
        assert jobs.dequeue("other") is not None
        jobs.prune()
        assert len(store.execute("select * from rowcall_slot")) == 1

    def test_an_attempt_frees_its_own_slot_and_not_that_of_the_next(self, jobs: Rowcall, store: Store) -> None:
        wide = Limit("two", concurrency=2)
        job_id = jobs.enqueue("wide", limit=wide, queue="wide").id
        worker = StoreWorker(jobs, "worker")
        first = worker.claim(queues=["wide"]).started[0]
        jobs.release(jobs.get(job_id))
        worker.claim(queues=["wide"])
        assert not worker.settle(first, Succeeded())
        leases = "select lease from rowcall_slot where limit_key like '%two%'"
        assert store.execute(leases) == store.execute(f"select lease from rowcall_jobs where id = {job_id}")
