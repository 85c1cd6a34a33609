from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rowcall import InProgress, Job, Status
from rowcall.domain.payload import MISMATCH_CODE
from rowcall.overview.jobs import detail, progress, running_seconds, when
from rowcall.overview.liveness import Liveness

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_job(status: Status, **changes: object) -> Job:
    fields: dict[str, object] = {
        "id": 1,
        "type": "send",
        "queue": "default",
        "payload": {},
        "priority": 0,
        "attempt": 0,
        "max_attempts": 5,
        "run_at": NOON,
        "created_at": NOON,
    }
    return Job(status=status, **{**fields, **changes})  # type: ignore[arg-type]


def running(**changes: object) -> InProgress:
    job = a_job(Status.RUNNING, **changes)
    return InProgress(**{name: getattr(job, name) for name in job.__struct_fields__}, silent_for=2.0)


@pytest.mark.parametrize(
    ("job", "shown"),
    [
        (a_job(Status.SUCCEEDED, finished_at=NOON), "ended 40 s ago"),
        (a_job(Status.RUNNING, claimed_at=NOON), "running for 40 s"),
        (a_job(Status.SCHEDULED, run_at=NOON + timedelta(seconds=50)), "due in 10 s"),
        (a_job(Status.SCHEDULED, run_at=datetime(9999, 12, 31, tzinfo=UTC)), "due when signalled"),
        (a_job(Status.SCHEDULED, run_at=NOON), "waiting for 40 s"),
        (a_job(Status.PENDING, run_at=NOON - timedelta(hours=1)), "waiting for 40 s"),
    ],
)
def test_the_time_that_matters(job: Job, shown: str) -> None:
    assert when(job, NOON + timedelta(seconds=40)) == shown


def test_a_running_job_names_its_worker_and_whether_that_is_alive() -> None:
    job = a_job(Status.RUNNING, worker="w", error_code="A:B")
    assert detail(job, {}) == "on w"
    assert detail(job, {"w": Liveness.GONE}) == "on w (gone)"


def test_an_error_is_shown_by_its_first_line_and_shortened() -> None:
    assert detail(a_job(Status.FAILED, error_code="A:B", error_detail="one\ntwo"), {}) == "A:B: one"
    long = detail(a_job(Status.FAILED, error_code="A:B", error_detail="x" * 100), {})
    assert (len(long), long[-4:]) == (60, "x...")
    assert detail(a_job(Status.FAILED, error_code="A:B"), {}) == "A:B"
    assert detail(a_job(Status.SUCCEEDED), {}) == ""


def test_a_job_that_no_worker_accepts_says_so() -> None:
    job = a_job(Status.PENDING, error_code=MISMATCH_CODE, error_detail="no 'to'")
    assert detail(job, {}) == "no worker accepts it: no 'to'"


def test_progress_and_its_message() -> None:
    assert progress(running(progress=0.5, progress_message="half")) == "50% half"
    assert progress(running(progress_message="begun")) == "begun"
    assert progress(running()) == ""


def test_the_time_of_an_attempt_includes_the_silence_since_its_heartbeat() -> None:
    assert running_seconds(running(started_at=NOON, heartbeat_at=NOON + timedelta(seconds=5))) == 7
    assert running_seconds(running(claimed_at=NOON)) == 2
    assert running_seconds(running()) is None
