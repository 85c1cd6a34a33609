"""The tasks of `rowcall torture`, and the environment of its processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rowcall.app import Rowcall
from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.context import Context
from rowcall.domain.backoff import Backoff
from rowcall.domain.defaults import TaskDefaults
from rowcall.domain.limits import Limit
from rowcall.domain.retention import Retention
from rowcall.torture.witness import END, START, WitnessFile

PREFIX, FOLDER, NAME = "ROWCALL_TORTURE_PREFIX", "ROWCALL_TORTURE_FOLDER", "ROWCALL_TORTURE_NAME"
AT_ONCE = 8
"""Jobs of the task `limited` that may run at the same time."""
MOST_ATTEMPTS = 200
"""Kills alone must not use up the attempts of a job that has to succeed."""
LIMITED_SECONDS, SLOW_SECONDS = 0.004, 0.05
FLAKY_FAILURES, FAILING_ATTEMPTS = 2, 2


class Planned(Exception):
    """The error of handlers that fail as planned."""


def opened(url: str | None, prefix: str) -> Rowcall:
    """Return the queue. It keeps all jobs, for the check."""
    return Rowcall(
        url,
        table_prefix=prefix,
        retention=Retention(succeeded=None, failed=None, cancelled=None),
        defaults=TaskDefaults(max_attempts=MOST_ATTEMPTS, retry=Backoff.constant(0.1)),
    )


class Workload:
    """Declares the tasks, with a witness file for their handlers."""

    def __init__(self, jobs: Rowcall, witness: WitnessFile | None) -> None:
        self._witness = witness
        self.plain = jobs.task(name="plain")(self._plain)
        self.threaded = jobs.task(name="threaded")(self._threaded)
        self.slow = jobs.task(name="slow")(self._slow)
        self.flaky = jobs.task(name="flaky")(self._flaky)
        self.failing = jobs.task(name="failing", max_attempts=FAILING_ATTEMPTS)(self._failing)
        self.limited = jobs.task(name="limited", limit=Limit("torture", concurrency=AT_ONCE))(self._limited)
        self.ordered = jobs.task(name="ordered", ordered_by="account")(self._ordered)

    async def _plain(self, ctx: Context) -> None:
        await self._witnessed(ctx)

    async def _slow(self, ctx: Context) -> None:
        await self._witnessed(ctx, SLOW_SECONDS)

    async def _limited(self, ctx: Context) -> None:
        await self._witnessed(ctx, LIMITED_SECONDS)

    async def _ordered(self, ctx: Context, account: str) -> None:
        await self._witnessed(ctx)

    async def _flaky(self, ctx: Context) -> None:
        await self._witnessed(ctx)
        if ctx.job.attempt <= FLAKY_FAILURES:
            raise Planned

    async def _failing(self, ctx: Context) -> None:
        await self._witnessed(ctx)
        raise Planned

    def _threaded(self, ctx: Context) -> None:
        assert self._witness is not None
        self._witness.write(START, ctx.job)
        self._witness.write(END, ctx.job)
        self._witness.durable()

    async def _witnessed(self, ctx: Context, seconds: float = 0.0) -> None:
        assert self._witness is not None
        self._witness.write(START, ctx.job)
        if seconds:
            await SYSTEM_CLOCK.asleep(seconds)
        self._witness.write(END, ctx.job)
        await self._witness.adurable()


def environment(url: str, prefix: str, folder: Path, name: str) -> Mapping[str, str]:
    """Return the environment of a process with this name."""
    inherited = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    return {**inherited, "ROWCALL_URL": url, PREFIX: prefix, FOLDER: str(folder), NAME: name}
