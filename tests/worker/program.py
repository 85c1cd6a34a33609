"""What the worker processes of these tests run: `python -m tests.worker.program FOLDER SETTINGS`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from rowcall import Backoff, Context, Rowcall
from rowcall.task import AsyncContextTask
from tests.worker.support import Site


def declare(jobs: Rowcall, site: Site) -> None:
    """The tasks: each leaves lines in the journal and waits for gates."""

    @jobs.task
    def note(text: str) -> None:
        site.trace("note", text)

    @jobs.task
    async def anote(text: str) -> None:
        site.trace("note", text)

    @jobs.task(retry=Backoff.constant(0))
    def hold(ctx: Context, name: str) -> str:
        """In a thread, until the gate opens or the job is cancelled."""
        site.trace("start", name)
        site.wait_until_open(name, lambda: ctx.cancelled)
        site.trace("cancelled" if ctx.cancelled else "end", name)
        return name

    @jobs.task(retry=Backoff.constant(0))
    def stubborn(name: str) -> None:
        """In a thread, until the gate opens, even if the job is cancelled."""
        site.trace("start", name)
        site.wait_until_open(name)
        site.trace("end", name)

    @jobs.task(retry=Backoff.constant(0))
    async def ahold(name: str) -> str:
        site.trace("start", name)
        try:
            while not site.is_open(name):
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            site.trace("cancelled", name)
            raise
        site.trace("end", name)
        return name

    @jobs.task
    async def block_the_loop(name: str) -> None:
        site.trace("start", name)
        site.wait_until_open(name)
        site.trace("end", name)

    @jobs.task
    def kill_the_worker(name: str) -> None:
        site.trace("start", name)
        os.kill(os.getpid(), signal.SIGKILL)

    @jobs.task
    def hang_for_ever(name: str) -> None:
        site.trace("start", name, os.getpid())
        threading.Event().wait()

    @jobs.task
    def fork_and_hold(name: str) -> None:
        """Leave a child process behind, as multiprocessing does."""
        if os.fork() == 0:
            site.wait_until_open("child")
            site.trace("end", "child")
            os._exit(0)
        site.trace("start", name)
        site.wait_until_open(name)

    declare_counted(jobs, site)


def declare_counted(jobs: Rowcall, site: Site) -> AsyncContextTask[[], None]:
    journal = os.open(site.folder / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    @jobs.task
    async def counted(ctx: Context) -> None:
        """10 ms of work that says first which attempt it is, and where."""
        os.write(journal, f"{ctx.job.id} {ctx.job.attempt} {os.getpid()}\n".encode())
        await asyncio.sleep(0.01)

    return counted


def main() -> None:
    folder, text = sys.argv[1:]
    settings: dict[str, Any] = json.loads(text)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stdout)
    site = Site(
        Path(folder),
        busy_timeout=settings.pop("busy_timeout", 5.0),
        moved_clock=settings.pop("moved_clock", False),
    )
    declare(site.jobs, site)
    site.jobs.work(**settings)
    print("ended", flush=True)


if __name__ == "__main__":
    main()
