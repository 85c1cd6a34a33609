"""An app with tasks for child processes, which import this module."""

from __future__ import annotations

import os

from rowcall import Context, Rowcall
from rowcall.middleware import AsyncCallNext, CallNext, Middleware

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


jobs.middleware(Middleware(process_of, aprocess_of))
