"""An app with tasks for child processes, which import this module."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from rowcall import INJECTED, Context, Depends, Rowcall
from rowcall.middleware import AsyncCallNext, CallNext, EnqueueCall, Middleware

jobs = Rowcall()


def process_of(ctx: Context, call_next: CallNext) -> object:
    return [os.getpid(), call_next()]


async def aprocess_of(ctx: Context, call_next: AsyncCallNext) -> object:
    return [os.getpid(), await call_next()]


@jobs.task(isolation="process")
def pid() -> object:
    return os.getpid()


@jobs.task(isolation="process")
async def apid() -> object:
    return os.getpid()


def note(text: str) -> None:
    with open(os.environ["NOTES"], "a") as file:
        file.write(f"{text} {os.getpid()}\n")


def connection() -> Iterator[int]:
    note("open")
    yield os.getpid()
    note("close")


async def pool(opened: Annotated[int, Depends(connection, scope="worker")]) -> AsyncIterator[object]:
    yield asyncio.get_running_loop()
    note("end")


def cursor(ctx: Context, opened: Annotated[int, Depends(connection, scope="worker")]) -> Iterator[list[int]]:
    yield [ctx.job.id, opened]
    note("cursor")


@jobs.task(isolation="process")
def use_connection(made: Annotated[list[int], Depends(cursor)] = INJECTED) -> object:
    return made


@jobs.task(isolation="process")
async def use_pool(loop: Annotated[object, Depends(pool, scope="worker")] = INJECTED) -> object:
    return loop is asyncio.get_running_loop()


@jobs.task(isolation="process")
def go_on(ctx: Context, by_name: bool) -> None:
    if by_name:
        ctx.continue_with("went_on")
    else:
        ctx.continue_with(went_on)


@jobs.task
def went_on(process: int = 0) -> int:
    return process


@jobs.enqueue_middleware
def add_process(call: EnqueueCall) -> None:
    if call.task == "went_on":
        call.arguments["process"] = os.getpid()


jobs.middleware(Middleware(process_of, aprocess_of))
