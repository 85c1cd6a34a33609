"""What to say about one job: the time that matters in its state, its error or its worker, its progress."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from rowcall.base.text import duration
from rowcall.domain.job import FINISHED, WAITING, InProgress, Job, Reason, Status, Why
from rowcall.domain.payload import REFUSAL_CODES
from rowcall.overview.formats import ago
from rowcall.overview.liveness import Liveness

_ARGUMENTS_LENGTH = 40
_DETAIL_LENGTH = 60
_SAID_BETTER = (Reason.SCHEDULED, Reason.RETRY, Reason.MISMATCH)  # by the time, or by the error


def when(job: Job, now: datetime) -> str:
    """Return the time that matters most in the job's state."""
    if job.status in FINISHED:
        return f"ended {ago(job.finished_at or job.run_at, now)}"
    if job.status == Status.RUNNING:
        return f"running for {duration((now - (job.claimed_at or job.run_at)).total_seconds())}"
    if job.status == Status.SCHEDULED and job.run_at > now:
        return f"due {ago(job.run_at, now)}"
    return f"waiting for {duration((now - max(job.run_at, job.created_at)).total_seconds())}"


def detail(job: Job, states: Mapping[str, str], why: Why | None = None) -> str:
    """Return why the job waits, the error, or its worker with the worker's entry in `states`, unless that is alive."""
    if job.status == Status.RUNNING:
        state = states.get(job.worker or "", Liveness.ALIVE)
        return f"on {job.worker}" if state == Liveness.ALIVE else f"on {job.worker} ({state})"
    if why is not None and why.status in WAITING and why.reason not in _SAID_BETTER:
        return why.sentence
    if job.error_code is None:
        return ""
    if job.status == Status.PENDING and job.error_code in REFUSAL_CODES:
        text = f"no worker accepts it: {job.error_detail}"
    else:
        text = f"{job.error_code}: {job.error_detail}" if job.error_detail else job.error_code
    first = text.splitlines()[0]
    return first if len(first) <= _DETAIL_LENGTH else f"{first[: _DETAIL_LENGTH - 3]}..."


def arguments(job: Job) -> str:
    """Return the arguments as JSON, shortened at the end."""
    said = msgspec.json.encode(job.payload).decode()
    return said if len(said) <= _ARGUMENTS_LENGTH else f"{said[: _ARGUMENTS_LENGTH - 3]}..."


def progress(job: InProgress) -> str:
    """Return the progress and the message that came with it."""
    parts = [f"{job.progress:.0%}" if job.progress is not None else "", job.progress_message or ""]
    return " ".join(part for part in parts if part)


def running_seconds(job: InProgress) -> float | None:
    """Return how long the attempt has been running: `silent_for` starts only at the last heartbeat."""
    began = job.started_at or job.claimed_at
    if began is None:
        return None
    until_heartbeat = (job.heartbeat_at - began).total_seconds() if job.heartbeat_at is not None else 0.0
    return max(0.0, job.silent_for + until_heartbeat)
