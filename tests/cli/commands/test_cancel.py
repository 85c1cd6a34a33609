from __future__ import annotations

from rowcall import Rowcall
from tests.cli.conftest import Run


def test_a_finished_job_cannot_be_cancelled(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    queue.cancel(job.id)
    result = run("cancel", "app:jobs", str(job.id))
    assert result.stderr == f"error: job {job.id} has already been cancelled\n"


def test_cancel_keeps_the_reason(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    result = run("cancel", "app:jobs", str(job.id), "--reason", "not needed")
    assert (result.exit_code, result.stdout) == (0, f"job {job.id} cancelled\n")
    assert queue.get(job.id).error_detail == "not needed"


def test_a_running_job_is_asked_to_end(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    assert queue.claim("worker-1", limit=1)
    result = run("cancel", "app:jobs", str(job.id))
    assert (result.exit_code, result.stdout) == (0, f"job {job.id} is running on worker-1: it was asked to stop\n")
    assert queue.timeline(job.id)[-1].event == "CANCEL_REQUESTED"
