"""Jobs whose owner is gone run again, and each attempt is accounted for."""

from __future__ import annotations

from datetime import timedelta

from rowcall import Rowcall, Status
from rowcall.app import queue_of
from rowcall.domain.outcome import Succeeded
from rowcall.operations.effects import Write
from rowcall.store.queries.workers import REMOVE_WORKER
from rowcall.store.recovery.recover import recover_worker
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.worker_parts import CONCURRENCY, StoreWorker, watcher

LOST = "WORKER:LOST"


class TestLostWorkers:
    def test_a_lost_worker_s_job_is_pending_at_once_and_the_attempt_counts(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        job_id = jobs.enqueue("send").id
        StoreWorker(jobs, "victim").claim()
        others = watcher(jobs)
        assert others.check() == 0
        clock.advance(14.999)
        assert others.check() == 0
        clock.advance(0.001)
        assert others.check() == 1
        job = jobs.get(job_id)
        assert (job.status, job.attempt) == (Status.PENDING, 1)
        assert [(one.attempt, one.status, one.error_code, one.worker) for one in jobs.attempts(job_id)] == [
            (1, "lost", LOST, "victim")
        ]
        assert jobs.workers() == []
        again = jobs.dequeue("hand")
        assert again is not None
        assert again.attempt == 2

    def test_a_worker_that_beats_is_never_called_lost(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send").id
        worker = StoreWorker(jobs, "alive")
        ready = worker.start_one()
        others = watcher(jobs)
        for _ in range(10):
            others.check()
            clock.advance(14)
            assert worker.heartbeat()
        assert others.check() == 0
        assert worker.settle(ready, Succeeded())
        assert (jobs.get(job_id).status, jobs.get(job_id).attempt) == (Status.SUCCEEDED, 1)

    def test_a_heartbeat_after_the_survey_spares_the_worker(self, jobs: Rowcall) -> None:
        jobs.enqueue("send")
        worker, queue = StoreWorker(jobs, "slow"), queue_of(jobs)
        ready = worker.start_one()
        surveyed = 0
        assert worker.heartbeat()
        recovered = queue.run(Write(lambda: recover_worker(queue.dialect, "slow", None, heartbeats=surveyed)))
        assert recovered == ([], False)
        assert worker.settle(ready, Succeeded())

    def test_a_new_watcher_declares_no_worker_lost(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send")
        StoreWorker(jobs, "silent").claim()
        clock.advance(100_000)  # the machine was off: every lease by the wall clock would be over
        assert watcher(jobs).check() == 0
        assert jobs.stats().by_status["running"] == 1

    def test_after_max_attempts_it_has_failed(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send", max_attempts=3).id
        others = watcher(jobs)
        for number in range(1, 4):
            ready = StoreWorker(jobs, f"victim-{number}").start_one()
            assert (ready.id, ready.attempt) == (job_id, number)
            others.check()
            clock.advance(15)
            assert others.check() == 1
        job = jobs.get(job_id)
        assert (job.status, job.error_code, job.attempt) == (Status.FAILED, LOST, 3)
        assert job.finished_at == clock.now()
        assert [(one.attempt, one.status, one.worker) for one in jobs.attempts(job_id)] == [
            (number, "lost", f"victim-{number}") for number in range(1, 4)
        ]
        assert jobs.dequeue("hand") is None

    def test_what_only_lay_in_a_buffer_never_pays(self, jobs: Rowcall, clock: FakeClock) -> None:
        ids = [jobs.enqueue("send", max_attempts=2).id for _ in range(4)]
        taken = StoreWorker(jobs, "victim").claim(slots=1, buffer=3)
        assert [len(taken.started), len(taken.buffered)] == [1, 3]
        others = watcher(jobs)
        others.check()
        clock.advance(15)
        assert others.check() == 4
        assert [jobs.get(job_id).attempt for job_id in ids] == [1, 0, 0, 0]
        assert {jobs.get(job_id).status for job_id in ids} == {Status.PENDING}
        assert [len(jobs.attempts(job_id)) for job_id in ids] == [1, 0, 0, 0]

    def test_what_had_begun_out_of_a_buffer_says_when_it_started(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send").id
        taken = StoreWorker(jobs, "victim").claim(slots=0, buffer=1)
        claimed_at = clock.now()
        clock.advance(1)
        begun = {(ready.id, ready.lease): 250 for ready in taken.buffered}
        queue_of(jobs).run(Write(lambda: recover_worker(queue_of(jobs).dialect, "victim", begun)))
        started_at = claimed_at + timedelta(seconds=0.75)
        assert [(event.event, event.at, event.actor) for event in jobs.timeline(job_id)][1:] == [
            ("CLAIMED", claimed_at, "victim"),
            ("STARTED", started_at, "victim"),
            ("RECOVERED", clock.now(), None),
        ]
        assert [one.started_at for one in jobs.attempts(job_id)] == [started_at]

    def test_few_jobs_that_were_lost_wait_in_a_buffer_and_the_next_loss_counts(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        """Without its liveness file, only a mark says which job has killed its worker."""
        made = [jobs.enqueue("send", max_attempts=2).id for _ in range(30)]
        others = watcher(jobs)

        def lose(name: str) -> list[int]:
            claim = StoreWorker(jobs, name).claim(slots=1, buffer=40)
            others.check()
            clock.advance(15)
            others.check()
            return [ready.id for ready in claim.jobs]

        assert lose("first") == made
        assert [jobs.get(job_id).attempt for job_id in made] == [1] + [0] * 29
        again = lose("second")
        assert again == made[: 1 + CONCURRENCY]
        assert [jobs.get(job_id).attempt for job_id in again] == [2] + [1] * CONCURRENCY
        assert jobs.get(made[0]).status is Status.FAILED
        assert lose("third") == made[1 : 2 + CONCURRENCY]

    def test_more_jobs_than_are_recovered_in_one_go(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def nothing(number: int) -> None: ...

        nothing.enqueue_many([{"number": number} for number in range(1200)])
        assert len(StoreWorker(jobs, "victim").claim(slots=1200).started) == 1200
        others = watcher(jobs)
        others.check()
        clock.advance(15)
        assert others.check() == 1200
        assert jobs.stats().by_status["pending"] == 1200
        assert jobs.workers() == []

    def test_jobs_of_an_unknown_worker_are_recovered(self, jobs: Rowcall) -> None:
        job_id = jobs.enqueue("send").id
        StoreWorker(jobs, "gone").claim()
        queue_of(jobs).run(Write(lambda: queue_of(jobs).dialect.ask(REMOVE_WORKER, "gone")))
        assert watcher(jobs).check() == 1
        assert (jobs.get(job_id).status, jobs.get(job_id).attempt) == (Status.PENDING, 1)

    def test_two_that_recover_at_once_do_no_harm(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        jobs, other = open_queue(clock=clock), open_queue(clock=clock)
        ids = [jobs.enqueue("send").id for _ in range(10)]
        StoreWorker(jobs, "victim").claim(slots=10)
        one, two = watcher(jobs), watcher(other)
        one.check()
        two.check()
        clock.advance(15)
        assert [one.check(), two.check()] == [10, 0]
        assert [len(jobs.attempts(job_id)) for job_id in ids] == [1] * 10
        assert {jobs.get(job_id).attempt for job_id in ids} == {1}


class TestLeasesByHand:
    def test_a_lease_that_runs_out_counts_as_an_attempt(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send").id
        jobs.claim("hand", lease=30)
        clock.advance(29.999)
        assert jobs.dequeue("other") is None
        clock.advance(0.001)
        again = jobs.dequeue("other")
        assert again is not None
        assert (again.id, again.attempt, again.worker) == (job_id, 2, "other")
        assert [(one.attempt, one.status, one.worker) for one in jobs.attempts(job_id)] == [
            (1, "lost", "hand"),
            (2, "running", "other"),
        ]

    def test_after_max_attempts_it_has_failed(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send", max_attempts=2).id
        for attempt in (1, 2):
            job = jobs.dequeue("hand", lease=10)
            assert job is not None
            assert job.attempt == attempt
            clock.advance(10)
        assert jobs.dequeue("hand") is None
        job = jobs.get(job_id)
        assert (job.status, job.error_code, job.attempt) == (Status.FAILED, LOST, 2)
        assert [(one.attempt, one.status) for one in jobs.attempts(job_id)] == [(1, "lost"), (2, "lost")]

    def test_a_worker_recovers_them_too(self, jobs: Rowcall, clock: FakeClock) -> None:
        ran: list[int] = []

        @jobs.task
        def note(number: int) -> None:
            ran.append(number)

        note.enqueue(7)
        jobs.claim("hand", lease=10)
        clock.advance(10)
        assert jobs.drain().succeeded == 1
        assert ran == [7]

    def test_each_claim_has_its_own_lease(self, jobs: Rowcall, clock: FakeClock) -> None:
        short, long = jobs.enqueue("send").id, jobs.enqueue("send").id
        jobs.dequeue("hand", lease=10)
        jobs.dequeue("hand", lease=100)
        clock.advance(10)
        assert watcher(jobs).check() == 1
        assert (jobs.get(short).status, jobs.get(long).status) == (Status.PENDING, Status.RUNNING)

    def test_a_claim_by_hand_does_not_depend_on_any_worker(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send")
        jobs.claim("hand", lease=1000)
        others = watcher(jobs)
        others.check()
        clock.advance(500)
        assert others.check() == 0
        assert jobs.stats().by_status["running"] == 1
