"""Working without a worker: what is accepted, what is refused, and the async twins of all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rowcall import Backoff, Fail, InvalidArguments, InvalidOption, Job, JobNotFound, LeaseLost, Retry, Rowcall, Snooze
from rowcall.testing import FakeClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def jobs(tmp_path: Path, clock: FakeClock) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db", clock=clock) as jobs:
        yield jobs


def claimed(jobs: Rowcall, **options: Any) -> Job:
    jobs.enqueue("task", {"a": 1}, **options)
    job = jobs.dequeue("me")
    assert job is not None
    return job


def settle_calls(jobs: Rowcall) -> list[Callable[[Job], object]]:
    return [
        lambda job: jobs.complete(job, {"ok": True}),
        lambda job: jobs.fail(job, "A:B", "why"),
        lambda job: jobs.fail(job, ValueError("no")),
        jobs.release,
        jobs.heartbeat,
        lambda job: asyncio.run(jobs.acomplete(job)),
        lambda job: asyncio.run(jobs.afail(job, "A:B")),
        lambda job: asyncio.run(jobs.arelease(job)),
        lambda job: asyncio.run(jobs.aheartbeat(job)),
    ]


def test_what_is_claimed_is_what_the_row_says(jobs: Rowcall) -> None:
    job = claimed(jobs, priority=3, tags=["a"], timeout=5, expires_in=60, retry=Backoff.constant(1))
    assert (job.status, job.attempt, job.worker, job.claimed_at, job.started_at) == ("running", 1, "me", NOON, NOON)
    assert jobs.get(job.id) == job


def test_nothing_to_claim(jobs: Rowcall) -> None:
    assert jobs.dequeue("me") is None
    assert jobs.claim("me", limit=10) == []
    assert asyncio.run(jobs.adequeue("me")) is None
    assert asyncio.run(jobs.aclaim("me", limit=10)) == []


def test_a_result_is_kept_as_json(jobs: Rowcall) -> None:
    job = claimed(jobs)
    jobs.complete(job, {"ok": [1, None]})
    assert jobs.get(job.id).result == {"ok": [1, None]}


def test_a_result_that_json_cannot_hold_is_refused_and_the_job_is_still_yours(jobs: Rowcall) -> None:
    job = claimed(jobs)
    for result in (object(), float("nan"), "\ud800"):
        with pytest.raises(InvalidArguments):
            jobs.complete(job, result)
    jobs.complete(job)
    assert jobs.get(job.id).status == "succeeded"


@pytest.mark.parametrize(
    ("error", "status", "code", "run_at"),
    [
        ("A:B", "scheduled", "A:B", NOON + timedelta(seconds=30)),
        (ValueError("why"), "scheduled", "INTERNAL:ValueError", NOON + timedelta(seconds=30)),
        (Fail("A:B", "why"), "failed", "A:B", NOON),
        (Retry(delay=5, reason="why"), "scheduled", "RETRY:REQUESTED", NOON + timedelta(seconds=5)),
        (Snooze(delay=5), "scheduled", None, NOON + timedelta(seconds=5)),
    ],
)
def test_a_failure_is_a_code_or_an_exception(
    jobs: Rowcall, error: Any, status: str, code: str | None, run_at: datetime
) -> None:
    job = claimed(jobs)
    jobs.fail(job, error, "why")
    after = jobs.get(job.id)
    assert (after.status, after.error_code, after.run_at) == (status, code, run_at)
    assert after.error_detail == (None if code is None else "why")


@pytest.mark.parametrize("error", ["", None, 5, ["A:B"], ":", "A::B", "A: B", "A:\0", "A:" + "B" * 99])
def test_another_failure_is_refused(jobs: Rowcall, error: Any) -> None:
    job = claimed(jobs)
    with pytest.raises(InvalidOption, match="TIMEOUT:UPSTREAM_API"):
        jobs.fail(job, error)
    jobs.heartbeat(job)


def test_a_detail_is_made_fit_to_store(jobs: Rowcall) -> None:
    job = claimed(jobs)
    jobs.fail(job, "A:" + "B" * 98, "a\0b" + "x" * 5000)
    after = jobs.get(job.id)
    assert len(after.error_code or "") == 100
    assert len(after.error_detail or "") == 500
    assert "\0" not in (after.error_detail or "")


def test_after_it_is_settled_it_is_no_longer_yours(jobs: Rowcall) -> None:
    for settle in settle_calls(jobs)[:4]:
        job = claimed(jobs)
        settle(job)
        before = jobs.get(job.id)
        for call in settle_calls(jobs):
            with pytest.raises(LeaseLost, match=f"job {job.id} is no longer yours"):
                call(job)
        assert jobs.get(job.id) == before
        if before.status != "succeeded":
            jobs.cancel(job.id)


def test_a_snapshot_that_was_never_a_claim_settles_nothing(jobs: Rowcall) -> None:
    job = jobs.enqueue("task")
    for call in settle_calls(jobs):
        with pytest.raises(LeaseLost, match=f"^job {job.id} was not claimed by you; pass the Job that claim or"):
            call(job)
    assert jobs.get(job.id) == job


@pytest.mark.parametrize("job", [1, None, "1", {"id": 1}])
def test_what_is_no_job_is_refused_by_name(jobs: Rowcall, job: Any) -> None:
    for call in settle_calls(jobs):
        with pytest.raises((InvalidOption, JobNotFound), match=r"job must be a Job|job 1 does not exist"):
            call(job)
    for only_jobs in (jobs.fail, jobs.release, jobs.heartbeat):
        with pytest.raises(InvalidOption, match="job must be a Job that claim"):
            only_jobs(job, *["A:B"][: only_jobs == jobs.fail])


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"worker": ""}, "worker"),
        ({"worker": None}, "worker"),
        ({"worker": "a\0b"}, "worker"),
        ({"worker": "\ud800"}, "worker"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"limit": "5"}, "limit"),
        ({"limit": True}, "limit"),
        ({"lease": 0}, "lease"),
        ({"lease": -1}, "lease"),
        ({"lease": "5"}, "lease"),
        ({"queues": "mail"}, "queues"),
    ],
)
def test_a_wrong_claim_is_refused(jobs: Rowcall, given: dict[str, Any], option: str) -> None:
    job = jobs.enqueue("task")
    for claim in (jobs.claim, lambda *args, **kwargs: asyncio.run(jobs.aclaim(*args, **kwargs))):
        with pytest.raises(InvalidOption) as caught:
            claim(**{"worker": "me", **given})
        assert caught.value.option == option
    assert jobs.get(job.id) == job


def test_queues_narrow_a_claim(jobs: Rowcall) -> None:
    jobs.enqueue("a", queue="mail")
    jobs.enqueue("b", queue="media")
    assert [job.type for job in jobs.claim("me", limit=5, queues=["media", "other"])] == ["b"]
    for wrong in ([], "mail", [3]):
        with pytest.raises(InvalidOption, match="queues"):
            jobs.dequeue("me", queues=wrong)  # type: ignore[arg-type]
    assert [job.type for job in asyncio.run(jobs.aclaim("me", limit=5, queues=("mail",)))] == ["a"]


def test_a_lease_that_ran_out_lets_another_claim_the_job(jobs: Rowcall, clock: FakeClock) -> None:
    mine = claimed(jobs)
    clock.advance(299)
    jobs.heartbeat(mine)
    clock.advance(299)
    assert jobs.dequeue("other") is None
    clock.advance(2)
    theirs = jobs.dequeue("other")
    assert theirs is not None
    assert (theirs.id, theirs.attempt, theirs.worker) == (mine.id, 2, "other")
    with pytest.raises(LeaseLost):
        jobs.complete(mine)
    jobs.complete(theirs)
    assert [attempt.status for attempt in jobs.attempts(mine.id)] == ["lost", "succeeded"]


def test_the_tasks_own_retry_policy_rules_by_hand_too(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    def broken(attempt: int, error: BaseException) -> float:
        raise RuntimeError("broken policy")

    @jobs.task(retry=Backoff.constant(7))
    def patient() -> None: ...

    @jobs.task(retry=broken)
    def puzzled() -> None: ...

    for task, seconds in ((patient, 7), (patient.using(retry=Backoff.constant(9)), 9), (puzzled, 30)):
        task.enqueue()
        job = jobs.dequeue("me")
        assert job is not None
        jobs.fail(job, "A:B")
        assert jobs.get(job.id).run_at == NOON + timedelta(seconds=seconds)
    assert "a retry policy failed; used the default policy" in caplog.text
