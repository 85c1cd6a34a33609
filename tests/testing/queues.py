"""An app with a module-level queue, as the tests of an app find it."""

from __future__ import annotations

from rowcall import Backoff, Context, Rowcall

jobs = Rowcall("sqlite:////nowhere/at/all.db")
sent: list[str] = []


@jobs.task
def send_email(to: str, subject: str = "hi") -> str:
    sent.append(to)
    return f"{subject} to {to}"


@jobs.task(retry=Backoff.constant(60))
def flaky(ctx: Context, failures: int) -> int:
    if ctx.job.attempt <= failures:
        raise ConnectionError(f"attempt {ctx.job.attempt}")
    return ctx.job.attempt
