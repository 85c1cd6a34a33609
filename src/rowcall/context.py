"""What a handler may know and do about the job it is running."""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from contextvars import ContextVar

from rowcall.job import Job

logger = logging.getLogger("rowcall")


class Context:
    """Handed to a handler whose first parameter is annotated `Context`; also `rowcall.current()`.

    @jobs.task
    def resize(ctx: Context, path: Path) -> None:
        for part in parts(path):
            if ctx.cancelled:
                return
    """

    def __init__(self, read_job: Callable[[], Job]) -> None:
        self._read_job = read_job
        self._job: Job | None = None
        self._cancelled = False

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        if self._job is None:
            self._job = self._read_job()
        return self._job

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for this attempt any more: its time is over, or the worker is stopping."""
        return self._cancelled

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the job's fields."""
        job = self.job
        return JobLogger(
            logger, {"job_id": job.id, "job_type": job.type, "job_queue": job.queue, "job_attempt": job.attempt}
        )

    def _cancel(self) -> None:
        self._cancelled = True


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: str, kwargs: MutableMapping[str, object]) -> tuple[str, MutableMapping[str, object]]:
        kwargs["extra"] = {**(self.extra or {}), **_given(kwargs.get("extra"))}
        return msg, kwargs


def _given(extra: object) -> dict[str, object]:
    return dict(extra) if isinstance(extra, dict) else {}


running: ContextVar[Context] = ContextVar("rowcall_context")


def current() -> Context:
    """The context of the handler that is running here.

    >>> current()
    Traceback (most recent call last):
    RuntimeError: rowcall.current() was called outside a handler
    """
    try:
        return running.get()
    except LookupError:
        raise RuntimeError("rowcall.current() was called outside a handler") from None
