"""Jobs with a target: stored, delivered, and open until the target calls back. No request is sent."""

from __future__ import annotations

import pytest

from rowcall import Context, LeaseLost, Limit, PushOptions, Rowcall, Task
from rowcall.app import queue_of
from rowcall.domain.push import LeftOpen
from rowcall.domain.push_signatures import callback_token
from rowcall.operations.push import leave_open
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue

ONE, OTHER = "https://one.example/jobs", "https://other.example/jobs"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
LIMIT = Limit("push", concurrency=1)


class Targets:
    """Receives jobs. With `accepts`, it leaves them open, as a target does that answers with 202."""

    def __init__(self, jobs: Rowcall, other: Task[[int], str]) -> None:
        self.jobs = jobs
        self.other = other
        self.accepts = False
        self.delivered: list[tuple[str, dict[str, object]]] = []
        self.tokens: list[str] = []
        queue_of(jobs).declared.deliver = self._deliver

    async def _deliver(
        self, ctx: Context, target: str, arguments: dict[str, object], timeout_seconds: float | None
    ) -> object:
        queue, push = queue_of(self.jobs), queue_of(self.jobs).declared.options.push
        assert push is not None
        self.delivered.append((target, arguments))
        self.tokens.append(callback_token(push.secrets, ctx.job.id, ctx.job.lease, ctx.job.holder))
        if self.accepts:
            await queue.arun(leave_open(queue, ctx.job, "one.example", push))
            raise LeftOpen
        return len(self.delivered)


class TestPushing:
    @pytest.fixture
    def pushing(self, open_queue: OpenQueue, clock: FakeClock) -> Targets:
        jobs = open_queue(clock=clock, push=PushOptions(secrets=[SECRET], open_for=600, limit=LIMIT))

        @jobs.push(ONE, max_attempts=2)
        def send(number: int = 0) -> int:
            raise AssertionError("a worker must not call this")

        @jobs.task
        def here(number: int = 0) -> str:
            return "here"

        return Targets(jobs, here)

    def test_every_way_to_enqueue_keeps_the_target(self, pushing: Targets) -> None:
        jobs = pushing.jobs
        send, here = jobs.declared_task("send"), jobs.declared_task("here")
        assert (send.options.target, here.options.target) == (ONE, None)
        jobs.enqueue("here", {"number": 1}, target=OTHER)
        jobs.enqueue("here", {"number": 2}, target=OTHER, key="k")
        jobs.enqueue("here", {"number": 3}, target=ONE, key="k", on_duplicate="replace")
        with jobs.transaction():
            jobs.enqueue("here", {"number": 4}, target=OTHER, delay=0)
        jobs.start_chain([pushing.other.using(target=OTHER).bind(5), pushing.other.bind(6)])
        jobs.enqueue("send", {"number": 7})
        targets = {job.payload["number"]: job.target for job in jobs.list()}
        assert targets == {1: OTHER, 3: ONE, 4: OTHER, 5: OTHER, 6: None, 7: None}
        assert jobs.drain().succeeded == 6
        assert sorted((given["number"], target) for target, given in pushing.delivered) == [
            (1, OTHER),
            (3, ONE),
            (4, OTHER),
            (5, OTHER),
            (7, ONE),
        ]

    def test_many_jobs_of_one_call_have_one_target(self, pushing: Targets) -> None:
        jobs = pushing.jobs
        made = pushing.other.using(target=OTHER).enqueue_many([{"number": number} for number in range(3)])
        assert [jobs.get(job.id).target for job in made] == [OTHER] * 3
        assert jobs.drain().succeeded == 3
        assert [target for target, _ in pushing.delivered] == [OTHER] * 3

    def test_a_job_of_a_batch_task_is_delivered_alone(self, pushing: Targets, open_queue: OpenQueue) -> None:
        jobs, called = pushing.jobs, []

        @jobs.task(batch=2)
        def batched(numbers: list[int]) -> None:
            called.append(numbers)

        app = open_queue(
            clock=queue_of(jobs).clock, push=queue_of(jobs).declared.options.push
        )  # it does not declare the task
        batched.enqueue(1)
        for _ in range(3):
            app.enqueue("batched", {"number": 2}, target=ONE)
        batched.enqueue(3)
        assert jobs.drain().succeeded == 5
        assert [target for target, _ in pushing.delivered] == [ONE] * 3
        assert sorted(number for numbers in called for number in numbers) == [1, 3]

    def test_an_open_job_survives_its_worker_until_its_time_is_over(self, pushing: Targets, clock: FakeClock) -> None:
        jobs, pushing.accepts = pushing.jobs, True
        job = jobs.enqueue("send")
        jobs.drain()
        clock.advance(599)
        jobs.drain()
        open_job = jobs.get(job.id)
        assert (open_job.status, open_job.worker, open_job.attempt) == ("running", "push to one.example", 1)
        assert len(pushing.delivered) == 1

        clock.advance(2)
        jobs.drain()  # the second attempt, which is the last one
        assert [one.error_code for one in jobs.attempts(job.id)] == ["PUSH:NO_CALLBACK", None]
        assert len(pushing.delivered) == 2
        with pytest.raises(LeaseLost):
            jobs.pushed_job(pushing.tokens[0])
        jobs.pushed_job(pushing.tokens[1])

        clock.advance(601)
        jobs.drain()
        failed = jobs.get(job.id)
        assert (failed.status, failed.error_code) == ("failed", "PUSH:NO_CALLBACK")

    def test_an_open_job_is_extended_and_completed(self, pushing: Targets, clock: FakeClock) -> None:
        jobs, pushing.accepts = pushing.jobs, True
        job = jobs.enqueue("send")
        jobs.drain()
        clock.advance(500)
        jobs.heartbeat(jobs.pushed_job(pushing.tokens[0]), lease=1000)
        clock.advance(999)
        jobs.drain()
        jobs.complete(jobs.pushed_job(pushing.tokens[0]), result=1)
        assert (jobs.get(job.id).status, jobs.get(job.id).result) == ("succeeded", 1)
        assert [one.status for one in jobs.attempts(job.id)] == ["succeeded"]

    def test_an_open_job_keeps_no_slot(self, pushing: Targets) -> None:
        jobs, pushing.accepts = pushing.jobs, True
        for _ in range(3):
            jobs.enqueue("send")
        jobs.drain(concurrency=1)  # the limit of the host lets one job run at a time
        assert [job.status for job in jobs.list()] == ["running"] * 3

    def test_the_limit_counts_each_host_separately(self, pushing: Targets) -> None:
        jobs = pushing.jobs
        jobs.enqueue("send")
        jobs.enqueue("send")
        jobs.enqueue("here", target=OTHER)
        claimed = jobs.claim("hand", limit=10)
        assert sorted(job.type for job in claimed) == ["here", "send"]

    def test_a_heartbeat_changes_the_length_of_a_lease(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send")
        job = jobs.dequeue("hand", lease=10)
        assert job is not None
        jobs.heartbeat(job, lease=100)
        clock.advance(60)
        assert jobs.dequeue("other") is None
        jobs.heartbeat(job)
        clock.advance(99)
        assert jobs.dequeue("other") is None
        clock.advance(2)
        assert jobs.dequeue("other") is not None
