"""The protocol of tracing, which follows a job from its enqueue to its attempts. `rowcall.observe` implements it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from rowcall.domain.job import Job
from rowcall.domain.outcome import Transition
from rowcall.store.new_job import NewJob
from rowcall.store.queries.claims import Ready


class Sending(Protocol):
    """An enqueue that is being written."""

    @property
    def job(self) -> NewJob:
        """Return the job with the trace context for its row."""

    def written(self, jobs: Sequence[Job]) -> None:
        """Note what was written, or found: a duplicate was there before."""


class Processing(Protocol):
    """An attempt that is running."""

    @property
    def log_fields(self) -> dict[str, object]: ...
    def end(self, transition: Transition | None) -> None:
        """End the span, even if the handler still runs; None if the outcome is not known yet."""

    def leave(self) -> None:
        """Leave the span: the handler has ended in this thread or task."""


class Tracing(Protocol):
    def sending(self, job: NewJob, count: int) -> AbstractContextManager[Sending]:
        """Return a span around an enqueue of `count` jobs."""

    def processing(self, ready: Ready, worker: str) -> Processing:
        """Return the span of an attempt. Called before the handler, in its thread or task."""

    def carried(self) -> str | None:
        """Return the trace context of the running code, for the rows that it writes."""
