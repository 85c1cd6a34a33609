"""Why a job waits: the reason, the sentence and the values, in every state."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from rowcall import InvalidOption, Job, JobNotFound, Limit, Rowcall
from rowcall.app import queue_of
from rowcall.overview.attention.queue_waits import queue_waits
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.store import Store
from tests.conformance.worker_parts import StoreWorker


def said(jobs: Rowcall, job: Job) -> tuple[str, str]:
    why = jobs.why(job)
    assert (why.job_id, why.status) == (job.id, jobs.get(job).status)
    assert str(why) == why.to_dict()["sentence"] == why.sentence
    return why.reason, why.sentence


class TestWhy:
    def test_without_a_worker(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send", queue="mail")
        assert said(jobs, job) == ("no worker", "no worker is alive")
        StoreWorker(jobs, "w1")
        assert said(jobs, job)[0] == "next"
        clock.advance(3600)
        assert said(jobs, job) == ("no worker", "no worker of 1 registered worker is alive")

    def test_without_a_worker_that_fits(self, jobs: Rowcall) -> None:
        job = jobs.enqueue("send", queue="mail")
        StoreWorker(jobs, "w1", queues="slow=2,default")
        assert said(jobs, job) == ("no worker for the queue", "no worker serves queue mail")
        StoreWorker(jobs, "w2", tasks={"other": ""})
        assert said(jobs, job) == (
            "no worker for the task",
            "no worker of queue mail knows task send; without one, the job fails after 10 min",
        )
        StoreWorker(jobs, "w3", tasks={"other": "", "send": ""}, queues="mail=3")
        assert said(jobs, job)[1].endswith("; its workers run 0 of 10, and at most 3 of this queue")
        StoreWorker(jobs, "w4", tasks={"send": ""})
        assert said(jobs, job) == ("next", "it is the next job of queue mail; its workers run 0 of 20")

    def test_while_others_come_first(self, jobs: Rowcall) -> None:
        StoreWorker(jobs, "w1", tasks={"send": "", "other": ""})
        first = jobs.enqueue("send")
        jobs.enqueue("unknown", priority=9)
        jobs.enqueue("send", queue="mail", priority=9)
        second = jobs.enqueue("send")
        assert said(jobs, second) == ("behind", "1 job of queue default comes first: 1 with priority 0")
        for _ in range(2):
            jobs.enqueue("other", priority=7)
        assert said(jobs, second)[1] == ("3 jobs of queue default come first: 2 with priority 7, 1 with priority 0")
        assert jobs.why(second).ahead == {7: 2, 0: 1}
        jobs.pause(task="other")
        assert said(jobs, first)[0] == "next"
        assert jobs.why(second).ahead == {0: 1}
        jobs.resume(task="other")
        many = jobs.enqueue("send", priority=-1)
        with jobs.transaction():
            for _ in range(1001):
                jobs.enqueue("other")
        assert said(jobs, many)[1].startswith("1,000 or more jobs of queue default come first: ")
        assert sum(jobs.why(many).ahead.values()) == 1000

    def test_while_others_are_due_that_no_worker_has_made_ready(self, jobs: Rowcall, clock: FakeClock) -> None:
        first, second = jobs.enqueue("retried", delay=5), jobs.enqueue("retried", delay=5, priority=2)
        last = jobs.enqueue("send")
        StoreWorker(jobs, "w1")
        assert jobs.why(last).reason == "next"
        clock.advance(10)
        assert [jobs.get(one).status for one in (first, second)] == ["scheduled", "scheduled"]
        assert said(jobs, second)[0] == "next"
        assert (jobs.why(first).ahead, jobs.why(last).ahead) == ({2: 1}, {2: 1, 0: 1})
        jobs.pause(task="retried")
        assert said(jobs, last)[0] == "next"

    def test_until_a_time(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send", delay=90, max_attempts=2)
        at = clock.now() + timedelta(seconds=90)
        when = f"at {at:%Y-%m-%d %H:%M:%S} UTC (in 1 min 30 s)"
        assert said(jobs, job) == ("scheduled", f"it is due {when}")
        assert jobs.why(job).until == at
        clock.advance(90)
        assert said(jobs, job)[0] == "no worker"
        (claimed,) = jobs.claim("hand")
        jobs.fail(claimed, "API:DOWN")
        why = jobs.why(job)
        assert (why.reason, why.error_code, why.until) == ("retry", "API:DOWN", jobs.get(job).run_at)
        assert why.sentence.startswith("attempt 1 of 2 failed with API:DOWN; the next one is due at ")

    def test_while_it_is_paused(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send", queue="mail")
        StoreWorker(jobs, "w1")
        jobs.pause(task="send", actor="ann")
        clock.advance(10)
        assert said(jobs, job) == ("paused", "task send was paused by ann 10 s ago")
        jobs.pause("mail", actor="bob")
        assert said(jobs, job) == ("paused", "queue mail was paused by bob <1 ms ago")
        assert jobs.why(job).paused in jobs.paused()
        jobs.resume("mail")
        jobs.resume(task="send")
        assert said(jobs, job)[0] == "next"

    def test_while_a_limit_is_full(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(limit=Limit("stripe", concurrency=1, by="customer"))
        def charge(customer: int) -> None: ...

        @jobs.task(limit=Limit("api", rate=1, per=60), queue="api")
        def call() -> None: ...

        first, second = charge.enqueue(42), charge.enqueue(42)
        assert [one.id for one in jobs.claim("hand", limit=5)] == [first.id]
        assert said(jobs, second) == ("limit", "limit stripe of 42 is full: 1 of 1 run")
        assert (jobs.why(second).limit, jobs.why(second).until) == ('["stripe",42]', None)
        call.enqueue()
        last = call.enqueue()
        assert len(jobs.claim("hand", queues=["api"], limit=5)) == 1
        why = jobs.why(last)
        assert (why.reason, why.until) == ("limit", clock.now() + timedelta(seconds=60.25))
        assert why.sentence.startswith("limit api allows 1 start in 1 min; the next start is checked at ")

    def test_while_it_is_blocked(self, jobs: Rowcall) -> None:
        parts = [jobs.enqueue("part") for _ in range(5)]
        job = jobs.enqueue("whole", after=parts)
        (claimed,) = jobs.claim("hand")
        assert said(jobs, job)[1] == "it waits for job 1 (running), job 2 (pending), job 3 (pending) and 2 more"
        jobs.complete(claimed)
        assert [one.id for one in jobs.why(job).blockers] == [part.id for part in parts[1:]]

    def test_what_does_not_wait_says_so(self, jobs: Rowcall, clock: FakeClock) -> None:
        first, second = jobs.enqueue("send"), jobs.enqueue("send")
        StoreWorker(jobs, "w1").claim(slots=1, buffer=1)
        clock.advance(2)
        assert said(jobs, first) == ("running", "w1 has run attempt 1 of 5 for 2 s")
        assert said(jobs, second) == ("buffered", "w1 claimed it 2 s ago, and starts it when a slot is free")
        assert jobs.why(second).worker == "w1"

    def test_finished_jobs_say_how_they_ended(self, jobs: Rowcall, clock: FakeClock) -> None:
        done, failed, cancelled = (jobs.enqueue("send", max_attempts=1) for _ in range(3))
        one, two = jobs.claim("hand", limit=2)
        jobs.complete(one)
        jobs.fail(two, "API:DOWN")
        jobs.cancel(cancelled)
        clock.advance(60)
        assert said(jobs, done) == ("finished", "it succeeded 1 min ago")
        assert said(jobs, failed) == ("finished", "it failed 1 min ago: API:DOWN")
        assert said(jobs, cancelled) == ("finished", "it was cancelled 1 min ago: CANCELLED:BY_HAND")
        assert jobs.why(failed).error_code is None

    def test_a_value_that_plain_sql_wrote(self, jobs: Rowcall, store: Store) -> None:
        job = jobs.enqueue("send")
        store.execute("update rowcall_job set held = 'for a reason'")
        assert said(jobs, job) == ("held", "it is held as 'for a reason' until a worker checks it")
        store.execute("update rowcall_job set held = 'limit:x'")
        assert said(jobs, job) == ("limit", "limit x holds it")

    def test_for_async_code_and_wrong_calls(self, jobs: Rowcall) -> None:
        job = jobs.enqueue("send")
        assert asyncio.run(jobs.awhy(job.id)) == jobs.why(job)
        with pytest.raises(JobNotFound):
            jobs.why(99)
        with pytest.raises(InvalidOption):
            jobs.why("1")  # type: ignore[arg-type]


def waits(jobs: Rowcall) -> dict[str, list[str]]:
    return {
        name: [str(one) for one in found] for name, found in queue_of(jobs).run(queue_waits(queue_of(jobs))).items()
    }


class TestWhyQueuesWait:
    def test_each_queue_has_the_reasons_of_its_jobs(self, jobs: Rowcall, clock: FakeClock) -> None:
        assert waits(jobs) == {}
        first = jobs.enqueue("send", queue="mail")
        urgent = jobs.enqueue("send", queue="mail", priority=5)
        jobs.enqueue("send", queue="mail", delay=60)
        jobs.enqueue("send", queue="later", delay=60)
        assert waits(jobs) == {"mail": ["no worker is alive"]}
        (by_hand,) = jobs.claim("hand", queues=["mail"])
        assert waits(jobs) == {"mail": ["jobs of queue mail are claimed by hand"]}
        jobs.release(by_hand)
        StoreWorker(jobs, "w1", queues="mail,held", tasks={"send": "", "charge": ""})
        assert waits(jobs)["mail"] == [f"job {urgent.id} is the next job of queue mail; its workers run 0 of 10"]
        assert str(jobs.why(urgent))[2:] in waits(jobs)["mail"][0]
        jobs.enqueue("unknown", queue="mail")
        assert [one.split(";")[0] for one in waits(jobs)["mail"]] == [
            "no worker of queue mail knows task unknown",
            f"job {urgent.id} is the next job of queue mail",
        ]
        jobs.pause("mail", actor="ann")
        assert waits(jobs)["mail"] == [jobs.why(first).sentence]

    def test_of_jobs_that_are_held_or_that_no_worker_has_noticed(self, jobs: Rowcall, clock: FakeClock) -> None:
        worker = StoreWorker(jobs, "w1", queues="held", tasks={"charge": ""})
        for _ in range(2):
            jobs.enqueue("charge", queue="held", limit=Limit("stripe", concurrency=1))
        jobs.enqueue("send", queue="late", delay=60)
        worker.claim(slots=2)
        assert waits(jobs) == {"held": ["limit stripe is full: 1 of 1 run"]}
        clock.advance(120)
        assert waits(jobs)["late"] == ["no worker of 1 registered worker is alive"]
