"""What needs attention: staged outages, each named within 10 s of its threshold, and no false alarms."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from rowcall import Fail, Finding, Limit, Retention, Rowcall, Severity
from rowcall.app import queue_of
from rowcall.base.clock import SystemClock
from rowcall.domain.outcome import Raised, Succeeded
from rowcall.domain.payload import UNKNOWN_TASK_CODE
from rowcall.operations.effects import Write
from rowcall.overview.attention import machine, not_running, thresholds
from rowcall.overview.attention.thresholds import THRESHOLDS
from rowcall.store.queries.workers import REMOVE_WORKER
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store
from tests.conformance.worker_parts import StoreWorker, checking

SOON = 10
LONG = 1_000_000.0
DOWN = Raised(ConnectionError("no route to api-1"), "API:DOWN", "no route to api-1")


def codes(jobs: Rowcall) -> list[str]:
    return [one.code for one in jobs.attention()]


def only(jobs: Rowcall) -> Finding:
    (found,) = jobs.attention()
    assert found.severity is THRESHOLDS[found.code].severity
    assert found.message
    assert found.advice
    assert found.evidence
    assert str(found) == found.message
    assert found.to_dict()["code"] == found.code
    return found


def named_after(jobs: Rowcall, clock: FakeClock, seconds: float, *, before: Sequence[str] = ()) -> Finding:
    """Return the finding that is there soon after its threshold, and was not there shortly before."""
    clock.advance(seconds - 1)
    assert codes(jobs) == [*before]
    clock.advance(1 + SOON)
    return next(one for one in jobs.attention() if one.code not in before)


def worker(jobs: Rowcall, name: str = "w1", **options: object) -> StoreWorker:
    """A worker that stays alive however far the test moves the clock."""
    return StoreWorker(jobs, name, lease_seconds=LONG, **options)  # type: ignore[arg-type]


class TestNobodyRunsJobs:
    def test_no_worker_and_due_jobs(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send")
        found = named_after(jobs, clock, thresholds.UNSERVED_SECONDS)
        assert (found.code, found.severity) == ("no_worker", Severity.CRITICAL)
        assert found.message == "no worker is alive: 1 job has been due for 40 s"
        assert found.advice == "Start a worker: rowcall work app:jobs"
        assert (found.evidence["jobs"], found.since) == ([job.id], job.created_at)
        worker(jobs)
        assert codes(jobs) == []

    def test_a_worker_that_was_killed(self, jobs: Rowcall, clock: FakeClock) -> None:
        dying = StoreWorker(jobs, "w1")
        jobs.enqueue("send")
        dying.start_one()
        found = named_after(jobs, clock, thresholds.UNSERVED_SECONDS)
        assert found.message == "no worker is alive: 1 job of workers that are gone must be recovered"
        assert found.evidence["registered"] == 1

    def test_jobs_that_a_limit_holds_need_a_worker_too(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(limit=Limit("api", rate=1, per=60))
        def call() -> None: ...

        _, *waiting = [call.enqueue().id for _ in range(3)]
        busy = worker(jobs)
        for ready in busy.claim(slots=3).started:
            busy.settle(ready, Succeeded())
        assert not busy.claim(slots=3).started
        assert jobs.why(waiting[0]).reason == "limit"
        stop(jobs, "w1")
        found = named_after(jobs, clock, thresholds.UNSERVED_SECONDS)
        assert found.message == "no worker is alive: 2 jobs wait for a limit, the first for 40 s"
        assert (found.evidence["held"], found.evidence["jobs"]) == (2, waiting[:1])
        clock.advance(thresholds.HELD_SECONDS)
        assert codes(jobs) == ["no_worker"]  # to raise the limit would not help
        jobs.pause(task="call")
        clock.advance(thresholds.PAUSED_SECONDS - 1)
        assert codes(jobs) == []

    def test_claims_by_hand_of_another_queue_do_not_stand_in_for_a_worker(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        jobs.enqueue("send", queue="mail")
        jobs.claim("hand", queues=["mail"], lease=600)
        jobs.enqueue("charge")
        assert named_after(jobs, clock, thresholds.UNSERVED_SECONDS).code == "no_worker"

    def test_a_worker_that_restarts_beside_a_backlog_is_normal(self, jobs: Rowcall, clock: FakeClock) -> None:
        first = worker(jobs)
        for _ in range(3):
            jobs.enqueue("send")
        clock.advance(300)
        first.settle(first.start_one(), Succeeded())
        jobs.enqueue("send")
        assert codes(jobs) == []
        stop(jobs, "w1")
        clock.advance(thresholds.UNSERVED_SECONDS - 1)
        assert codes(jobs) == []
        clock.advance(SOON)
        assert codes(jobs) == ["no_worker"]

    def test_a_late_schedule(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.add_schedule("nightly", "clean_up", every=60)
        clock.advance(60)
        unserved = named_after(jobs, clock, thresholds.UNSERVED_SECONDS)
        assert unserved.message == "no worker is alive: 1 schedule is late"
        late = named_after(jobs, clock, thresholds.LATE_SCHEDULE_SECONDS - 40, before=["no_worker"])
        assert (late.code, late.severity) == ("schedule_late", Severity.CRITICAL)
        assert late.message == "schedule nightly was due 1 min 10 s ago, and has not enqueued clean_up"
        assert late.advice == "Start a worker: rowcall work app:jobs"
        StoreWorker(jobs, "w1", lease_seconds=LONG).claim()
        assert codes(jobs) == []

    def test_a_schedule_that_is_not_due_yet_needs_a_worker_too(
        self, jobs: Rowcall, clock: FakeClock, store: Store
    ) -> None:
        jobs.add_schedule("nightly", "clean_up", every=86_400)
        clock.advance(3600)
        assert codes(jobs) == []  # there was never a worker
        at_ms = round(clock.wall() * 1000)
        store.execute(f"insert into rowcall_setting (name, value) values ('duty of prune', '{at_ms}')")
        found = named_after(jobs, clock, thresholds.UNUSED_SCHEDULE_SECONDS)
        assert found.message == "no worker is alive: 1 schedule would not run"
        jobs.pause_schedule("nightly")
        assert codes(jobs) == []

    def test_a_queue_that_no_worker_serves(self, jobs: Rowcall, clock: FakeClock) -> None:
        worker(jobs, queues="default")
        ids = [jobs.enqueue("send", queue="mail").id for _ in range(4)]
        found = named_after(jobs, clock, thresholds.UNSERVED_SECONDS)
        assert (found.code, found.message) == (
            "queue_unserved",
            "no worker serves queue mail: 4 jobs are due, the first for 40 s",
        )
        assert "rowcall work app:jobs --queues mail" in found.advice
        assert (found.evidence["queue"], found.evidence["due"], found.evidence["jobs"]) == ("mail", 4, ids[:3])
        worker(jobs, "w2", queues="mail=2")
        assert codes(jobs) == []

    def test_a_task_that_no_worker_knows(self, jobs: Rowcall, clock: FakeClock) -> None:
        worker(jobs, tasks={"other": ""})
        job = jobs.enqueue("send")
        found = named_after(jobs, clock, thresholds.UNSERVED_SECONDS)
        assert found.code == "task_unknown"
        assert found.message == (
            "no worker of queue default knows task send: 1 job has been due for 40 s;"
            " without such a worker they fail from 2030-01-01 12:10:00 UTC on"
        )
        assert "rowcall cancel app:jobs --type send" in found.advice
        assert found.evidence["jobs"] == [job.id]
        worker(jobs, "w2", tasks={"send": ""})
        assert codes(jobs) == []

    def test_such_jobs_fail_after_a_worker_has_seen_them_for_long(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send")
        clock.advance(3600)
        worker(jobs, tasks={"other": ""})
        assert only(jobs).message.endswith(" they fail from 2030-01-01 13:10:00 UTC on")

    def test_arguments_that_no_version_accepts(self, jobs: Rowcall, clock: FakeClock, store: Store) -> None:
        worker(jobs, tasks={"send": "0123abcd"})
        jobs.enqueue("send")
        store.execute("update rowcall_job set unfit = '0123abcd' where id = 1")
        found = named_after(jobs, clock, thresholds.UNSERVED_SECONDS)
        assert found.code == "arguments_refused"
        assert found.message.startswith("no worker of queue default accepts jobs of task send: 1 job")

    def test_jobs_that_have_failed_because_of_that(self, jobs: Rowcall, clock: FakeClock) -> None:
        worker(jobs, tasks={"other": ""})
        job = jobs.enqueue("send")
        checking(jobs, clock)(700)
        found = only(jobs)
        assert (found.code, found.severity) == ("unknown_failures", Severity.WARNING)
        assert (
            found.message
            == f"1 job of task send failed within a day with {UNKNOWN_TASK_CODE}: no worker took them in time"
        )
        assert "rowcall retry app:jobs --type send" in found.advice
        assert (found.evidence["jobs"], found.evidence["error_code"]) == ([job.id], UNKNOWN_TASK_CODE)
        clock.advance(thresholds.UNKNOWN_SECONDS)
        assert codes(jobs) == []

    def test_many_queues_are_a_few_findings(self, jobs: Rowcall, clock: FakeClock) -> None:
        worker(jobs, queues="default")
        for number in range(9):
            jobs.enqueue("send", queue=f"q{number}")
        clock.advance(thresholds.UNSERVED_SECONDS + SOON)
        found = jobs.attention()
        assert [one.code for one in found] == ["queue_unserved"] * 6
        assert found[-1].evidence == {"more": 4}
        assert found[-1].message.startswith("and 4 more of the kind queue_unserved, such as: no worker serves queue q5")


class TestJobsAreKeptFromRunning:
    def test_a_paused_queue_with_a_backlog(self, jobs: Rowcall, clock: FakeClock) -> None:
        worker(jobs)
        jobs.pause("mail", actor="ann")
        job = jobs.enqueue("send", queue="mail")
        found = named_after(jobs, clock, thresholds.PAUSED_SECONDS)
        assert (found.code, found.severity) == ("paused", Severity.WARNING)
        assert found.message == ("queue mail was paused 5 min 10 s ago by ann: 1 job has been due for 5 min 10 s")
        assert found.advice == "Resume it, unless this is intended: rowcall resume app:jobs mail"
        assert (found.evidence["jobs"], found.evidence["actor"]) == ([job.id], "ann")
        jobs.resume("mail")
        assert codes(jobs) == []

    def test_a_paused_task_with_a_backlog(self, jobs: Rowcall, clock: FakeClock) -> None:
        worker(jobs)
        jobs.pause(task="send", actor="ann")
        clock.advance(thresholds.PAUSED_SECONDS)
        assert codes(jobs) == []
        jobs.enqueue("send")
        assert "rowcall resume app:jobs --task send" in only(jobs).advice

    def test_a_full_limit(self, jobs: Rowcall, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
        @jobs.task(limit=Limit("stripe", concurrency=1, by="customer"))
        def charge(customer: int) -> None: ...

        ids = [charge.enqueue(42).id for _ in range(4)]
        busy = worker(jobs)
        started = busy.claim(slots=4).started
        assert [one.id for one in started] == ids[:1]
        found = named_after(jobs, clock, thresholds.HELD_SECONDS)
        assert (found.code, found.severity) == ("limit_full", Severity.WARNING)
        assert found.message == ("limit stripe of 42 is full: 1 of 1 run; 3 jobs wait for it, the first for 5 min 10 s")
        assert (found.evidence["held"], found.evidence["jobs"]) == (3, ids[1:2])
        assert "rowcall stuck app:jobs" in found.advice
        monkeypatch.setattr(not_running, "MOST_HELD", 2)  # one key has all of it
        assert "; 2+ jobs wait for it" in only(jobs).message
        for one in ids[1:]:
            jobs.cancel(one)
        assert codes(jobs) == []

    def test_a_rate_that_holds_jobs_for_long(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(limit=Limit("api", rate=1, per=3600))
        def call() -> None: ...

        call.enqueue_many([{}, {}, {}])
        busy = worker(jobs)
        for ready in busy.claim(slots=3).started:
            busy.settle(ready, Succeeded())
        assert not busy.claim(slots=3).started
        found = named_after(jobs, clock, thresholds.HELD_SECONDS)
        assert found.message.startswith("limit api allows 1 start in 1 h; 2 jobs wait for it")
        assert found.advice.endswith("raise it: rowcall limits app:jobs set api --rate N")

    def test_a_queue_that_falls_behind(self, jobs: Rowcall, clock: FakeClock) -> None:
        busy = worker(jobs)
        for _ in range(20):
            jobs.enqueue("send")
        for _ in range(10):  # two arrive for each that ends
            clock.advance(59)
            busy.settle(busy.start_one(), Succeeded())
            jobs.enqueue("send")
            jobs.enqueue("send")
        assert codes(jobs) == []
        clock.advance(SOON + SOON)
        found = only(jobs)
        assert (found.code, found.evidence["due"]) == ("falling_behind", 30)
        assert found.message == (
            "queue default falls behind: 30 jobs are due, the first for 10 min;"
            " in the last 10 min, 3.9 arrived per minute and 1.0 ended per minute;"
            " if no more arrived, the backlog would take 30 min"
        )
        assert "rowcall work app:jobs --queues default --concurrency N" in found.advice

    def test_a_backlog_that_is_soon_gone_is_a_burst(self, jobs: Rowcall, clock: FakeClock) -> None:
        busy = worker(jobs)
        for _ in range(20):
            jobs.enqueue("send")
        clock.advance(11 * 60)
        for _ in range(5):
            clock.advance(30)
            busy.settle(busy.start_one(), Succeeded())
        assert codes(jobs) == []


class TestAttemptsGoWrong:
    def test_a_dependency_that_is_down(self, jobs: Rowcall, clock: FakeClock) -> None:
        busy = worker(jobs)
        for number in range(20):
            jobs.enqueue("charge", max_attempts=1 + number % 2)
        for _ in range(4):
            busy.settle(busy.start_one(), DOWN)
        assert codes(jobs) == []
        for _ in range(5):
            busy.settle(busy.start_one(), DOWN)
        found = only(jobs)
        assert (found.code, found.severity) == ("task_failing", Severity.CRITICAL)
        assert found.message.startswith("task charge fails: all of 9 attempts in the last 1 h, mostly with API:DOWN")
        busy.settle(busy.start_one(), DOWN)
        found = only(jobs)
        assert found.message == "task charge fails: all of 10 attempts in the last 5 min, mostly with API:DOWN"
        assert "rowcall errors app:jobs --type charge" in found.advice
        assert "rowcall retry app:jobs --type charge" in found.advice
        assert (found.evidence["error_code"], found.evidence["sample"]) == ("API:DOWN", "no route to api-1")
        assert found.since == clock.now()
        failed = [job.id for job in jobs.list(status="failed")]
        assert set(found.evidence["jobs"]) <= set(failed)  # type: ignore[call-overload]
        for _ in range(10):
            jobs.enqueue("charge", priority=5)
            busy.settle(busy.start_one(), Succeeded())
        assert only(jobs).message.startswith("task charge fails: 50 % of 20 attempts")
        jobs.enqueue("charge", priority=5)
        busy.settle(busy.start_one(), Succeeded())
        assert codes(jobs) == []

    def test_a_few_failures_are_normal(self, jobs: Rowcall, clock: FakeClock) -> None:
        busy = worker(jobs)
        for number in range(40):
            jobs.enqueue("charge", max_attempts=1)
            busy.settle(busy.start_one(), DOWN if number % 3 == 0 else Succeeded())
            clock.advance(5)
        jobs.enqueue("rare", max_attempts=1)
        busy.settle(busy.start_one(), DOWN)
        assert codes(jobs) == []

    def test_a_handler_that_hangs(self, jobs: Rowcall, clock: FakeClock) -> None:
        busy = worker(jobs)
        for _ in range(thresholds.USUAL_RUNS):
            jobs.enqueue("render")
            (quick,) = jobs.claim("hand")
            clock.advance(2)
            jobs.complete(quick)
        job = jobs.enqueue("render")
        busy.start_one()
        found = named_after(jobs, clock, thresholds.STUCK_SECONDS)
        assert (found.code, found.severity) == ("job_stuck", Severity.WARNING)
        assert found.message.startswith(f"1 job of task render runs unusually long, job {job.id} for 2 min 10 s on w1")
        assert f"rowcall stack app:jobs {job.id}" in found.advice
        assert (found.evidence["jobs"], found.evidence["workers"]) == ([job.id], ["w1"])
        assert found.since is not None
        assert clock.now() - found.since == timedelta(minutes=2, seconds=SOON)

    def test_a_handler_without_a_past(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(timeout=7200)
        def build() -> None: ...

        busy = worker(jobs)
        build.enqueue()
        jobs.enqueue("render")
        for _ in range(2):
            busy.start_one()
        found = named_after(jobs, clock, thresholds.UNUSUAL_SECONDS)
        assert found.evidence["task"] == "render"
        clock.advance(3600 + thresholds.STUCK_SECONDS)
        assert [one.evidence["task"] for one in jobs.attention()] == ["build", "render"]

    def test_retention_that_is_behind(
        self, open_queue: OpenQueue, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = open_queue(clock=clock, retention=Retention(succeeded=timedelta(days=1)))
        monkeypatch.setattr(thresholds, "UNPRUNED_JOBS", 3)
        for kind in ("one", "two"):
            for _ in range(2):
                jobs.enqueue(kind)
                jobs.complete(jobs.claim("hand")[0])
        found = named_after(jobs, clock, 86_400 + thresholds.UNPRUNED_SECONDS)
        assert (found.code, found.severity) == ("retention_behind", Severity.WARNING)
        assert "rowcall prune app:jobs" in found.advice
        jobs.prune()
        assert codes(jobs) == []


class TestTheMachine:
    def test_a_clock_that_is_ahead(self, jobs: Rowcall, clock: FakeClock) -> None:
        worker(jobs)
        jobs.enqueue("send")
        clock.jump(-3)
        assert codes(jobs) == []
        clock.jump(-7)
        found = only(jobs)
        assert (found.code, found.severity) == ("clock", Severity.WARNING)
        assert found.message in ("a job was created 10 s in the future", "a heartbeat was sent 10 s in the future")
        assert "NTP" in found.advice
        clock.advance(SOON)
        assert codes(jobs) == []

    def test_a_full_disk(self, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "LITTLE_SPACE_BYTES", 2**60)
        is_file = queue_of(jobs).config.server is None  # that of a server cannot be seen
        assert codes(jobs) == (["little_space"] if is_file else [])
        monkeypatch.setattr(thresholds, "NO_SPACE_BYTES", 2**60)
        assert codes(jobs) == (["no_space"] if is_file else [])
        if is_file:
            assert "rowcall prune" in only(jobs).advice

    def test_a_file_whose_log_does_not_shrink(self, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
        jobs.enqueue("send")
        monkeypatch.setattr(machine, "OVERSIZED_WAL_BYTES", 0)
        assert codes(jobs) == (["wal"] if queue_of(jobs).config.server is None else [])

    def test_a_server_that_is_short_of_connections_or_of_vacuum(
        self, jobs: Rowcall, open_queue: OpenQueue, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, store: Store
    ) -> None:
        is_server = queue_of(jobs).config.server is not None
        is_postgres = store.url.startswith("postgresql")
        jobs.enqueue("send")
        for is_known, name, number, code, cure in (
            (is_server, "SESSIONS_SHARE", 0.0, "sessions", "pooler"),
            (is_postgres, "DEAD_ROWS", 0, "dead_rows", "rowcall doctor"),
        ):
            with monkeypatch.context() as lowered:
                lowered.setattr(thresholds, name, number)
                assert codes(jobs) == ([code] if is_known else [])
                assert not is_known or cure in only(jobs).advice
        monkeypatch.setattr(machine, "LONG_TRANSACTION_SECONDS", 0.0)
        with jobs.transaction():
            jobs.enqueue("send")
            found = codes(open_queue(clock=clock))
        assert found == (["long_transaction"] if is_postgres else [])
        assert codes(jobs) == []

    def test_a_server_that_is_read_only_or_has_another_time(self, open_queue: OpenQueue, store: Store) -> None:
        class Behind(SystemClock):
            wall = staticmethod(lambda: SystemClock.wall() - 10)

        jobs = open_queue(clock=Behind())
        jobs.migrate()
        server = queue_of(jobs).config.server
        assert codes(jobs) == (["clock"] if server else [])
        if server is not None:
            assert "10 s ahead of this machine's" in only(jobs).message
        if store.url.startswith("postgresql"):
            option = "options=-c%20default_transaction_read_only%3Don"
            with Rowcall(f"{store.url}{'&' if '?' in store.url else '?'}{option}", auto_migrate=False) as reader:
                assert "promote this standby" in only(reader).advice
        elif server is not None:
            store.execute("set global read_only = 1")
            try:
                assert "read_only" in codes(jobs)
            finally:
                store.execute("set global read_only = 0")

    def test_the_most_urgent_comes_first(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.pause("mail")
        jobs.enqueue("send", queue="mail")
        jobs.enqueue("send")
        clock.advance(thresholds.PAUSED_SECONDS)
        assert codes(jobs) == ["no_worker", "paused"]
        assert [*THRESHOLDS] == sorted(THRESHOLDS, key=lambda code: THRESHOLDS[code].severity)

    def test_async_code_gets_the_same(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send")
        clock.advance(60)
        assert asyncio.run(jobs.aattention()) == [only(jobs)]


class TestAllIsWell:
    """A quiet queue of every kind has no finding, at any time."""

    def test_an_empty_queue(self, jobs: Rowcall, clock: FakeClock) -> None:
        for _ in range(3):
            assert jobs.attention() == []
            clock.advance(86_400)

    def test_an_empty_queue_that_was_used(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send")
        jobs.complete(jobs.claim("hand")[0])
        jobs.cancel(jobs.enqueue("send"))
        jobs.pause("mail")
        clock.advance(7 * 86_400)
        assert jobs.attention() == []

    def test_jobs_that_may_wait(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("later", delay=86_400)
        jobs.enqueue("whole", after=[jobs.enqueue("part", delay=86_400)])
        clock.advance(3600)
        assert jobs.attention() == []

    def test_a_queue_without_a_worker_whose_jobs_are_claimed_by_hand(self, jobs: Rowcall, clock: FakeClock) -> None:
        for _ in range(20):
            jobs.enqueue("send")
        worker(jobs, queues="others")
        for number in range(10):
            if number == 5:
                stop(jobs, "w1")
            (job,) = jobs.claim("hand", lease=300)
            clock.advance(200)
            assert jobs.attention() == []
            jobs.complete(job)
            clock.advance(20)
            assert jobs.attention() == []

    def test_a_busy_queue(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(limit=Limit("stripe", concurrency=2))
        def charge() -> None: ...

        jobs.add_schedule("often", "tick", every=10)
        busy = worker(jobs, tasks={"charge": "", "tick": "", "send": ""})
        for number in range(60):
            for _ in range(1 + number % 4):
                charge.enqueue()
                jobs.enqueue("send", delay=number)
            clock.advance(5)
            for ready in busy.claim(slots=8).started:
                busy.settle(ready, Succeeded())
            assert jobs.attention() == []

    def test_jobs_of_every_end(self, jobs: Rowcall, clock: FakeClock) -> None:
        busy = worker(jobs)
        for outcome in (Succeeded(), Raised(Fail("A:B"), "A:B", "text"), DOWN):
            jobs.enqueue("send")
            busy.settle(busy.start_one(), outcome)
        clock.advance(5)
        assert jobs.attention() == []


def stop(jobs: Rowcall, name: str) -> None:
    queue_of(jobs).run(Write(queue_of(jobs).dialect.ask, REMOVE_WORKER, name))
