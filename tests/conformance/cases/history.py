"""Attempts and timeline: what happened, in order, to whom and by whom."""

from __future__ import annotations

from datetime import timedelta

from rowcall import Rowcall, Snooze
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.worker_parts import watcher


class TestHistory:
    def test_a_job_that_was_never_claimed_has_no_attempts(self, jobs: Rowcall) -> None:
        job_id = jobs.enqueue("send").id
        assert jobs.attempts(job_id) == []
        assert [event.event for event in jobs.timeline(job_id)] == ["ENQUEUED"]

    def test_a_running_attempt_is_shown(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send").id
        jobs.claim("hand")
        (attempt,) = jobs.attempts(job_id)
        assert (attempt.attempt, attempt.status, attempt.worker, attempt.finished_at) == (1, "running", "hand", None)
        assert attempt.claimed_at == attempt.started_at == clock.now()

    def test_every_attempt_keeps_its_own_facts(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send").id
        start = clock.now()
        first = jobs.claim("one")[0]
        clock.advance(2)
        jobs.fail(first, "TEST:FIRST", "the first")
        clock.advance(30)
        second = jobs.claim("two")[0]
        clock.advance(3)
        jobs.fail(second, ValueError("the second"))
        clock.advance(60)
        third = jobs.claim("three")[0]
        clock.advance(4)
        jobs.complete(third, "done")
        one, two, three = jobs.attempts(job_id)
        assert (one.attempt, one.status, one.worker, one.error_code, one.error_detail) == (
            (1, "failed", "one", "TEST:FIRST", "the first")
        )
        assert one.claimed_at == start
        assert one.finished_at == start + timedelta(seconds=2)
        assert one.next_run_at == start + timedelta(seconds=32)
        assert (two.attempt, two.status, two.worker, two.error_code) == (2, "failed", "two", "INTERNAL:ValueError")
        assert two.next_run_at == start + timedelta(seconds=95)
        assert two.traceback is not None
        assert "ValueError: the second" in two.traceback
        assert (three.attempt, three.status, three.worker, three.error_code) == (3, "succeeded", "three", None)
        assert three.claimed_at == start + timedelta(seconds=95)
        assert three.finished_at == start + timedelta(seconds=99)
        assert three.next_run_at is None

    def test_a_traceback_is_kept_for_a_handler_that_raised(self, jobs: Rowcall) -> None:
        @jobs.task
        def break_down() -> None:
            raise LookupError("the needle")

        job_id = break_down.using(max_attempts=1).enqueue().id
        jobs.drain()
        (attempt,) = jobs.attempts(job_id)
        assert attempt.traceback is not None
        assert "LookupError: the needle" in attempt.traceback
        assert "in break_down" in attempt.traceback

    def test_the_timeline_of_a_long_story(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send", max_attempts=2).id
        clock.advance(1)
        jobs.release(jobs.claim("one")[0])
        clock.advance(1)
        jobs.fail(jobs.claim("two")[0], Snooze(delay=5))
        clock.advance(5)
        jobs.fail(jobs.claim("three")[0], "TEST:CODE", "detail")
        clock.advance(30)
        jobs.claim("four", lease=10)
        clock.advance(10)
        watcher(jobs).check()
        clock.advance(1)
        jobs.retry(job_id, actor="ann")
        clock.advance(1)
        last = jobs.claim("five")[0]
        clock.advance(1)
        jobs.heartbeat(last)
        clock.advance(1)
        jobs.complete(last)
        timeline = jobs.timeline(job_id)
        assert [event.at for event in timeline] == sorted(event.at for event in timeline)
        assert [(event.event, event.actor) for event in timeline] == [
            ("ENQUEUED", None),
            ("CLAIMED", "one"),
            ("STARTED", "one"),
            ("RELEASED", "one"),
            ("CLAIMED", "two"),
            ("STARTED", "two"),
            ("SNOOZED", "two"),
            ("CLAIMED", "three"),
            ("STARTED", "three"),
            ("FAILED", "three"),
            ("RETRY_SCHEDULED", None),
            ("CLAIMED", "four"),
            ("STARTED", "four"),
            ("RECOVERED", None),
            ("FAILED", None),
            ("MANUAL_RETRY", "ann"),
            ("CLAIMED", "five"),
            ("STARTED", "five"),
            ("SUCCEEDED", "five"),
        ]
        (snoozed,) = [event for event in timeline if event.event == "SNOOZED"]
        assert snoozed.detail == f"until {snoozed.at + timedelta(seconds=5):%Y-%m-%d %H:%M:%S}.000 UTC"

    def test_a_lost_job_that_has_failed_says_both(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send", max_attempts=1).id
        jobs.claim("hand", lease=10)
        clock.advance(10)
        watcher(jobs).check()
        assert [event.event for event in jobs.timeline(job_id)][-2:] == ["RECOVERED", "FAILED"]

    def test_a_job_that_was_cancelled_or_expired_says_so(self, jobs: Rowcall, clock: FakeClock) -> None:
        cancelled, expired = jobs.enqueue("send", delay=60).id, jobs.enqueue("send", expires_in=1).id
        jobs.cancel(cancelled, "not needed", actor="ann")
        clock.advance(1)
        jobs.dequeue("hand")
        last = jobs.timeline(cancelled)[-1]
        assert (last.event, last.actor, last.detail) == ("CANCELLED", "ann", "not needed")
        assert jobs.timeline(expired)[-1].event == "EXPIRED"

    def test_the_timeline_of_a_worker_s_job_is_in_order(self, jobs: Rowcall) -> None:
        @jobs.task
        def nothing() -> None: ...

        job_id = nothing.enqueue().id
        jobs.drain()
        assert [event.event for event in jobs.timeline(job_id)] == ["ENQUEUED", "CLAIMED", "STARTED", "SUCCEEDED"]
