"""The rows of both sides in one shape, to be compared."""

from __future__ import annotations

from collections.abc import Mapping

from rowcall import Attempt, Job
from rowcall.testing.conformance.model.job import ModelJob

Shape = tuple[object, ...]


def stored_row(job: Job) -> Shape:
    return (
        job.queue,
        job.priority,
        str(job.status),
        job.attempt,
        job.max_attempts,
        job.run_at,
        job.error_code,
        job.finished_at,
        job.result,
    )


def model_row(job: ModelJob) -> Shape:
    return (
        job.queue,
        job.priority,
        job.status,
        job.used,
        job.max_attempts,
        job.run_at,
        job.error_code,
        job.finished_at,
        job.result,
    )


def model_attempts(job: ModelJob) -> list[Shape]:
    return [
        (
            one.number,
            one.status,
            one.claimed_at,
            one.started_at,
            one.worker,
            one.finished_at,
            one.error_code,
            one.next_run_at,
        )
        for one in job.attempts
    ]


def stored_attempts(attempts: list[Attempt]) -> list[Shape]:
    return [
        (
            one.attempt,
            one.status,
            one.claimed_at,
            one.started_at,
            one.worker,
            one.finished_at,
            one.error_code,
            one.next_run_at,
        )
        for one in attempts
    ]


def compare(stored: Mapping[int, object], model: Mapping[int, object]) -> None:
    """Says which rows differ, and how."""
    differences = [
        f"job {job_id}: stored {stored.get(job_id)}, in the model {model.get(job_id)}"
        for job_id in sorted({*stored, *model})
        if stored.get(job_id) != model.get(job_id)
    ]
    if differences:
        raise AssertionError("\n".join(differences))
