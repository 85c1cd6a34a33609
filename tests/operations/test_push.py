"""Attempts that a target settles with its token. A claim by hand is one that a target could have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Job, JobNotFound, LeaseLost, PushOptions, PushRefused, Rowcall
from rowcall.domain.push_signatures import callback_token

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "QUJD" * 10


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db", push=PushOptions(secrets=[SECRET])) as found:
        yield found


def claimed(jobs: Rowcall) -> tuple[Job, str]:
    jobs.enqueue("send")
    job = jobs.dequeue("hand")
    assert job is not None
    return job, callback_token([SECRET], job.id, job.lease, job.holder)


def test_a_token_leads_to_the_claimed_job(jobs: Rowcall) -> None:
    job, token = claimed(jobs)
    found = jobs.pushed_job(token)
    assert (found.id, found.lease, found.status) == (job.id, job.lease, "running")
    jobs.complete(found, result=3)
    assert jobs.result(job) == 3
    with pytest.raises(LeaseLost):
        jobs.pushed_job(token)


def test_a_token_of_an_earlier_attempt_is_over(jobs: Rowcall) -> None:
    job, token = claimed(jobs)
    jobs.release(job)
    with pytest.raises(LeaseLost):
        jobs.pushed_job(token)
    again = jobs.dequeue("hand")
    assert again is not None
    with pytest.raises(LeaseLost):
        jobs.pushed_job(token)
    assert jobs.pushed_job(callback_token([SECRET], again.id, again.lease, again.holder)).id == job.id


def test_forged_tokens_are_refused(jobs: Rowcall) -> None:
    job, token = claimed(jobs)
    for wrong in (callback_token([OTHER], job.id, job.lease, job.holder), token + "x", "", "1.1."):
        with pytest.raises(PushRefused):
            jobs.pushed_job(wrong)
    with pytest.raises(JobNotFound):
        jobs.pushed_job(callback_token([SECRET], 7, 1, 1))


def test_an_app_without_secrets_refuses_every_token(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs, pytest.raises(PushRefused, match="no secret"):
        jobs.pushed_job("1.1.x")
