"""Steps are written for attempts whose leases are current, and each signal is received once."""

from __future__ import annotations

from pathlib import Path

from rowcall import Job, LeaseLost, Rowcall
from rowcall.app import queue_of
from rowcall.domain.step import StepKind, StepStatus, StepWritten
from rowcall.operations.effects import Write
from rowcall.store.new_step import StepWrite
from rowcall.store.steps import recorded


def test_attempts_of_one_job_and_waits_of_one_name_in_one_group(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:

        @jobs.task
        def handler() -> None: ...

        job = handler.enqueue()
        lost = jobs.claim("first")[0]
        jobs.release(lost)
        (found,) = jobs.claim("second")
        jobs.signal(job, "go", 1)
        queue = queue_of(jobs)

        def wait(claimed: Job, position: int) -> StepWrite:
            return StepWrite(job.id, claimed.lease, claimed.holder, 1, position, StepKind.WAIT, "go")

        writes = [wait(found, 2), wait(lost, 1), wait(found, 1)]
        second, old, first = queue.run(Write(recorded.record, queue.dialect, writes))
        assert isinstance(old, LeaseLost)
        assert first == StepWritten(StepStatus.FINISHED, None, "1")
        assert second == StepWritten(StepStatus.WAITING)
        assert [(step.position, step.status, step.result) for step in jobs.steps(job)] == [
            (1, "finished", 1),
            (2, "waiting", None),
        ]
