"""Jobs that a target accepts with 202, and settles later."""

from __future__ import annotations

import pytest

from rowcall import Fail, LeaseLost, Rowcall
from tests.http.push.target import Reply, TargetServer


@pytest.fixture
def token(jobs: Rowcall, target: TargetServer) -> str:
    """Return the token of job 1, which its target has accepted."""

    @jobs.push(target.url(), max_attempts=3)
    def send(to: str) -> None: ...

    target.replies = [Reply(202)]
    send.enqueue("a@example.com")
    assert jobs.drain().total == 0
    return str(target.received[-1].sent["token"])


def test_an_accepted_job_stays_open_without_its_worker(jobs: Rowcall, token: str) -> None:
    job = jobs.get(1)
    assert (job.status, job.attempt, job.worker) == ("running", 1, "push to 127.0.0.1")
    assert jobs.workers() == []  # the worker has ended, and other workers leave the job alone
    jobs.drain()
    assert jobs.get(1).status == "running"

    jobs.complete(jobs.pushed_job(token), result={"sent": 3})
    assert jobs.result(1) == {"sent": 3}
    with pytest.raises(LeaseLost):
        jobs.pushed_job(token)


def test_the_app_fails_or_extends_it(jobs: Rowcall, target: TargetServer, token: str) -> None:
    jobs.heartbeat(jobs.pushed_job(token), lease=7200)
    jobs.fail(jobs.pushed_job(token), "MAIL:BOUNCED", "mailbox full")
    job = jobs.get(1)
    assert (job.status, job.error_code, job.attempt) == ("scheduled", "MAIL:BOUNCED", 1)

    jobs.reschedule(1, delay=0)
    jobs.drain()
    other = str(target.received[-1].sent["token"])
    with pytest.raises(LeaseLost):  # the token of an earlier attempt
        jobs.pushed_job(token)
    jobs.fail(jobs.pushed_job(other), Fail("MAIL:GONE"))
    assert jobs.get(1).status == "failed"
    assert target.received[0].headers["webhook-id"] == target.received[1].headers["webhook-id"]


def test_a_callback_may_come_before_the_answer(jobs: Rowcall, target: TargetServer) -> None:
    @jobs.push(target.url())
    def send() -> None: ...

    def settle() -> None:
        jobs.complete(jobs.pushed_job(str(target.received[-1].sent["token"])), result="early")

    target.replies = [Reply(202, before=settle)]
    job = send.enqueue()
    jobs.drain()
    assert (jobs.get(job.id).status, jobs.get(job.id).result) == ("succeeded", "early")
