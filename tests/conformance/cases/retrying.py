"""Retry many jobs, after a fix; when a handler is retried, and what it knows of its last error."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowcall import Backoff, Context, DuplicateJob, Fail, InvalidOption, Retry, Rowcall, Snooze, Status, WrongState
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.store import Store


class TestTimesAndErrors:
    @pytest.mark.parametrize("control", [Retry, Snooze])
    def test_a_handler_names_the_time(self, jobs: Rowcall, clock: FakeClock, control: type[Retry | Snooze]) -> None:
        at = clock.now() + timedelta(hours=1)

        @jobs.task
        def wait() -> None:
            raise control(run_at=at)

        job = wait.enqueue()
        jobs.drain()
        assert (jobs.get(job).status, jobs.get(job).run_at) == ("scheduled", at)
        assert jobs.attempts(job)[0].next_run_at == at

    def test_an_attempt_knows_the_last_error(self, jobs: Rowcall) -> None:
        seen = []

        @jobs.task(retry=Backoff.constant(0), max_attempts=3)
        def flaky(ctx: Context) -> None:
            seen.append((ctx.job.error_code, ctx.job.error_detail))
            if ctx.job.attempt < 3:
                raise ValueError(f"attempt {ctx.job.attempt}")

        job = flaky.enqueue()
        jobs.drain()
        code = "INTERNAL:ValueError"
        assert seen == [(None, None), (code, "attempt 1"), (code, "attempt 2")]
        assert jobs.get(job).error_code is None

    def test_a_claim_by_hand_knows_it_too(self, jobs: Rowcall) -> None:
        jobs.enqueue("count", retry=Backoff.constant(0))
        (job,) = jobs.claim("hand")
        jobs.fail(job, "TEST:FIRST", "once")
        (job,) = jobs.claim("hand")
        assert (job.error_code, job.error_detail) == ("TEST:FIRST", "once")


class TestRetryByFilter:
    def test_by_code_exact_or_by_its_beginning(self, jobs: Rowcall) -> None:
        ids = {
            code: _failed(jobs, code) for code in ("TIMEOUT:HANDLER", "TIMEOUT:UPSTREAM", "TIMEOUTS:NONE", "OTHER:X")
        }
        assert jobs.retry(error_code="TIMEOUT:HANDLER") == 1
        assert _statuses(jobs, ids) == ["pending", "failed", "failed", "failed"]
        assert jobs.retry(error_code="TIMEOUT:*", actor="ann") == 1
        assert _statuses(jobs, ids) == ["pending", "pending", "failed", "failed"]
        assert jobs.retry(error_code="NOTHING:*") == 0
        assert jobs.retry(status="failed") == 2
        event = jobs.timeline(ids["TIMEOUT:UPSTREAM"])[-1]
        assert (event.event, event.actor) == ("MANUAL_RETRY", "ann")
        assert jobs.stats().by_status["failed"] == 0

    def test_by_type_queue_and_tag(self, jobs: Rowcall) -> None:
        wanted = _failed(jobs, "A:B", kind="send", queue="mail", tags=["vip"])
        others = [
            _failed(jobs, "A:B", kind="fetch", queue="mail", tags=["vip"]),
            _failed(jobs, "A:B", kind="send", tags=["vip"]),
            _failed(jobs, "A:B", kind="send", queue="mail"),
        ]
        for code in (None, "A:*"):
            assert jobs.retry(type="send", queue="mail", tag="vip", error_code=code) == 1
            assert jobs.get(wanted).status is Status.PENDING
            assert {jobs.get(job_id).status for job_id in others} == {Status.FAILED}
            jobs.fail(jobs.claim("hand")[0], Fail("A:B"))

    def test_what_was_cancelled_if_that_is_said(self, jobs: Rowcall, clock: FakeClock) -> None:
        expired = jobs.enqueue("send", expires_in=5).id
        by_hand = jobs.enqueue("send").id
        jobs.cancel(by_hand)
        clock.advance(6)
        assert jobs.dequeue("hand") is None
        assert jobs.retry(status="cancelled", error_code="EXPIRED:*") == 1
        assert [jobs.get(job_id).status for job_id in (expired, by_hand)] == ["pending", "cancelled"]

    def test_those_that_failed_first_come_first_and_so_many_at_most(self, jobs: Rowcall, clock: FakeClock) -> None:
        ids = []
        for _ in range(3):
            ids.append(_failed(jobs, "A:B"))
            clock.advance(1)
        assert jobs.retry(error_code="A:B", limit=2) == 2
        assert [jobs.get(job_id).status for job_id in ids] == ["pending", "pending", "failed"]

    def test_a_rate_spreads_them(self, jobs: Rowcall, clock: FakeClock) -> None:
        ids = []
        for _ in range(3):
            ids.append(_failed(jobs, "A:B"))
            clock.advance(1)
        now = clock.now()
        assert jobs.retry(error_code="A:*", rate=2) == 3
        again = [jobs.get(job_id) for job_id in ids]
        assert [job.run_at for job in again] == [now + timedelta(seconds=n / 2) for n in range(3)]
        assert [job.status for job in again] == ["pending", "scheduled", "scheduled"]
        assert len(jobs.claim("hand", limit=10)) == 1
        clock.advance(0.5)
        assert len(jobs.claim("hand", limit=10)) == 1

    def test_more_than_fit_into_one_transaction(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(max_attempts=1)
        def send() -> None:
            raise Fail("A:B")

        send.enqueue_many([{}] * 450)
        jobs.drain()
        assert jobs.retry(status="failed", limit=300, rate=100) == 300
        counts = jobs.stats().by_status
        assert (counts["failed"], counts["pending"], counts["scheduled"]) == (150, 1, 299)
        last = max(job.run_at for job in jobs.list(status="scheduled", limit=1000).jobs)
        assert last == clock.now() + timedelta(seconds=2.99)
        assert jobs.retry(error_code="A:B") == 150
        assert {job.max_attempts for job in jobs.list(limit=1000).jobs} == {2}

    @pytest.mark.parametrize(
        ("chosen", "said"),
        [
            ({}, "this matches every job"),
            ({"rate": 5}, "this matches every job"),
            ({"status": "pending"}, "must be one of succeeded, failed, cancelled"),
            ({"queue": "mail", "rate": 0}, "must be a number of jobs per second"),
            ({"queue": "mail", "rate": "5"}, "must be a number of jobs per second"),
            ({"error_code": ""}, "must look like"),
            ({"error_codes": "A:B"}, "unknown filter"),
            ({"job": 1, "queue": "mail"}, "cannot be combined with a job"),
        ],
        ids=str,
    )
    def test_what_is_no_filter_is_refused(self, jobs: Rowcall, chosen: dict[str, object], said: str) -> None:
        job_id = _failed(jobs, "A:B")
        with pytest.raises(InvalidOption, match=said):
            jobs.retry(**chosen)  # type: ignore[call-overload]
        assert jobs.get(job_id).status is Status.FAILED

    def test_a_key_that_is_taken_meanwhile(self, jobs: Rowcall, store: Store) -> None:
        first, second, third = _failed(jobs, "A:B"), _failed(jobs, "A:B"), jobs.enqueue("send", delay=60).id
        store.execute("""update rowcall_job set "key" = 'order-1'""")
        with pytest.raises(DuplicateJob) as taken:
            jobs.retry(first)
        assert (taken.value.task, taken.value.key, taken.value.job_id) == ("send", "order-1", third)
        assert jobs.retry(status="failed") == 0
        jobs.cancel(third)
        assert jobs.retry(status="failed") == 1  # one of the two
        assert [jobs.get(job_id).status for job_id in (first, second)] == ["pending", "failed"]

    def test_only_the_last_step_of_a_chain(self, jobs: Rowcall, store: Store) -> None:
        first, last = _failed(jobs, "A:B"), _failed(jobs, "A:B")
        store.execute(f"update rowcall_job set chain_id = {first}, chain_index = id - {first}")
        with pytest.raises(WrongState, match=f"a step of chain {first}, and job {last} came after it"):
            jobs.retry(first)
        assert jobs.get(first).status is Status.FAILED
        assert jobs.retry(last).status is Status.PENDING


def _failed(
    jobs: Rowcall, code: str, *, kind: str = "send", queue: str = "default", tags: list[str] | None = None
) -> int:
    job_id = jobs.enqueue(kind, queue=queue, tags=tags or []).id
    claimed = jobs.claim("hand", limit=1)[0]
    assert claimed.id == job_id
    jobs.fail(claimed, Fail(code))
    return job_id


def _statuses(jobs: Rowcall, ids: dict[str, int]) -> list[str]:
    return [jobs.get(job_id).status for job_id in ids.values()]
