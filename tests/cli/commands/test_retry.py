from __future__ import annotations

from rowcall import Rowcall
from tests.cli.conftest import Run


def test_retry_says_what_became_of_each(run: Run, queue: Rowcall) -> None:
    finished, waiting = queue.enqueue("hello"), queue.enqueue("hello")
    queue.cancel(finished.id)
    result = run("retry", "app:jobs", str(finished.id), str(waiting.id), "99")
    assert result.exit_code == 1
    assert result.stdout == f"job {finished.id} is pending again: 10 attempts left (0 of 10 used)\n"
    assert result.stderr.splitlines() == [
        f"error: job {waiting.id} is pending: it will run without a retry",
        "error: job 99 does not exist",
    ]
    assert queue.get(finished.id).status == "pending"


def test_retry_says_how_many_attempts_a_failed_job_has_again(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("broken", max_attempts=1)
    queue.fail(queue.claim("worker-1", limit=1)[0], "TEST:BROKEN")
    assert run("retry", "app:jobs", str(job.id)).stdout == (
        f"job {job.id} is pending again: 1 attempt left (1 of 2 used)\n"
    )
