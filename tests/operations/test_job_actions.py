"""What a person may do to a job, and may not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rowcall import InvalidOption, JobNotFound, Rowcall, WrongState
from rowcall.operations.arguments import current_user


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


def in_state(jobs: Rowcall, status: str) -> int:
    job = jobs.enqueue("task", delay=60 if status == "scheduled" else 0)
    if status in ("running", "succeeded", "failed"):
        claimed = jobs.dequeue("me")
        assert claimed is not None
        if status == "succeeded":
            jobs.complete(claimed)
        elif status == "failed":
            jobs.fail(claimed, "A:B")
            jobs.cancel(claimed.id)
    elif status == "cancelled":
        jobs.cancel(job.id)
    return job.id


def moves(jobs: Rowcall) -> dict[str, list[Callable[[Any], object]]]:
    return {
        "retry": [jobs.retry, lambda job_id: asyncio.run(jobs.aretry(job_id))],
        "cancel": [jobs.cancel, lambda job_id: asyncio.run(jobs.acancel(job_id))],
        "delete": [jobs.delete, lambda job_id: asyncio.run(jobs.adelete(job_id))],
    }


@pytest.mark.parametrize(
    ("move", "status", "said"),
    [
        ("retry", "pending", "is pending: it will run without a retry"),
        ("retry", "scheduled", "is scheduled: it will run without a retry"),
        ("retry", "running", "is running: wait for it to end, or cancel it first"),
        ("cancel", "succeeded", "has already succeeded"),
        ("cancel", "cancelled", "has already been cancelled"),
        ("delete", "running", "is running: wait for it to end, or cancel it first"),
    ],
)
def test_a_move_that_the_state_does_not_allow(jobs: Rowcall, move: str, status: str, said: str) -> None:
    job_id = in_state(jobs, status)
    before = jobs.get(job_id)
    for call in moves(jobs)[move]:
        with pytest.raises(WrongState) as caught:
            call(job_id)
        assert str(caught.value) == f"job {job_id} {said}"
        assert (caught.value.status, caught.value.move) == (status, move)
    assert jobs.get(job_id) == before


@pytest.mark.parametrize(
    ("move", "status", "after"),
    [
        ("retry", "succeeded", "pending"),
        ("retry", "cancelled", "pending"),
        ("cancel", "pending", "cancelled"),
        ("cancel", "scheduled", "cancelled"),
        ("delete", "pending", None),
        ("delete", "scheduled", None),
        ("delete", "succeeded", None),
        ("delete", "cancelled", None),
    ],
)
def test_a_move_that_the_state_allows(jobs: Rowcall, move: str, status: str, after: str | None) -> None:
    for call in moves(jobs)[move]:
        job_id = in_state(jobs, status)
        call(job_id)
        if after is None:
            with pytest.raises(JobNotFound):
                jobs.get(job_id)
        else:
            assert jobs.get(job_id).status == after
            in_the_way = jobs.list(status="pending").jobs
            for job in in_the_way:
                jobs.delete(job.id)


def test_a_job_that_is_not_there(jobs: Rowcall) -> None:
    for calls in moves(jobs).values():
        for call in calls:
            with pytest.raises(JobNotFound, match="job 7 does not exist"):
                call(7)
            with pytest.raises(InvalidOption, match="job must be"):
                call("7")


def test_a_retry_continues_with_the_next_attempt_and_adds_the_tasks_own_limit(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=3)
    def task() -> None: ...

    job_id = in_state(jobs, "succeeded")
    again = jobs.retry(job_id, actor="ann")
    assert (again.status, again.attempt, again.max_attempts, again.result) == ("pending", 1, 6, None)
    claimed = jobs.dequeue("me")
    assert claimed is not None
    assert claimed.attempt == 2
    jobs.complete(claimed)
    assert [attempt.attempt for attempt in jobs.attempts(job_id)] == [1, 2]


def test_who_did_it_and_why_is_kept(jobs: Rowcall) -> None:
    job_id = jobs.enqueue("task").id
    cancelled = jobs.cancel(job_id, "not needed", actor="ann")
    assert (cancelled.error_code, cancelled.error_detail) == ("CANCELLED:BY_HAND", "not needed")
    jobs.retry(job_id)
    said = [(event.event, event.actor, event.detail) for event in jobs.timeline(job_id)]
    assert ("CANCELLED", "ann", "not needed") in said
    assert ("MANUAL_RETRY", current_user(), None) in said


def test_odd_texts_are_made_fit_to_store(jobs: Rowcall) -> None:
    job_id = jobs.enqueue("task").id
    jobs.cancel(job_id, "a\0b\ud800" + "x" * 5000, actor="c\0d" * 1000)
    (event,) = [event for event in jobs.timeline(job_id) if event.event == "CANCELLED"]
    assert "\0" not in f"{event.actor}{event.detail}"
    assert len(event.detail or "") <= 500


def test_who_and_why_are_texts(jobs: Rowcall) -> None:
    job_id = jobs.enqueue("send").id
    jobs.add_schedule("often", "send", every=60)
    jobs.pause("mail")
    wrong: Any = 5
    calls: list[Callable[[], object]] = [
        lambda: jobs.cancel(job_id, wrong),
        lambda: jobs.cancel(reason=wrong, type="send"),
        lambda: jobs.cancel_chain(job_id, wrong),
        lambda: jobs.cancel(job_id, actor=wrong),
        lambda: jobs.retry(type="send", actor=wrong),
        lambda: jobs.reschedule(job_id, delay=5, actor=wrong),
        lambda: jobs.set_priority(job_id, 5, actor=wrong),
        lambda: jobs.pause("other", actor=wrong),
        lambda: jobs.resume("mail", actor=wrong),
        lambda: jobs.pause_schedule("often", actor=wrong),
        lambda: jobs.resume_schedule("often", actor=wrong),
        lambda: jobs.run_schedule_now("often", actor=wrong),
    ]
    for call in calls:
        with pytest.raises(InvalidOption, match=r"(actor|reason) must be a text, got 5"):
            call()
    assert [paused.name for paused in jobs.paused()] == ["mail"]
    assert [job.status for job in jobs.list().jobs] == ["pending"]


def test_wrong_use_names_the_parameter_and_the_cure(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match=r"^unknown filter 'stat' \(did you mean 'status'\?\)$"):
        jobs.cancel(stat="pending")  # type: ignore[call-overload]
    with pytest.raises(InvalidOption, match=r"^unknown filter 'x'; known filters: all, batch, chain, created_after, "):
        jobs.retry(x=1)  # type: ignore[call-overload]
