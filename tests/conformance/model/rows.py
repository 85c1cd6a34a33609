"""The rows of both sides in one shape, to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from rowcall import Attempt, Job
from tests.conformance.model.job import ModelJob

Shape = tuple[object, ...]


_of_job = attrgetter("queue", "priority", "max_attempts", "run_at", "error_code", "finished_at", "result")
_of_attempt = attrgetter("status", "claimed_at", "started_at", "worker", "finished_at", "error_code", "next_run_at")


def stored_row(job: Job) -> Shape:
    return str(job.status), job.attempt, *_of_job(job)


def model_row(job: ModelJob) -> Shape:
    return job.status, job.used, *_of_job(job)


def stored_attempts(attempts: list[Attempt]) -> list[Shape]:
    return [(one.attempt, *_of_attempt(one)) for one in attempts]


def model_attempts(job: ModelJob) -> list[Shape]:
    return [(one.number, *_of_attempt(one)) for one in job.attempts]


def compare(stored: Mapping[int, object], model: Mapping[int, object]) -> None:
    """Says which rows differ, and how."""
    differences = [
        f"job {job_id}: stored {stored.get(job_id)}, in the model {model.get(job_id)}"
        for job_id in sorted({*stored, *model})
        if stored.get(job_id) != model.get(job_id)
    ]
    if differences:
        raise AssertionError("\n".join(differences))
