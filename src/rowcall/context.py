"""What a handler may know and do about the job it is running."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from contextvars import ContextVar
from typing import Protocol

from rowcall.base.text import DETAIL_LENGTH, storable
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job

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
    def continue_with(self, task: object, arguments: tuple[object, ...], options: dict[str, object]) -> None: ...
    def blockers(self) -> list[object]: ...
    def previous(self) -> object: ...
    def complete(self, result: object, connection: object) -> None: ...
    async def acomplete(self, result: object, connection: object) -> None: ...


class Bindable(Protocol):
    """A task, or one with options: what can be bound to arguments."""

    @property
    def bind(self) -> Callable[..., object]: ...


NOT_READ = object()


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
        self._previous: object = NOT_READ
        self._blockers: list[object] | None = None

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
        """Whether nobody waits for this attempt any more: cancelled, ended from outside, past its time, or its worker
        is stopping.
        """
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

    def continue_with(self, task: Bindable | str, *args: object, **arguments: object) -> None:
        """Go on with another job once this one has succeeded: it is written in the same transaction, or not at all.

            ctx.continue_with(ship, order_id=order_id)
            ctx.continue_with(ship.using(delay=60), order_id=order_id)

        Both are steps of one chain then, `ctx.previous` of the next is what this one returns, and the result of the
        chain is that of its last step.
        """
        self._attempt.continue_with(task, args, arguments)

    @property
    def previous(self) -> object:
        """What the step before this one returned, or None for the first. It is read when it is first asked for."""
        if self._previous is NOT_READ:
            self._previous = self._attempt.previous()
        return self._previous

    @property
    def blockers(self) -> list[object]:
        """The results of what this job waited for, in the order of `after`; None for one that failed.

        They are read when they are first asked for.
        """
        if self._blockers is None:
            self._blockers = self._attempt.blockers()
        return self._blockers

    async def aprevious(self) -> object:
        """`previous`, read without holding up the event loop."""
        return await asyncio.get_running_loop().run_in_executor(None, lambda: self.previous)

    async def ablockers(self) -> list[object]:
        """`blockers`, read without holding up the event loop."""
        return await asyncio.get_running_loop().run_in_executor(None, lambda: self.blockers)

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
