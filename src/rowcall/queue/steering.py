"""What a person may do to a job that is not running."""

from __future__ import annotations

import getpass
import socket

from rowcall.job import Job
from rowcall.queue.core import Core
from rowcall.queue.looking import checked_id
from rowcall.queue.options import DEFAULT_MAX_ATTEMPTS
from rowcall.store.plans import inspect, steer
from rowcall.store.statement import Plan
from rowcall.text import CODE_LENGTH, storable


class Steering(Core):
    def retry(self, job_id: int, *, actor: str | None = None) -> Job:
        """Run a finished job again: the next attempt number, and as many attempts more as its task has."""
        return self.write(lambda: self._retry(job_id, actor))

    async def aretry(self, job_id: int, *, actor: str | None = None) -> Job:
        return await self.awrite(lambda: self._retry(job_id, actor))

    def cancel(self, job_id: int, reason: str | None = None, *, actor: str | None = None) -> Job:
        """Cancel a job that is waiting. `WrongState` for one that runs or has finished."""
        return self.write(lambda: self._cancel(job_id, reason, actor))

    async def acancel(self, job_id: int, reason: str | None = None, *, actor: str | None = None) -> Job:
        return await self.awrite(lambda: self._cancel(job_id, reason, actor))

    def delete(self, job_id: int) -> None:
        """Delete a job that is not running, with its history."""
        self.write(lambda: steer.delete(self.dialect, checked_id(job_id)))

    async def adelete(self, job_id: int) -> None:
        await self.awrite(lambda: steer.delete(self.dialect, checked_id(job_id)))

    def _retry(self, job_id: int, actor: str | None) -> Plan[Job]:
        job = yield from inspect.get(self.dialect, checked_id(job_id))
        task = self.tasks.get(job.type)
        declared = task.options.max_attempts if task is not None else None
        return (
            yield from steer.retry(
                self.dialect, job.id, declared or DEFAULT_MAX_ATTEMPTS, actor_of(actor), self.now_ms()
            )
        )

    def _cancel(self, job_id: int, reason: str | None, actor: str | None) -> Plan[Job]:
        reason = None if reason is None else self.failures.detail(reason)
        return steer.cancel(self.dialect, checked_id(job_id), reason, actor_of(actor), self.now_ms())


def actor_of(actor: str | None) -> str:
    return this_person() if actor is None else storable(actor, CODE_LENGTH)


def this_person() -> str:
    """Who is at the keyboard, as far as the system tells: `ann@web-1`."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = "somebody"
    return f"{name}@{socket.gethostname()}"
