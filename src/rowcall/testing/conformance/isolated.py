"""Handlers for child processes, which import this module."""

from __future__ import annotations

import threading

from rowcall import Context, Fail
from rowcall.testing.conformance.notes import Notes


def endless(ctx: Context, notes: str) -> None:
    """Run until the process is told to end."""
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
