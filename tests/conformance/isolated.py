"""Handlers for child processes, which import this module."""

from __future__ import annotations

import os
import signal
import threading

from rowcall import Context, Fail, Retry
from tests.conformance.notes import Notes


def endless(ctx: Context, notes: str) -> None:
    """Run until the process is asked to end."""
    noted = Notes(notes)
    noted.write("started", ctx.job.id, ctx.job.attempt)
    try:
        threading.Event().wait()
    finally:
        noted.write("stopped" if ctx.cancelled else "ended", ctx.job.id, ctx.job.attempt)


def raise_when_told(ctx: Context, notes: str, way: str) -> None:
    try:
        endless(ctx, notes)
    finally:
        raise Fail("A:B", "said so") if way == "fail" else ValueError("broken off")


def stubborn(ctx: Context, notes: str) -> None:
    """Outlive SIGTERM; the second attempt notes whether the first is dead."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    noted = Notes(notes)
    noted.write("started", ctx.job.id, ctx.job.attempt)
    if ctx.job.attempt == 1:
        threading.Event().wait()
    try:
        os.kill(noted.read("started")[0].pid, 0)
    except ProcessLookupError:
        noted.write("alone", ctx.job.id, ctx.job.attempt)


def too_many_requests() -> None:
    raise Retry(60, "429", hold="child")


def streamed_in_a_child(ctx: Context, count: int) -> None:
    for number in range(count):
        ctx.stream(number)


def uses_units(ctx: Context) -> None:
    try:
        ctx.used("unknown", 1)
    except Exception:
        ctx.used("child", 15)


def logged_in_a_child(ctx: Context, text: str) -> None:
    ctx.log.info(text)


def logged_between_sleeps(ctx: Context, count: int) -> None:
    ctx.log.info("begin")
    for number in range(count):
        ctx.log.info(f"before {number}")
        ctx.step(f"step {number}", ctx.log.info, f"in {number}")
        ctx.sleep(1)
    ctx.log.info(f"attempt {ctx.job.attempt}")
    if ctx.job.attempt == 1:
        raise ValueError("again")
