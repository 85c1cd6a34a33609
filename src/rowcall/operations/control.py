"""What a person may do to jobs, one or many, and to queues. The timeline of a job tells who did it."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Unpack, overload

import msgspec

from rowcall.base.text import CODE_LENGTH, storable
from rowcall.declare.failures import Failures
from rowcall.declare.options import DEFAULT_MAX_ATTEMPTS, ENQUEUE_OPTIONS, checked
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job, Status
from rowcall.operations.inspect import checked_id
from rowcall.operations.job_filters import (
    Cancelled,
    Retried,
    meant_to_be_cancelled,
    meant_to_be_retried,
    refuse_filter,
)
from rowcall.queue import Queue
from rowcall.store.control import actions
from rowcall.store.control.bulk_actions import Walk, Wanted, cancel_some, error_codes_like, retry_some
from rowcall.store.jobs import inspect
from rowcall.store.statement import Plan

Step = Callable[[Walk], Plan[Walk]]


class Steering(Queue):
    @overload
    def retry(self, job_id: int, *, actor: str | None = None) -> Job: ...
    @overload
    def retry(self, *, actor: str | None = None, **chosen: Unpack[Retried]) -> int: ...

    def retry(self, job_id: int | None = None, *, actor: str | None = None, **chosen: Unpack[Retried]) -> Job | int:
        """Run a finished job again: the next attempt number, and the `max_attempts` of its task added to its limit.

        Or all that fit a filter, failed ones unless `status` says otherwise; gives how many. An `error_code` that ends
        with `*` means all that begin so, `limit` is how many at most, and `rate` how many a second become due. Jobs
        that cannot run again, because another one has their key, are left out.

            jobs.retry(error_code="TIMEOUT:*", type="send_email", rate=20)
        """
        if job_id is not None:
            refuse_filter(chosen)
            return self.write(partial(self._retry, job_id, actor))
        wanted = self.read(self._with_codes(meant_to_be_retried(chosen)))
        return self._walk(self._retrying(wanted, chosen, actor))

    @overload
    async def aretry(self, job_id: int, *, actor: str | None = None) -> Job: ...
    @overload
    async def aretry(self, *, actor: str | None = None, **chosen: Unpack[Retried]) -> int: ...

    async def aretry(
        self, job_id: int | None = None, *, actor: str | None = None, **chosen: Unpack[Retried]
    ) -> Job | int:
        if job_id is not None:
            refuse_filter(chosen)
            return await self.awrite(partial(self._retry, job_id, actor))
        wanted = await self.aread(self._with_codes(meant_to_be_retried(chosen)))
        return await self._awalk(self._retrying(wanted, chosen, actor))

    @overload
    def cancel(self, job_id: int, reason: str | None = None, *, actor: str | None = None) -> Job: ...
    @overload
    def cancel(self, *, reason: str | None = None, actor: str | None = None, **chosen: Unpack[Cancelled]) -> int: ...

    def cancel(
        self,
        job_id: int | None = None,
        reason: str | None = None,
        *,
        actor: str | None = None,
        **chosen: Unpack[Cancelled],
    ) -> Job | int:
        """Cancel a job: one that waits at once; one that runs is asked to end, which its worker learns within a second.

        An async handler gets `CancelledError`, a sync one sees `ctx.cancelled`. Unless it succeeds all the same, its
        job is cancelled then. `WrongState` for one that has finished.

        Or all that fit a filter; gives how many were cancelled or asked to end.

            jobs.cancel(status="pending", queue="mail", reason="wrong list")
        """
        if job_id is not None:
            refuse_filter(chosen)
            return self.write(partial(self._cancel, job_id, reason, actor))
        return self._walk(self._cancelling(meant_to_be_cancelled(chosen), reason, actor))

    @overload
    async def acancel(self, job_id: int, reason: str | None = None, *, actor: str | None = None) -> Job: ...
    @overload
    async def acancel(
        self, *, reason: str | None = None, actor: str | None = None, **chosen: Unpack[Cancelled]
    ) -> int: ...

    async def acancel(
        self,
        job_id: int | None = None,
        reason: str | None = None,
        *,
        actor: str | None = None,
        **chosen: Unpack[Cancelled],
    ) -> Job | int:
        if job_id is not None:
            refuse_filter(chosen)
            return await self.awrite(partial(self._cancel, job_id, reason, actor))
        return await self._awalk(self._cancelling(meant_to_be_cancelled(chosen), reason, actor))

    def reschedule(
        self,
        job_id: int,
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        actor: str | None = None,
    ) -> Job:
        """Give a job that waits another time: `run_at`, or `delay` seconds from now. `WrongState` for any other."""
        return self.write(self._rescheduling(job_id, run_at, delay, actor))

    async def areschedule(
        self,
        job_id: int,
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        actor: str | None = None,
    ) -> Job:
        return await self.awrite(self._rescheduling(job_id, run_at, delay, actor))

    def set_priority(self, job_id: int, priority: int, *, actor: str | None = None) -> Job:
        """Higher runs first, within its queue; of a running job it counts from the next attempt on."""
        return self.write(self._prioritizing(job_id, priority, actor))

    async def aset_priority(self, job_id: int, priority: int, *, actor: str | None = None) -> Job:
        return await self.awrite(self._prioritizing(job_id, priority, actor))

    def delete(self, job_id: int) -> None:
        """Delete a job that is not running, with its history."""
        self.write(lambda: actions.delete(self.dialect, checked_id(job_id)))

    async def adelete(self, job_id: int) -> None:
        await self.awrite(lambda: actions.delete(self.dialect, checked_id(job_id)))

    def _walk(self, step: Step) -> int:
        walk = Walk()
        while not walk.over:
            walk = self.write(partial(step, walk))
        return walk.changed

    async def _awalk(self, step: Step) -> int:
        walk = Walk()
        while not walk.over:
            walk = await self.awrite(partial(step, walk))
        return walk.changed

    def _attempts_of(self, kind: str) -> int:
        task = self.tasks.get(kind)
        return (task.options.max_attempts if task is not None else None) or DEFAULT_MAX_ATTEMPTS

    def _retry(self, job_id: int, actor: str | None) -> Plan[Job]:
        job = yield from inspect.get(self.dialect, checked_id(job_id))
        more = self._attempts_of(job.type)
        return (yield from actions.retry(self.dialect, job.id, more, actor_of(actor), self.now_ms()))

    def _with_codes(self, wanted: Wanted) -> Plan[Wanted]:
        if wanted.error_code is None or wanted.statuses != (Status.FAILED,):
            return wanted
        codes = yield from error_codes_like(self.dialect, wanted.error_code)
        return msgspec.structs.replace(wanted, error_codes=codes)

    def _retrying(self, wanted: Wanted, chosen: Retried, actor: str | None) -> Step:
        rate, who = chosen.get("rate"), actor_of(actor)
        return lambda walk: retry_some(self.dialect, wanted, walk, self._attempts_of, rate, who, self.now_ms())

    def _cancel(self, job_id: int, reason: str | None, actor: str | None) -> Plan[Job]:
        return actions.cancel(self.dialect, checked_id(job_id), self._reason(reason), actor_of(actor), self.now_ms())

    def _cancelling(self, wanted: Wanted, reason: str | None, actor: str | None) -> Step:
        why, who = self._reason(reason), actor_of(actor)
        return lambda walk: cancel_some(self.dialect, wanted, walk, why, who, self.now_ms())

    def _reason(self, reason: str | None) -> str | None:
        return reason_of(reason, self.failures)

    def _rescheduling(
        self, job_id: int, run_at: datetime | None, delay: float | timedelta | None, actor: str | None
    ) -> Callable[[], Plan[Job]]:
        if run_at is None and delay is None:
            raise InvalidOption("run_at", "is missing: give run_at=… or delay=…")
        given = checked({"run_at": run_at, "delay": delay}, ENQUEUE_OPTIONS)
        times = given.run_at_ms, given.delay_ms or 0
        return lambda: actions.reschedule(self.dialect, checked_id(job_id), *times, actor_of(actor), self.now_ms())

    def _prioritizing(self, job_id: int, priority: int, actor: str | None) -> Callable[[], Plan[Job]]:
        given = checked({"priority": priority}, ENQUEUE_OPTIONS).priority
        if given is None:
            raise InvalidOption("priority", "wants a whole number, not None")
        return lambda: actions.set_priority(self.dialect, checked_id(job_id), given, actor_of(actor), self.now_ms())


def actor_of(actor: str | None) -> str:
    return this_person() if actor is None else storable(_text("actor", actor), CODE_LENGTH)


def reason_of(reason: str | None, failures: Failures) -> str | None:
    return None if reason is None else failures.detail(_text("reason", reason))


def _text(option: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidOption(option, f"wants a text, not {value!r}")
    return value


def this_person() -> str:
    """Who is at the keyboard, as far as the system tells: `ann@web-1`."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = "somebody"
    return f"{name}@{socket.gethostname()}"
