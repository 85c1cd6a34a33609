"""Callbacks by HTTP. A claim by hand is one that a target could have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import PushOptions, Rowcall
from rowcall.domain.push_signatures import callback_token
from tests.http.client import client_of

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db", push=PushOptions(secrets=[SECRET])) as found:
        yield found


def claimed(jobs: Rowcall) -> str:
    """Return the token of a claimed job."""
    jobs.enqueue("send")
    job = jobs.dequeue("hand")
    assert job is not None
    return callback_token([SECRET], job.id, job.lease, job.holder)


def test_a_callback_needs_its_token_alone_from_any_machine(jobs: Rowcall) -> None:
    token = claimed(jobs)
    with client_of(jobs, token="a token of the dashboard") as client:
        client.http.headers["host"] = "jobs.example"
        assert client.post("/api/push/complete", {"token": token + "x"}).status_code == 401
        assert client.post("/api/push/complete", {"result": 1}).status_code == 422
        assert client.post("/api/push/extend", {"token": token, "seconds": -1}).status_code == 422
        assert client.post("/api/push/fail", {"token": token, "error_code": "no code!"}).status_code == 422
        assert client.post("/api/push/extend", {"token": token, "seconds": 60}).json() == {"id": 1, "status": "running"}
        done = client.post("/api/push/complete", {"token": token, "result": {"sent": 1}})
        assert done.json() == {"id": 1, "status": "succeeded"}
        assert client.post("/api/push/complete", {"token": token}).status_code == 409
        assert client.get("/api/jobs").status_code == 401
    assert jobs.result(1) == {"sent": 1}


def test_a_failure_is_retried_unless_it_is_final(jobs: Rowcall) -> None:
    with client_of(jobs) as client:
        given = {"error_code": "MAIL:BOUNCED", "error_detail": "full"}
        retried = client.post("/api/push/fail", {"token": claimed(jobs), **given})
        assert retried.json() == {"id": 1, "status": "scheduled"}
        final = client.post("/api/push/fail", {"token": claimed(jobs), "final": True, **given})
        assert final.json() == {"id": 2, "status": "failed"}
    assert jobs.get(2).error_code == "MAIL:BOUNCED"


def test_a_cancelled_job_says_so_to_its_target(jobs: Rowcall) -> None:
    token = claimed(jobs)
    jobs.cancel(1)
    with client_of(jobs) as client:
        assert client.post("/api/push/extend", {"token": token}).status_code == 409
        assert client.post("/api/push/fail", {"token": token, "error_code": "A:B"}).json()["status"] == "cancelled"
