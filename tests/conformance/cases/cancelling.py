"""Cancel running jobs: from any process, soon, and never lost. Cancel many jobs."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from rowcall import Context, InvalidOption, Job, JobCancelled, Retry, Rowcall, Snooze, Status
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.notes import Notes
from tests.conformance.worker_parts import StoreWorker, watcher

BY_HAND = "CANCELLED:BY_HAND"


class Scene:
    """Handlers that say when they have begun."""

    def __init__(self, jobs: Rowcall) -> None:
        self.jobs = jobs
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def ended(self, job_id: int) -> Job:
        return _ended(self.jobs, job_id)

    def cancel(self, job_id: int, reason: str | None = None) -> Job:
        assert self.begun.wait(30)
        asked = self.jobs.cancel(job_id, reason, actor="ann")
        assert asked.status is Status.RUNNING
        return asked


def _ended(jobs: Rowcall, job_id: int) -> Job:
    eventually(lambda: jobs.get(job_id).finished_at is not None, message="its end")
    return jobs.get(job_id)


@pytest.mark.concurrency
class TestCancelRunning:
    @pytest.fixture
    def scene(self, open_queue: OpenQueue) -> Scene:
        return Scene(open_queue())

    def test_an_async_handler_gets_cancelled_error(self, scene: Scene) -> None:
        errors: list[type[BaseException]] = []

        @scene.jobs.task
        async def endless() -> None:
            scene.begun.set()
            try:
                await asyncio.Event().wait()
            except BaseException as error:
                errors.append(type(error))
                raise

        with scene.jobs.worker():
            job_id = endless.enqueue().id
            scene.cancel(job_id, "no longer needed")
            job = scene.ended(job_id)
        assert errors == [asyncio.CancelledError]
        assert (job.status, job.error_code, job.error_detail) == (Status.CANCELLED, BY_HAND, "no longer needed")
        assert [one.status for one in scene.jobs.attempts(job_id)] == ["cancelled"]
        said = {event.event: event for event in scene.jobs.timeline(job_id)}
        assert (said["CANCEL_REQUESTED"].actor, said["CANCEL_REQUESTED"].detail) == ("ann", "no longer needed")
        assert said["CANCELLED"].detail == f"{BY_HAND}: no longer needed"
        assert scene.jobs.stats().by_status["cancelled"] == 1

    @pytest.mark.parametrize("end", [None, ValueError("broken off"), Retry(5), Snooze(5)], ids=repr)
    def test_a_thread_sees_it_and_however_it_ends_then_the_job_is_cancelled(
        self, scene: Scene, end: Exception | None
    ) -> None:
        @scene.jobs.task
        def patient(ctx: Context) -> str:
            scene.begun.set()
            eventually(lambda: ctx.cancelled, within=30)
            if end is not None:
                raise end
            return "half of it"

        with scene.jobs.worker():
            job_id = patient.enqueue().id
            scene.cancel(job_id)
            job = scene.ended(job_id)
        assert (job.status, job.error_code, job.error_detail) == (Status.CANCELLED, BY_HAND, None)
        assert (job.result, job.attempt) == (None, 1)

    def test_a_handler_that_returns_without_having_looked_has_succeeded(self, scene: Scene) -> None:
        @scene.jobs.task
        def deaf() -> str:
            scene.begun.set()
            assert scene.go_on.wait(30)
            return "all of it"

        with scene.jobs.worker():
            job_id = deaf.enqueue().id
            scene.cancel(job_id)
            scene.go_on.set()
            job = scene.ended(job_id)
        assert (job.status, job.result) == (Status.SUCCEEDED, "all of it")

    def test_others_are_left_alone(self, scene: Scene) -> None:
        both = threading.Semaphore(0)

        @scene.jobs.task
        async def endless() -> None:
            both.release()
            while not scene.go_on.is_set():
                await asyncio.sleep(0.01)

        with scene.jobs.worker():
            ids = [endless.enqueue().id for _ in range(2)]
            assert all(both.acquire(timeout=30) for _ in ids)
            scene.jobs.cancel(ids[0])
            assert scene.ended(ids[0]).status is Status.CANCELLED
            assert scene.jobs.get(ids[1]).status is Status.RUNNING
            scene.go_on.set()
            assert scene.ended(ids[1]).status is Status.SUCCEEDED

    def test_from_another_process_of_a_worker_without_notifications(
        self, scene: Scene, start_program: StartProgram, notes: Notes
    ) -> None:
        scene.jobs.migrate()
        start_program("work")
        job_id = scene.jobs.enqueue("patient").id
        eventually(lambda: notes.read("started"), message="its start")
        scene.jobs.cancel(job_id)
        assert scene.ended(job_id).status is Status.CANCELLED
        assert len(notes.read("ended")) == 1

    def test_twice_is_once(self, scene: Scene) -> None:
        job_id = scene.jobs.enqueue("send").id
        claimed = scene.jobs.claim("hand")[0]
        for actor in ("ann", "bob"):
            scene.jobs.cancel(job_id, actor=actor)
        events = [event.actor for event in scene.jobs.timeline(job_id) if event.event == "CANCEL_REQUESTED"]
        assert events == ["ann"]
        scene.jobs.release(claimed)
        assert scene.jobs.get(job_id).status is Status.CANCELLED


class TestCancelSurvives:
    """However the attempt ends, except by success, it is the last."""

    def test_a_claim_by_hand_learns_of_it_by_its_heartbeat(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send").id
        claimed = jobs.claim("hand", lease=60)[0]
        jobs.cancel(job_id, "enough")
        with pytest.raises(JobCancelled, match="enough") as cancelled:
            jobs.heartbeat(claimed)
        assert (cancelled.value.job_id, cancelled.value.reason) == (job_id, "enough")
        jobs.fail(claimed, "TEST:CODE")
        job = jobs.get(job_id)
        assert (job.status, job.error_code, job.error_detail) == (Status.CANCELLED, BY_HAND, "enough")

    def test_it_may_be_completed_anyway(self, jobs: Rowcall) -> None:
        job_id = jobs.enqueue("send").id
        claimed = jobs.claim("hand")[0]
        jobs.cancel(job_id)
        jobs.complete(claimed, "done")
        assert (jobs.get(job_id).status, jobs.get(job_id).result) == (Status.SUCCEEDED, "done")

    def test_a_lease_that_runs_out(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send").id
        jobs.claim("hand", lease=60)
        jobs.cancel(job_id, "enough")
        clock.advance(61)
        assert jobs.dequeue("other") is None
        assert (jobs.get(job_id).status, jobs.get(job_id).error_detail) == (Status.CANCELLED, "enough")
        assert jobs.stats().by_status["cancelled"] == 1

    def test_a_worker_that_is_declared_lost(self, jobs: Rowcall, clock: FakeClock) -> None:
        started, buffered = jobs.enqueue("send").id, jobs.enqueue("send").id
        StoreWorker(jobs, "doomed").claim(slots=1, buffer=1)
        for job_id in (started, buffered):
            assert jobs.cancel(job_id).status is Status.RUNNING
        keeper = watcher(jobs)
        keeper.check()
        clock.advance_monotonic(15)
        assert keeper.check() == 2
        for job_id in (started, buffered):
            assert (jobs.get(job_id).status, jobs.get(job_id).error_code) == (Status.CANCELLED, BY_HAND)
        assert jobs.stats().by_status["cancelled"] == 2

    def test_it_is_about_one_attempt_and_not_about_the_next(self, jobs: Rowcall) -> None:
        job_id = jobs.enqueue("send").id
        claimed = jobs.claim("hand")[0]
        jobs.cancel(job_id)
        jobs.release(claimed)
        jobs.retry(job_id)
        again = jobs.claim("hand")[0]
        jobs.heartbeat(again)
        jobs.fail(again, "TEST:CODE")
        assert jobs.get(job_id).status is Status.SCHEDULED

    @pytest.mark.crash
    def test_a_worker_that_is_killed_right_after_the_request(
        self, open_queue: OpenQueue, start_program: StartProgram, notes: Notes, tmp_path: Path
    ) -> None:
        real = open_queue()
        real.migrate()
        job_id = real.enqueue("held", {"until": str(tmp_path / "never")}).id
        victim = start_program("work")
        eventually(lambda: notes.read("started"), message="its start")
        start_program("work")
        eventually(lambda: len(real.workers()) == 2, message="the one that lives on")
        real.cancel(job_id, "enough")
        victim.kill()
        job = _ended(real, job_id)
        assert (job.status, job.error_code, job.error_detail) == (Status.CANCELLED, BY_HAND, "enough")
        assert len(notes.read("started")) == 1


class TestCancelTakesAlong:
    """What depends on a job that is cancelled can never run."""

    @pytest.mark.parametrize("by_filter", [False, True])
    def test_what_waits_for_a_waiting_job(self, jobs: Rowcall, by_filter: bool) -> None:
        blocker = jobs.enqueue("send", delay=60, queue="first")
        after = jobs.enqueue("send", after=[blocker])
        last = jobs.enqueue("send", after=[after])
        if by_filter:
            assert jobs.cancel(queue="first") == 1
        else:
            jobs.cancel(blocker.id)
        assert {(jobs.get(job.id).status, jobs.get(job.id).error_code) for job in (after, last)} == {
            (Status.CANCELLED, "BLOCKER:CANCELLED")
        }

    def test_what_waits_for_a_running_job_once_that_has_ended(self, jobs: Rowcall) -> None:
        blocker = jobs.enqueue("send")
        after = jobs.enqueue("send", after=[blocker])
        claimed = jobs.claim("hand")[0]
        jobs.cancel(blocker.id)
        assert jobs.get(after.id).status is Status.BLOCKED
        jobs.fail(claimed, "TEST:CODE")
        assert jobs.get(after.id).error_code == "BLOCKER:CANCELLED"

    def test_a_blocked_job_itself(self, jobs: Rowcall) -> None:
        blocker = jobs.enqueue("send")
        after = jobs.enqueue("send", after=[blocker])
        assert jobs.cancel(after.id).status is Status.CANCELLED
        jobs.complete(jobs.claim("hand")[0])
        assert jobs.get(after.id).status is Status.CANCELLED


class TestCancelByFilter:
    def test_waiting_ones_are_cancelled_and_running_ones_asked(self, jobs: Rowcall) -> None:
        pending = [jobs.enqueue("send", queue="mail").id for _ in range(3)]
        later = jobs.enqueue("send", queue="mail", delay=60).id
        other = jobs.enqueue("send").id
        running = jobs.claim("hand", queues=["mail"])[0]
        assert running.id == pending[0]
        assert jobs.cancel(queue="mail", reason="wrong list", actor="ann") == 4
        assert [jobs.get(job_id).status for job_id in (*pending, later)] == ["running", *["cancelled"] * 3]
        assert jobs.get(other).status is Status.PENDING
        for job_id in (*pending, later):
            assert ("ann", "wrong list") in [(event.actor, event.detail) for event in jobs.timeline(job_id)]
        jobs.release(running)
        assert jobs.get(running.id).status is Status.CANCELLED
        assert jobs.cancel(queue="mail") == 0

    def test_by_state_type_tag_and_number(self, jobs: Rowcall) -> None:
        ids = {
            (kind, tag): [jobs.enqueue(kind, tags=[tag]).id for _ in range(3)]
            for kind in ("send", "fetch")
            for tag in ("old", "new")
        }
        assert jobs.cancel(type="send", tag="old", limit=2) == 2
        assert jobs.cancel(status="pending", tag="new") == 6
        left = {kind: [job.id for job in jobs.list(type=kind, status="pending").jobs] for kind in ("send", "fetch")}
        assert len(left["send"]) == 1
        assert sorted(left["fetch"]) == ids["fetch", "old"]

    def test_by_key(self, jobs: Rowcall) -> None:
        wanted, other = (jobs.enqueue("send", key=key).id for key in ("order-1", "order-2"))
        assert jobs.cancel(type="send", key="order-1") == 1
        assert [jobs.get(job_id).status for job_id in (wanted, other)] == ["cancelled", "pending"]

    def test_more_than_fit_into_one_transaction(self, jobs: Rowcall) -> None:
        @jobs.task
        def send() -> None: ...

        send.enqueue_many([{}] * 450)
        assert jobs.cancel(status="pending") == 450
        assert jobs.stats().by_status["cancelled"] == 450
        assert jobs.dequeue("hand") is None

    @pytest.mark.parametrize(
        ("chosen", "said"),
        [
            ({}, "this matches every job"),
            ({"limit": 5}, "this matches every job"),
            ({"status": "succeeded"}, "must be one of blocked, scheduled, pending, running"),
            ({"queue": ""}, "must have 1 to 200 characters"),
            ({"queue": "mail", "limit": 0}, "must be a whole number above 0"),
            ({"key": "order-1"}, "belongs to a task"),
            ({"job": 1, "queue": "mail"}, "cannot be combined with a job"),
        ],
        ids=str,
    )
    def test_what_is_no_filter_is_refused(self, jobs: Rowcall, chosen: dict[str, object], said: str) -> None:
        job_id = jobs.enqueue("send").id
        with pytest.raises(InvalidOption, match=said):
            jobs.cancel(**chosen)  # type: ignore[call-overload]
        assert jobs.get(job_id).status is Status.PENDING
