"""The interface of tracing, from an enqueue to its attempts. `rowcall.observe` implements it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from rowcall.domain.job import Job
from rowcall.domain.lifecycle import Transition
from rowcall.store.jobs.queries import Ready
from rowcall.store.new_job import NewJob


class Sending(Protocol):
    """An enqueue that is being written."""

    @property
    def job(self) -> NewJob:
        """The job with the trace context that its row will hold."""

    def written(self, job: Job) -> Job: ...


class Processing(Protocol):
    """An attempt that is running."""

    @property
    def log_fields(self) -> dict[str, object]: ...
    def end(self, transition: Transition | None) -> None:
        """End the span, even if the handler still runs; `None` if the outcome is not known yet."""

    def leave(self) -> None:
        """Its handler has ended, here."""


class Tracing(Protocol):
    def sending(self, job: NewJob, count: int | None = None) -> AbstractContextManager[Sending]:
        """Around one enqueue, or around one of `count` jobs at once."""

    def processing(self, ready: Ready, worker: str) -> Processing:
        """Before a handler is called, in its own thread or task."""

    def carried(self) -> str | None:
        """The trace context of what runs here, for rows that come of it."""
