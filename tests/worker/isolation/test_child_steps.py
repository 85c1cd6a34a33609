"""Durable steps in child processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rowcall import Encryption, Rowcall
from rowcall.cli.load import load
from rowcall.testing import eventually
from rowcall.worker.progress import ProgressWriter
from tests.worker import isolated
from tests.worker.isolation.support import enqueue
from tests.worker.support import Site, comes_to, ended


@pytest.mark.parametrize("handler", [isolated.sign_up, isolated.sign_up_async])
def test_steps_sleeps_and_signals(
    site: Site, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch, handler: Callable[..., object]
) -> None:
    monkeypatch.setenv("NOTES", str(site.folder))
    job = enqueue(jobs, handler, user_id=7)
    with jobs.worker(concurrency=1):
        eventually(lambda: [step.kind for step in jobs.steps(job)] == ["step", "sleep", "wait"])
        comes_to(jobs, job, "scheduled")
        assert (jobs.get(job).progress, jobs.get(job).progress_message) == (0.5, "waiting")
        jobs.signal(job, "confirmed", True)
        assert ended(jobs, job).result == [7, True, 3_000_000]
        assert (jobs.get(job).progress, jobs.get(job).progress_message) == (1.0, "waiting")
    assert len(site.lines) == 1
    assert jobs.get(job).attempt == 1


def test_everything_that_a_child_reads_and_writes_is_encrypted(tmp_path: Path) -> None:
    secret = "card-4111"
    with Rowcall(tmp_path / "secret.db", encrypt=Encryption(keys=["k" * 43])) as jobs:
        cards = [secret, f"{secret} fails", secret * 50_000]
        sent = [enqueue(jobs, isolated.charge, card=card) for card in cards]
        for job in sent:
            jobs.signal(job, "sent", secret)
        jobs.drain(concurrency=1)
        good, bad, large = [jobs.get(job) for job in sent]
        assert good.result == f"{secret.upper()} {secret}"
        assert (bad.status, bad.error_detail) == ("failed", f"{secret} fails was refused")
        assert large.result == f"{secret.upper() * 50_000} {secret}"
        assert [step.result for step in jobs.steps(good)] == [secret.upper(), secret]
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert len(written) > 50_000
    assert secret.encode() not in written.lower()


def test_steps_that_end_the_attempt(jobs: Rowcall) -> None:
    wrong = [enqueue(jobs, handler) for handler in (isolated.repeat_step, isolated.forget_step)]
    caught = enqueue(jobs, isolated.retry_sleep)
    jobs.drain(concurrency=1)
    assert [jobs.get(job).error_code for job in wrong] == ["STEPS:DUPLICATE_NAME", "STEPS:NOT_AWAITED"]
    assert (jobs.get(caught).attempt, jobs.get(caught).run_at) == (0, jobs.steps(caught)[0].due_at)


def test_a_report_before_the_first_step_is_the_last_one(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgressWriter, "note", lambda *report: None)  # as if the attempt ended before its next write
    job = enqueue(jobs, isolated.report_and_sleep)
    jobs.drain(concurrency=1)
    assert [step.kind for step in jobs.steps(job)] == ["sleep"]
    assert (jobs.get(job).progress, jobs.get(job).progress_message) == (0.1, "tired")


APP = """
import os
from functools import partial

from rowcall import Context, Rowcall

jobs = Rowcall(os.environ["QUEUE_URL"])


@jobs.task
def double(number: int) -> int:
    return 2 * number


@jobs.task(isolation="process")
def in_thread(ctx: Context) -> list[object]:
    doubled = ctx.gather(*(partial(ctx.call, double, number) for number in range(3)))
    first = ctx.first(partial(ctx.call, double, 9), partial(ctx.sleep, 3600))
    ctx.log.info("called")
    return [ctx.call(double, 2), *doubled, *first, ctx.patched("new")]


@jobs.task(isolation="process")
async def on_loop(ctx: Context) -> list[object]:
    doubled = await ctx.gather(*(ctx.call(double, number) for number in range(3)))
    first = await ctx.first(ctx.call(double, 9), ctx.sleep(3600))
    ctx.log.info("called")
    return [await ctx.call(double, 2), *doubled, *first, ctx.patched("new")]
"""


@pytest.mark.slow
def test_handlers_call_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "calling_app.py").write_text(APP)
    monkeypatch.setenv("QUEUE_URL", f"sqlite:///{tmp_path}/queue.db")
    monkeypatch.syspath_prepend(tmp_path)
    with load("calling_app:jobs") as jobs:
        written = [jobs.enqueue("in_thread"), jobs.enqueue("on_loop")]
        jobs.drain()
        for job in written:
            assert jobs.get(job).error_detail is None
            assert jobs.get(job).result == [4, 0, 2, 4, 0, 18, True]
            assert [line.message for line in jobs.log(job)][-1] == "called"
    monkeypatch.delitem(sys.modules, "calling_app")
