"""Who gets which job, in which order, and when."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowcall import InvalidOption, Rowcall, Status
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.queries.workers import REMOVE_WORKER
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.worker_parts import StoreWorker


class TestClaim:
    def test_an_empty_queue_gives_nothing(self, jobs: Rowcall) -> None:
        assert jobs.dequeue("hand") is None
        assert jobs.claim("hand", limit=10) == []

    def test_the_highest_priority_goes_first_then_the_oldest(self, jobs: Rowcall) -> None:
        given = [jobs.enqueue(f"type{number % 3}", priority=number % 4) for number in range(24)]
        wanted = [job.id for job in sorted(given, key=lambda job: (-job.priority, job.id))]
        assert [job.id for job in jobs.claim("hand", limit=10)] == wanted[:10]
        assert [jobs.dequeue("hand").id for _ in range(14)] == wanted[10:]  # type: ignore[union-attr]
        assert jobs.dequeue("hand") is None

    def test_a_round_may_go_on_where_the_last_one_ended(self, jobs: Rowcall) -> None:
        worker = StoreWorker(jobs, "busy")
        ids = [jobs.enqueue(f"type{number % 2}", queue="ab"[number // 6]).id for number in range(12)]
        first = worker.claim(slots=6)
        assert sorted(job.id for job in first.started) == [*ids[:3], *ids[6:9]]
        urgent = jobs.enqueue("type0", queue="a", priority=1).id
        second = worker.claim(slots=4, resume=first.starts())
        found = {job.id for job in second.started}
        assert {ids[3], *ids[9:11]} < found <= {ids[3], ids[4], urgent, *ids[9:11]}
        assert second.more  # a later round looks at the beginning
        rest = worker.claim(slots=10)
        assert found | {job.id for job in rest.started} == {urgent, *ids[3:6], *ids[9:]}

    def test_many_queues_come_in_turn(self, jobs: Rowcall) -> None:
        names = [f"queue-{number:02}" for number in range(30)]
        for name in names * 2:
            jobs.enqueue("send", queue=name)
        for _ in range(2):
            assert sorted(job.queue for _ in range(6) for job in jobs.claim("hand", limit=5)) == names
        assert jobs.claim("hand") == []

    def test_one_claim_goes_through_as_many_queues_as_it_needs(self, jobs: Rowcall) -> None:
        ids = {f"queue-{number:02}": jobs.enqueue("send", queue=f"queue-{number:02}").id for number in range(60)}
        (job,) = jobs.claim("hand", queues=["queue-45"], limit=10)
        assert job.id == ids.pop("queue-45")
        assert {job.queue: job.id for job in jobs.claim("hand", limit=100)} == ids

    def test_a_priority_may_be_negative(self, jobs: Rowcall) -> None:
        ids = {priority: jobs.enqueue("send", priority=priority).id for priority in (-(2**31), -1, 0, 2**31 - 1)}
        claimed = [job.id for job in jobs.claim("hand", limit=4)]
        assert claimed == [ids[2**31 - 1], ids[0], ids[-1], ids[-(2**31)]]

    def test_a_claimed_job_says_whose_it_is(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send", {"to": "a"}, tags=["x"], timeout=3).id
        clock.advance(5)
        job = jobs.dequeue("hand")
        assert job is not None
        assert (job.id, job.status, job.worker, job.attempt) == (job_id, Status.RUNNING, "hand", 1)
        assert job.claimed_at == job.started_at == clock.now()
        assert jobs.get(job_id) == job

    def test_a_claimed_job_is_not_given_again(self, jobs: Rowcall) -> None:
        jobs.enqueue("send")
        assert jobs.dequeue("one") is not None
        assert jobs.dequeue("two") is None

    def test_queues_can_be_chosen(self, jobs: Rowcall) -> None:
        mail, media = jobs.enqueue("send", queue="mail").id, jobs.enqueue("send", queue="media", priority=9).id
        assert jobs.dequeue("hand", queues=["elsewhere"]) is None
        assert [job.id for job in jobs.claim("hand", limit=10, queues=["mail", "elsewhere"])] == [mail]
        assert [job.id for job in jobs.claim("hand", limit=10, queues=["media"])] == [media]

    def test_queues_take_turns_by_hand(self, jobs: Rowcall) -> None:
        for queue in ("a", "b", "c"):
            for _ in range(6):
                jobs.enqueue("send", queue=queue, priority=100 if queue == "a" else 0)
        claimed = [jobs.dequeue("hand") for _ in range(9)]
        by_queue = [job.queue for job in claimed if job is not None]
        assert {queue: by_queue.count(queue) for queue in "abc"} == {"a": 3, "b": 3, "c": 3}

    def test_queues_take_turns_in_a_worker(self, jobs: Rowcall) -> None:
        order: list[str] = []

        @jobs.task
        def note(queue: str) -> None:
            order.append(queue)

        for queue in ("a", "b"):
            for _ in range(20):
                note.using(queue=queue, priority=100 if queue == "a" else 0).enqueue(queue)
        assert jobs.drain(concurrency=1).succeeded == 40
        # neither is served to its end before the other begins
        assert {"a", "b"} == set(order[:20]) == set(order[20:])

    def test_priority_does_not_reach_across_queues(self, jobs: Rowcall) -> None:
        for _ in range(10):
            jobs.enqueue("send", queue="loud", priority=1000)
        quiet = jobs.enqueue("send", queue="quiet")
        assert quiet.id in [job.id for job in jobs.claim("hand", limit=4)]

    def test_waiting_jobs_of_unknown_tasks_do_not_stand_in_the_way(self, jobs: Rowcall) -> None:
        ran: list[int] = []

        @jobs.task
        def known(number: int) -> None:
            ran.append(number)

        strange = [jobs.enqueue("strange", priority=100).id for _ in range(50)]
        for number in range(10):
            known.enqueue(number)
        assert jobs.drain().succeeded == 10
        assert sorted(ran) == list(range(10))
        assert {jobs.get(job_id).status for job_id in strange} == {Status.PENDING}
        assert {jobs.get(job_id).attempt for job_id in strange} == {0}

    def test_a_worker_starts_in_slots_and_buffers_the_rest(self, jobs: Rowcall) -> None:
        for _ in range(6):
            jobs.enqueue("send")
        worker = StoreWorker(jobs, "one")
        taken = worker.claim(slots=2, buffer=3)
        assert (len(taken.started), len(taken.buffered)) == (2, 3)
        assert all(jobs.get(ready.id).started_at is not None for ready in taken.started)
        assert all(jobs.get(ready.id).started_at is None for ready in taken.buffered)
        assert jobs.stats().by_status["running"] == 5

    def test_one_that_is_not_registered_is_given_nothing(self, jobs: Rowcall) -> None:
        jobs.enqueue("send")
        worker = StoreWorker(jobs, "one")
        queue_of(jobs).run(Write(lambda: queue_of(jobs).dialect.ask(REMOVE_WORKER, "one")))
        taken = worker.claim()
        assert not taken.work.registered
        assert taken.started == []

    @pytest.mark.parametrize("limit", [0, -1, 1001, True, 1.5, "1"])
    def test_a_limit_that_makes_no_sense_is_refused(self, jobs: Rowcall, limit: object) -> None:
        jobs.enqueue("send")
        with pytest.raises(InvalidOption, match="limit"):
            jobs.claim("hand", limit=limit)  # type: ignore[arg-type]
        assert jobs.stats().by_status["pending"] == 1

    @pytest.mark.parametrize("lease", [0, -5, timedelta(seconds=-1), float("nan"), float("inf")])
    def test_a_lease_that_makes_no_sense_is_refused(self, jobs: Rowcall, lease: float | timedelta) -> None:
        jobs.enqueue("send")
        with pytest.raises(InvalidOption, match="lease"):
            jobs.claim("hand", lease=lease)
        assert jobs.stats().by_status["pending"] == 1
