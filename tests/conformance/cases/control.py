"""What a person may do to a job: retry, cancel, delete, another time, another priority."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rowcall import (
    Backoff,
    Context,
    Fail,
    InvalidArguments,
    InvalidOption,
    Job,
    JobNotFound,
    Limit,
    Rowcall,
    Status,
    WrongState,
)
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.store import Store, all_rows


class TestRetry:
    def test_it_continues_with_the_next_attempt_number_and_adds_max_attempts(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        @jobs.task(max_attempts=2)
        def break_down() -> None:
            raise ValueError

        job_id = break_down.enqueue().id
        for _ in range(2):
            jobs.drain()
            clock.advance(600)
        assert jobs.get(job_id).status is Status.FAILED
        again = jobs.retry(job_id)
        assert again == jobs.get(job_id)
        assert (again.status, again.attempt, again.max_attempts) == (Status.PENDING, 2, 4)
        assert (again.run_at, again.finished_at, again.error_code) == (clock.now(), None, None)
        jobs.drain()
        clock.advance(600)
        jobs.drain()
        job = jobs.get(job_id)
        assert (job.status, job.attempt, job.max_attempts) == (Status.FAILED, 4, 4)
        assert [(one.attempt, one.status) for one in jobs.attempts(job_id)] == [(n, "failed") for n in range(1, 5)]

    def test_a_job_whose_task_is_not_known_here_gets_the_default(self, jobs: Rowcall) -> None:
        job_id = jobs.enqueue("elsewhere", max_attempts=1).id
        jobs.fail(jobs.claim("hand")[0], "TEST:CODE")
        assert jobs.retry(job_id).max_attempts == 6

    def test_what_succeeded_can_run_again(self, jobs: Rowcall) -> None:
        job_id = jobs.enqueue("send").id
        jobs.complete(jobs.claim("hand")[0], "first")
        assert jobs.retry(job_id).result is None
        second = jobs.claim("hand")[0]
        assert (second.id, second.attempt) == (job_id, 2)
        jobs.complete(second, "second")
        assert jobs.get(job_id).result == "second"
        assert [one.status for one in jobs.attempts(job_id)] == ["succeeded", "succeeded"]

    def test_what_was_cancelled_can_run_again(self, jobs: Rowcall) -> None:
        job_id = jobs.enqueue("send", delay=3600).id
        jobs.cancel(job_id)
        jobs.retry(job_id)
        again = jobs.claim("hand")[0]
        assert (again.id, again.attempt) == (job_id, 1)

    @pytest.mark.parametrize("state", ["scheduled", "pending", "running"])
    def test_only_what_has_finished(self, jobs: Rowcall, store: Store, state: str) -> None:
        job = _in_state(jobs, state)
        _refused(jobs, store, job, "retry")


class TestCancel:
    @pytest.mark.parametrize("state", ["scheduled", "pending"])
    def test_what_waits_is_cancelled(self, jobs: Rowcall, clock: FakeClock, state: str) -> None:
        job = _in_state(jobs, state)
        done = jobs.cancel(job.id, "no longer needed")
        assert done == jobs.get(job.id)
        assert (done.status, done.error_code, done.error_detail) == (
            Status.CANCELLED,
            "CANCELLED:BY_HAND",
            "no longer needed",
        )
        assert done.finished_at == clock.now()
        clock.advance(100_000)
        assert jobs.dequeue("hand") is None

    @pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
    def test_what_has_finished_is_not(self, jobs: Rowcall, store: Store, state: str) -> None:
        _refused(jobs, store, _in_state(jobs, state), "cancel")


class TestReschedule:
    @pytest.mark.parametrize("how", ["reschedule", "edit"])
    def test_another_time_wakes_a_sleeper(self, jobs: Rowcall, clock: FakeClock, how: str) -> None:
        calls: list[str] = []

        def fail() -> None:
            calls.append("fail")
            raise ValueError("broken")

        @jobs.task
        def nap(ctx: Context) -> str:
            ctx.sleep(3600)
            return "awake"

        @jobs.task
        def stumble(ctx: Context) -> None:
            ctx.step("fails", fail, retry=Backoff.constant(3600))

        sleeper, stumbling = nap.enqueue(), stumble.enqueue()
        jobs.drain()
        change = jobs.reschedule if how == "reschedule" else jobs.edit
        change(sleeper.id, delay=10)
        change(stumbling.id, delay=0)
        jobs.drain()
        assert (jobs.get(sleeper.id).status, calls) == ("scheduled", ["fail", "fail"])
        clock.advance(10)
        jobs.drain()
        assert jobs.get(sleeper.id).result == "awake"

    def test_a_job_that_waits_is_edited(self, jobs: Rowcall) -> None:
        @jobs.task
        def greet(name: str) -> str:
            return f"hello {name}"

        job = greet.using(delay=3600, tags=["old", "both"], timeout=5).enqueue("Ann")
        changed = jobs.edit(
            job, {"name": "Bob"}, tags=["both", "new"], queue="vip", priority=7, max_attempts=2, delay=0, actor="eve"
        )
        assert (changed.payload, changed.tags, changed.timeout) == ({"name": "Bob"}, ("both", "new"), 5)
        assert (changed.queue, changed.priority, changed.max_attempts, changed.status) == ("vip", 7, 2, "pending")
        found = {tag: [one.id for one in jobs.list(tag=tag, status="pending").jobs] for tag in ("old", "both", "new")}
        assert found == {"old": [], "both": [job.id], "new": [job.id]}
        edited = [(event.actor, event.detail) for event in jobs.timeline(job) if event.event == "EDITED"]
        assert edited == [("eve", "payload, tags, queue, priority, max_attempts, delay")]
        assert jobs.edit(job, tags=[]).tags == ()
        assert jobs.drain(queues=["vip"]).succeeded == 1
        assert jobs.get(job).result == "hello Bob"

    def test_an_edit_of_arguments_keeps_the_key_and_the_limits_of_the_enqueue(self, jobs: Rowcall) -> None:
        @jobs.task(key=lambda user, day=1: f"user-{user}", limit=Limit("users", concurrency=1, by="user"))
        def index(user: int, day: int = 1) -> None: ...

        job = index.enqueue(1)
        with pytest.raises(InvalidOption, match="key cannot be changed: these arguments have the key 'user-2'"):
            jobs.edit(job, {"user": 2})
        assert jobs.edit(job, {"user": 1, "day": 2}).key == "user-1"

        @jobs.task(limit=Limit("mailboxes", concurrency=1, by="box"))
        def send(box: str) -> None: ...

        usual, other = send.enqueue("a"), send.using(limit=Limit("slow", concurrency=1)).enqueue("a")
        for edited in (usual, other):
            jobs.edit(edited, {"box": "b"})
        send.enqueue("b")
        running = jobs.claim("hand", limit=10)
        assert [one.id for one in running] == [job.id, usual.id, other.id]  # the third of box b is held
        send.using(limit=Limit("slow", concurrency=1)).enqueue("z")
        assert jobs.claim("hand", limit=10) == []

    def test_an_edit_that_is_refused_changes_nothing(self, jobs: Rowcall) -> None:
        @jobs.task
        def greet(name: str) -> None: ...

        job = greet.using(queue="mine").enqueue("Ann")
        for arguments, options, error in (
            ({"name": 7}, {}, InvalidArguments),
            ({"nam": "Bob"}, {}, InvalidArguments),
            (None, {"key": "k"}, InvalidOption),
            (None, {"prority": 1}, InvalidOption),
            (None, {"priority": "high"}, InvalidOption),
            (None, {}, InvalidOption),
        ):
            with pytest.raises(error):
                jobs.edit(job, arguments, **options)
        assert jobs.get(job) == job
        (claimed,) = jobs.claim("hand", queues=["mine"])
        with pytest.raises(WrongState, match="is running"):
            jobs.edit(job, {"name": "Bob"})
        jobs.complete(claimed)
        with pytest.raises(WrongState, match="has already succeeded"):
            jobs.edit(job, priority=1)
        with pytest.raises(JobNotFound):
            jobs.edit(job.id + 100, priority=1)

    def test_a_job_that_waits_gets_another_time(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send", delay=3600, tags=["late"])
        sooner = jobs.reschedule(job.id, delay=60)
        assert sooner == jobs.get(job.id)
        assert (sooner.status, sooner.run_at) == (Status.SCHEDULED, clock.now() + timedelta(seconds=60))
        clock.advance(59)
        assert jobs.dequeue("hand") is None
        clock.advance(1)
        assert jobs.dequeue("hand") is not None

    def test_what_could_run_waits_and_what_waits_can_run(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send", tags=["moved"])
        later = jobs.reschedule(job.id, run_at=clock.now() + timedelta(hours=1))
        assert later.status is Status.SCHEDULED
        assert jobs.dequeue("hand") is None
        assert [found.id for found in jobs.list(status="scheduled", tag="moved").jobs] == [job.id]
        now = jobs.reschedule(job.id, run_at=clock.now())
        assert now.status is Status.PENDING
        assert jobs.dequeue("hand") is not None

    def test_a_blocked_one_has_it_when_it_is_blocked_no_longer(self, jobs: Rowcall, clock: FakeClock) -> None:
        blocker = jobs.enqueue("send")
        job = jobs.enqueue("send", after=[blocker])
        later = jobs.reschedule(job.id, delay=60)
        assert (later.status, later.run_at) == (Status.BLOCKED, clock.now() + timedelta(seconds=60))
        jobs.complete(_claim(jobs))
        assert jobs.get(job.id).status is Status.SCHEDULED
        clock.advance(60)
        assert _claim(jobs).id == job.id

    def test_who_did_it_and_what_it_was(self, jobs: Rowcall) -> None:
        job = jobs.enqueue("send", run_at=datetime(2030, 1, 2, 3, 4, 5, 678000, UTC))
        jobs.reschedule(job.id, run_at=datetime(2031, 1, 1, tzinfo=UTC), actor="ann")
        event = jobs.timeline(job.id)[-1]
        assert (event.event, event.actor) == ("RESCHEDULED", "ann")
        assert event.detail == "from 2030-01-02 03:04:05.678 UTC to 2031-01-01 00:00:00.000 UTC"

    @pytest.mark.parametrize("state", ["running", "succeeded", "failed", "cancelled"])
    def test_nothing_else_does(self, jobs: Rowcall, store: Store, state: str) -> None:
        job = _in_state(jobs, state)
        before = all_rows(store)
        with pytest.raises(WrongState) as wrong:
            jobs.reschedule(job.id, delay=5)
        assert (wrong.value.move, wrong.value.status) == ("reschedule", state)
        assert all_rows(store) == before

    def test_wrong_times_are_refused(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send")
        for given in ({}, {"delay": 5, "run_at": clock.now()}, {"delay": -1}, {"run_at": datetime(2030, 1, 1)}):
            with pytest.raises(InvalidOption):
                jobs.reschedule(job.id, **given)
        assert jobs.get(job.id) == job


class TestPriority:
    def test_it_decides_from_now_on(self, jobs: Rowcall) -> None:
        first, second = jobs.enqueue("send").id, jobs.enqueue("send").id
        assert jobs.set_priority(second, 5, actor="ann").priority == 5
        assert [job.id for job in jobs.claim("hand", limit=2)] == [second, first]
        event = next(event for event in jobs.timeline(second) if event.event == "PRIORITY_CHANGED")
        assert (event.actor, event.detail) == ("ann", "from 0 to 5")

    def test_of_a_running_job_from_its_next_attempt_on(self, jobs: Rowcall) -> None:
        first, second = jobs.enqueue("send").id, jobs.enqueue("send").id
        claimed = jobs.claim("hand")[0]
        assert claimed.id == first
        jobs.set_priority(first, -1)
        jobs.release(claimed)
        assert [job.id for job in jobs.claim("hand", limit=2)] == [second, first]

    @pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
    def test_a_finished_job_has_no_turn_in_a_queue(self, jobs: Rowcall, store: Store, state: str) -> None:
        job = _in_state(jobs, state)
        before = all_rows(store)
        with pytest.raises(WrongState):
            jobs.set_priority(job.id, 5)
        assert all_rows(store) == before

    @pytest.mark.parametrize("priority", [None, 1.5, True, 2**31])
    def test_what_is_none_is_refused(self, jobs: Rowcall, priority: int) -> None:
        job = jobs.enqueue("send")
        with pytest.raises(InvalidOption):
            jobs.set_priority(job.id, priority)


class TestDelete:
    @pytest.mark.parametrize("state", ["scheduled", "pending", "succeeded", "failed", "cancelled"])
    def test_what_is_not_running_goes_with_all_its_history(self, jobs: Rowcall, store: Store, state: str) -> None:
        other = jobs.enqueue("other", delay=3600)
        before = all_rows(store)
        job = _in_state(jobs, state, history=True)
        jobs.delete(job.id)
        assert all_rows(store) == before
        with pytest.raises(JobNotFound):
            jobs.get(job.id)
        assert jobs.list(tag="doomed").jobs == []
        assert jobs.get(other.id) == other

    def test_a_running_job_stays(self, jobs: Rowcall, store: Store) -> None:
        _refused(jobs, store, _in_state(jobs, "running"), "delete")

    def test_twice_is_not_found(self, jobs: Rowcall) -> None:
        job_id = jobs.enqueue("send").id
        jobs.delete(job_id)
        for steer in (jobs.delete, jobs.cancel, jobs.retry):
            with pytest.raises(JobNotFound):
                steer(job_id)


def _in_state(jobs: Rowcall, state: str, *, history: bool = False) -> Job:
    """A job in that state; with `history`, it has attempts and events behind it."""
    job_id = jobs.enqueue("send", tags=["doomed"], max_attempts=50).id
    if history:
        for _ in range(3):
            jobs.release(_claim(jobs))
        jobs.complete(_claim(jobs))
        jobs.retry(job_id)
    match state:
        case "scheduled":
            jobs.fail(_claim(jobs), "TEST:CODE")
        case "running":
            _claim(jobs)
        case "succeeded":
            jobs.complete(_claim(jobs))
        case "failed":
            _fail(jobs)
        case "cancelled":
            jobs.cancel(job_id)
    job = jobs.get(job_id)
    assert job.status == state
    return job


def _claim(jobs: Rowcall) -> Job:
    return jobs.claim("hand")[0]


def _fail(jobs: Rowcall) -> None:
    jobs.fail(_claim(jobs), Fail("TEST:OVER"))


def _refused(jobs: Rowcall, store: Store, job: Job, move: str) -> None:
    before = all_rows(store)
    with pytest.raises(WrongState) as wrong:
        getattr(jobs, move)(job.id)
    assert (wrong.value.job_id, wrong.value.status, wrong.value.move) == (job.id, job.status, move)
    assert all_rows(store) == before
