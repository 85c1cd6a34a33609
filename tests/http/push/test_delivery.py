"""Jobs that a worker delivers to a target on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall import Job, PushFailed, Rowcall
from rowcall.domain.push_signatures import verify_message
from tests.http.push.target import SECRET, Reply, TargetServer, json_reply, options


def test_a_job_is_posted_and_signed_and_the_answer_is_its_result(jobs: Rowcall, target: TargetServer) -> None:
    @jobs.push(target.url("/jobs/send?x=1"), queue="mail")
    def send(to: str, copies: int = 1) -> dict[str, int]:
        raise AssertionError("a worker must not call this")

    target.replies = [json_reply({"sent": 2})]
    job = send.enqueue("a@example.com", copies=2)
    assert jobs.drain().succeeded == 1
    assert jobs.result(job) == {"sent": 2}

    (received,) = target.received
    assert received.path == "/jobs/send?x=1"
    assert received.headers["host"] == f"127.0.0.1:{target.port}"
    assert verify_message([SECRET], received.headers, received.body, jobs_wall(jobs), 300) == f"job-{job.id}-5"
    sent = received.sent
    assert sent["arguments"] == {"to": "a@example.com", "copies": 2}
    assert (sent["id"], sent["task"], sent["queue"], sent["attempt"]) == (job.id, "send", "mail", 1)


def test_a_target_is_given_with_a_job_of_any_task(jobs: Rowcall, target: TargetServer) -> None:
    called = []

    @jobs.task
    def greet(name: str) -> str:
        called.append(name)
        return "here"

    pushed = greet.using(target=target.url()).enqueue("Ann")
    by_name = jobs.enqueue("greet", {"name": "Bob"}, target=target.url("/other"))
    here = greet.enqueue("Eve")
    assert jobs.drain().succeeded == 3
    assert called == ["Eve"]
    assert sorted(received.path for received in target.received) == ["/jobs", "/other"]
    assert (jobs.get(pushed.id).target, jobs.get(here.id).target) == (target.url(), None)
    assert jobs.get(by_name.id).status == "succeeded"
    assert jobs.result(here) == "here"


def failed(jobs: Rowcall, target: TargetServer, reply: Reply) -> Job:
    """Return a job after its first delivery was answered so."""

    @jobs.push(target.url())
    def send() -> None: ...

    target.replies = [reply]
    job = send.enqueue()
    jobs.drain()
    return jobs.get(job.id)


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_a_refusal_fails_for_good(jobs: Rowcall, target: TargetServer, status: int) -> None:
    job = failed(jobs, target, Reply(status, b"no such user"))
    assert (job.status, job.error_code) == ("failed", f"PUSH:HTTP_{status}")
    assert job.error_detail == f"the target answered with {status}: no such user"


def test_of_a_long_error_the_start_is_kept(jobs: Rowcall, target: TargetServer) -> None:
    job = failed(jobs, target, Reply(422, b"no such user: " + b"x" * 100_000))
    assert (job.error_detail or "").startswith("the target answered with 422: no such user: xxx")


@pytest.mark.parametrize("status", [302, 408, 425, 429, 500, 503])
def test_other_answers_are_retried(jobs: Rowcall, target: TargetServer, status: int) -> None:
    job = failed(jobs, target, Reply(status))
    assert job.status == "scheduled"
    (attempt,) = jobs.attempts(job.id)
    assert (attempt.error_code, attempt.traceback) == (f"PUSH:HTTP_{status}", None)


def jobs_wall(jobs: Rowcall) -> float:
    from rowcall.app import queue_of

    return queue_of(jobs).clock.wall()


def test_retry_after_is_respected(jobs: Rowcall, target: TargetServer) -> None:
    job = failed(jobs, target, Reply(503, headers={"retry-after": "7200"}))
    (attempt,) = jobs.attempts(job.id)
    assert attempt.finished_at is not None
    assert 7199 < (job.run_at - attempt.finished_at).total_seconds() < 7210  # the policy says 3600


def test_the_policy_is_respected_too(jobs: Rowcall, target: TargetServer) -> None:
    job = failed(jobs, target, Reply(503, headers={"retry-after": "1"}))
    (attempt,) = jobs.attempts(job.id)
    assert attempt.finished_at is not None
    assert 3599 < (job.run_at - attempt.finished_at).total_seconds() < 3610


def test_a_retry_policy_gets_the_failure(jobs: Rowcall, target: TargetServer) -> None:
    seen: list[BaseException] = []

    def policy(attempt: int, error: BaseException) -> float:
        seen.append(error)
        return 60.0

    @jobs.push(target.url(), retry=policy)
    def send() -> None: ...

    target.replies = [Reply(503)]
    send.enqueue()
    jobs.drain()
    assert isinstance(seen[0], PushFailed)
    assert seen[0].code == "PUSH:HTTP_503"


def test_a_large_payload_is_delivered_whole(jobs: Rowcall, target: TargetServer) -> None:
    @jobs.push(target.url())
    def send(text: str) -> None: ...

    send.enqueue("x" * 500_000)
    assert jobs.drain().succeeded == 1
    assert target.received[0].sent["arguments"] == {"text": "x" * 500_000}


def test_a_worker_without_secrets_says_so(tmp_path: Path, target: TargetServer) -> None:
    with Rowcall(tmp_path / "app.db", push=options()) as app:
        job = app.enqueue("send", target=target.url())
    with Rowcall(tmp_path / "app.db") as worker:

        @worker.task
        def send() -> None: ...

        worker.drain()
        (attempt,) = worker.attempts(job.id)
        assert attempt.error_code == "PUSH:NOT_CONFIGURED"
    assert target.received == []
