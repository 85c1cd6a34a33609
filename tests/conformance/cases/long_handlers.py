"""Handlers that run for many leases keep their jobs, also when they block the event loop of their worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from rowcall import Context, Rowcall, Status
from rowcall.app import queue_of
from rowcall.domain.outcome import Succeeded
from rowcall.operations.effects import Write
from rowcall.store.recovery.recover import recover_worker
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from rowcall.worker.upkeep import cancel_requests
from tests.conformance.fixtures import OpenQueue
from tests.conformance.worker_parts import StoreWorker, watcher

LEASE_SECONDS = 0.5
HEARTBEATS = 15


@pytest.mark.concurrency
class TestLongHandlers:
    @pytest.fixture
    def release(self) -> Iterator[threading.Event]:
        event = threading.Event()
        yield event
        event.set()

    def test_for_many_leases_in_a_thread_and_on_a_blocked_event_loop(
        self, open_queue: OpenQueue, release: threading.Event
    ) -> None:
        jobs, other = open_queue(), open_queue()

        @jobs.task(max_attempts=1)
        def in_a_thread() -> None:
            release.wait()

        @jobs.task(max_attempts=1)
        async def blocking() -> None:
            release.wait()

        @jobs.task
        def quick() -> None: ...

        sent = [in_a_thread.enqueue(), blocking.enqueue()]
        with other.worker(lease=LEASE_SECONDS) as watching, jobs.worker(lease=LEASE_SECONDS) as worker:
            eventually(lambda: all(other.get(job).started_at for job in sent), message="their start")
            before = {one.name: one.heartbeats for one in other.workers()}
            assert set(before) == {watching.name, worker.name}
            eventually(
                lambda: all(one.heartbeats >= before[one.name] + HEARTBEATS for one in other.workers()),
                message="heartbeats for several leases",
            )
            assert [other.get(job).status for job in sent] == [Status.RUNNING, Status.RUNNING]
            meanwhile = quick.enqueue()
            eventually(lambda: other.get(meanwhile).status == Status.SUCCEEDED, message="a job next to them")
            release.set()
            eventually(lambda: all(other.get(job).status == Status.SUCCEEDED for job in sent), message="their end")
        assert [(other.get(job).attempt, other.attempts(job.id)[0].worker) for job in sent] == [(1, worker.name)] * 2

    def test_after_others_took_over_its_jobs_it_is_stopped_and_its_worker_has_another_name(
        self, open_queue: OpenQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All slots are busy, so no round runs. The heartbeat notices, before it looks for cancel requests."""
        monkeypatch.setattr(cancel_requests, "CANCEL_CHECK_SECONDS", 3600)
        jobs, other = open_queue(), open_queue()
        began, stopped, done = (threading.Event() for _ in range(3))

        @jobs.task
        def hold(ctx: Context) -> None:
            began.set()
            eventually(lambda: ctx.cancelled, message="the stop")
            stopped.set()
            done.wait()

        job = hold.enqueue()
        with jobs.worker(concurrency=1, lease=LEASE_SECONDS) as worker:
            try:
                assert began.wait(20)
                other.pause("default")
                name, dialect = worker.name, queue_of(other).dialect
                attempts, _ = queue_of(other).run(Write(lambda: recover_worker(dialect, name, None)))
                assert [attempt.id for attempt, _ in attempts] == [job.id]
                assert stopped.wait(20)
                eventually(lambda: [one.name for one in other.workers()] == [worker.name] != [name], message="its name")
            finally:
                done.set()
        assert [(one.attempt, one.status) for one in other.attempts(job.id)] == [(1, "lost")]

    def test_for_an_hour(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("import").id
        worker = StoreWorker(jobs, "alive")
        ready = worker.start_one()
        others = watcher(jobs)
        began = clock.monotonic()
        while clock.monotonic() - began < 3600:
            clock.advance(14)  # less than the lease of 15 s
            assert worker.heartbeat()
            assert others.check() == 0
        assert worker.settle(ready, Succeeded())
        assert (jobs.get(job_id).status, jobs.get(job_id).attempt) == (Status.SUCCEEDED, 1)
