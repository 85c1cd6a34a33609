"""The tasks that are measured, as an application would declare them."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.noop import ARGUMENTS, MANY
from rowcall import Rowcall

if TYPE_CHECKING:  # earlier revisions, which are measured too, do not have all of them
    from rowcall.task import AsyncTask, BaseTask, Enqueuer, Task

STAMP = struct.Struct("qqq")


class App(NamedTuple):
    jobs: Rowcall
    noop_async: AsyncTask[[int, str], None]
    noop_sync: Task[[int, str], None]
    slow_async: AsyncTask[[int, str], None]
    stamp_async: AsyncTask[[int], None]
    stamp_sync: Task[[int], None]


class Stamp(NamedTuple):
    """When a handler started, by both clocks."""

    number: int
    monotonic_ns: int
    wall_ns: int


def open_app(url: str, stamps: Path | None = None) -> App:
    """The queue at a URL; the stamping tasks append to `stamps`."""
    jobs = Rowcall(url)
    descriptor = os.open(stamps, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if stamps is not None else -1

    @jobs.task
    async def noop_async(n: int, to: str) -> None:
        pass

    @jobs.task
    def noop_sync(n: int, to: str) -> None:
        pass

    @jobs.task
    async def slow_async(n: int, to: str) -> None:
        await asyncio.sleep(0.005)

    @jobs.task
    async def stamp_async(number: int) -> None:
        os.write(descriptor, STAMP.pack(number, time.monotonic_ns(), time.time_ns()))

    @jobs.task
    def stamp_sync(number: int) -> None:
        os.write(descriptor, STAMP.pack(number, time.monotonic_ns(), time.time_ns()))

    return App(jobs, noop_async, noop_sync, slow_async, stamp_async, stamp_sync)


def read_stamps(path: Path) -> list[Stamp]:
    data = path.read_bytes() if path.exists() else b""
    return [Stamp(*fields) for fields in STAMP.iter_unpack(data[: len(data) - len(data) % STAMP.size])]


def enqueue_jobs(task: BaseTask[[int, str], object] | Enqueuer[[int, str], object], count: int) -> range:
    """Enqueue no-ops, 1,000 in a transaction, as a program would. Return their ids."""
    first = last = 0
    for start in range(0, count, MANY):
        jobs = task.enqueue_many([ARGUMENTS] * min(MANY, count - start))
        first, last = first or jobs[0].id, jobs[-1].id
    return range(first, last + 1)
