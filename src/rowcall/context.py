"""What a handler may know and do about the job it is running."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Protocol

from rowcall.errors import InvalidOption
from rowcall.job import Job
from rowcall.text import DETAIL_LENGTH, storable

logger = logging.getLogger("rowcall")


class Attempted(Protocol):
    """What runs a handler: the worker's side of a context."""

    cancelled: bool
    saw_cancelled: bool

    @property
    def context(self) -> Context: ...
    @property
    def log_fields(self) -> dict[str, object]: ...
    def claimed_job(self) -> Job: ...
    def claimed_jobs(self) -> list[Job]: ...
    def report(self, share: float, message: str | None) -> None: ...
    def complete(self, result: object, connection: object) -> None: ...
    async def acomplete(self, result: object, connection: object) -> None: ...


class Context:
    """Handed to a handler whose first parameter is annotated `Context`; also `rowcall.current()`.

    @jobs.task
    def resize(ctx: Context, path: Path) -> None:
        for part in parts(path):
            if ctx.cancelled:
                return
    """

    def __init__(self, attempt: Attempted) -> None:
        self._attempt = attempt
        self._job: Job | None = None

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        if self._job is None:
            self._job = self._attempt.claimed_job()
        return self._job

    @property
    def jobs(self) -> list[Job]:
        """The jobs of a batch, in the order of its items; of any other handler its one job."""
        return self._attempt.claimed_jobs()

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for this attempt any more: its time is over, or the worker is stopping."""
        if self._attempt.cancelled:
            self._attempt.saw_cancelled = True
        return self._attempt.cancelled

    def progress(self, share: float, message: str | None = None) -> None:
        """Say how far the handler is, from 0 to 1, and what it is doing: `ctx.progress(0.4, "resizing")`.

        It does not wait. What is said often is written twice a second at most; it is a sign of life as well.
        """
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise InvalidOption("share", f"wants a number from 0 to 1, not {share!r}")
        self._attempt.report(float(share), None if message is None else storable(str(message), DETAIL_LENGTH))

    def complete(self, result: object = None, *, connection: object) -> None:
        """Settle this job inside the handler's own transaction: its writes and the success commit together.

        `LeaseLost` if the job is no longer this worker's: let it end the transaction. If that is rolled back after all,
        the attempt has failed, whatever the handler returns.

            with engine.begin() as connection:
                connection.execute(insert(charges).values(order_id=order_id))
                ctx.complete({"charged": True}, connection=connection)
        """
        self._attempt.complete(result, connection)

    async def acomplete(self, result: object = None, *, connection: object) -> None:
        """`complete`, on a connection that is awaited."""
        await self._attempt.acomplete(result, connection)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the job's fields."""
        return JobLogger(logger, self._attempt.log_fields)


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: str, kwargs: MutableMapping[str, object]) -> tuple[str, MutableMapping[str, object]]:
        kwargs["extra"] = {**(self.extra or {}), **_given(kwargs.get("extra"))}
        return msg, kwargs


def _given(extra: object) -> dict[str, object]:
    return dict(extra) if isinstance(extra, dict) else {}


running: ContextVar[Attempted] = ContextVar("rowcall_context")


def current() -> Context:
    """The context of the handler that is running here.

    >>> current()
    Traceback (most recent call last):
    RuntimeError: rowcall.current() was called outside a handler
    """
    try:
        attempt = running.get()
    except LookupError:
        raise RuntimeError("rowcall.current() was called outside a handler") from None
    return attempt.context
