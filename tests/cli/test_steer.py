from __future__ import annotations

import json

import pytest

from rowcall import Rowcall
from tests.cli.conftest import Run


def test_retry_says_what_became_of_each(run: Run, queue: Rowcall) -> None:
    finished, waiting = queue.enqueue("hello"), queue.enqueue("hello")
    queue.cancel(finished.id)
    result = run("retry", "app:jobs", str(finished.id), str(waiting.id), "99")
    assert result.exit_code == 1
    assert result.stdout == f"job {finished.id} is pending again, with 10 attempts more (0 of 10 used)\n"
    assert result.stderr.splitlines() == [
        f"error: cannot retry job {waiting.id}: it is pending, and will run by itself",
        "error: there is no job 99",
    ]
    assert queue.get(finished.id).status == "pending"


def test_retry_says_how_many_attempts_a_failed_job_has_again(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("broken", max_attempts=1)
    queue.fail(queue.claim("somebody", limit=1)[0], "TEST:BROKEN")
    assert run("retry", "app:jobs", str(job.id)).stdout == (
        f"job {job.id} is pending again, with 1 attempt more (1 of 2 used)\n"
    )


@pytest.mark.parametrize("command", ["delete", "cancel", "retry"])
def test_a_running_job_is_left_alone_and_what_to_do_is_said(run: Run, queue: Rowcall, command: str) -> None:
    job = queue.enqueue("hello")
    assert queue.claim("somebody", limit=1)
    result = run(command, "app:jobs", str(job.id))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: cannot {command} job {job.id}: it is running; wait until it has ended, or stop its worker first\n"
    )
    told = json.loads(run(command, "app:jobs", str(job.id), "--json").stdout)["jobs"][0]["error"]
    assert f"error: {told}\n" == result.stderr


def test_a_finished_job_cannot_be_cancelled(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    queue.cancel(job.id)
    result = run("cancel", "app:jobs", str(job.id))
    assert result.stderr == f"error: cannot cancel job {job.id}: it is cancelled already\n"


def test_cancel_keeps_the_reason(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    result = run("cancel", "app:jobs", str(job.id), "--reason", "not needed")
    assert (result.exit_code, result.stdout) == (0, f"job {job.id} is cancelled\n")
    assert queue.get(job.id).error_detail == "not needed"


def test_delete_in_json(run: Run, queue: Rowcall) -> None:
    gone, running = queue.enqueue("hello"), queue.enqueue("hello", priority=1)
    assert [job.id for job in queue.claim("somebody", limit=1)] == [running.id]
    result = run("delete", "app:jobs", "--json", str(gone.id), str(running.id), "99")
    assert result.exit_code == 1
    outcomes = json.loads(result.stdout)["jobs"]
    assert [(job["id"], job["ok"], job["status"]) for job in outcomes] == [
        (gone.id, True, None),
        (running.id, False, "running"),
        (99, False, None),
    ]
    assert outcomes[0]["error"] is None
    assert outcomes[2]["error"] == "there is no job 99"
    assert result.stderr == ""
    assert queue.stats().total == 1


def test_ids_are_checked_before_anything_is_done(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    for words in ([], ["app:jobs"], ["app:jobs", str(job.id), "x"]):
        assert run("delete", *words).exit_code == 2
    assert queue.get(job.id).status in ("pending", "scheduled")
