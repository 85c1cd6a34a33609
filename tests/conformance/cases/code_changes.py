"""Handlers whose code changes while their jobs are in the middle of it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rowcall import Context, InvalidOption, Rowcall, Status
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.worker_parts import checking

CODE = "STEPS:CHANGED"
HANDLER = """
from rowcall import Context

def handler(ctx: Context) -> str:
    {}
    return ctx.wait_for("resume")
"""

Deploy = Callable[..., Rowcall]


FIRST = ('ctx.step("price", str, "1")', 'ctx.step("charge", str, "2")')
SECOND = ('ctx.step("charge", str, "2")', 'ctx.step("price", str, "1")')


class TestCodeChanges:
    @pytest.fixture
    def deploy(self, open_queue: OpenQueue, clock: FakeClock, tmp_path: Path) -> Iterator[Deploy]:
        """Return a queue whose task `order` is declared in a module that is written for it."""
        written: list[str] = []

        def deployed(*lines: str, grace: float = 600, is_async: bool = False) -> Rowcall:
            name = f"deployed_{tmp_path.name}_{len(written)}"
            written.append(name)
            text = HANDLER.format("\n    ".join(lines))
            if is_async:
                text = (
                    text.replace("def ", "async def ")
                    .replace("ctx.step", "await ctx.step")
                    .replace("ctx.wait_for", "await ctx.wait_for")
                )
            path = tmp_path / f"{name}.py"
            path.write_text(text)
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            jobs = open_queue(clock=clock, mismatch_grace=grace)
            jobs.task(name="order")(module.handler)
            return jobs

        yield deployed
        for name in written:
            sys.modules.pop(name, None)

    def test_a_job_that_no_longer_fits_waits_for_code_that_fits(self, deploy: Deploy, clock: FakeClock) -> None:
        old, new = deploy(*FIRST), deploy(*SECOND)
        job = old.enqueue("order")
        old.drain()
        old.signal(job, "resume", "thanks")
        for _ in range(2):
            assert new.drain().released == (1 if _ == 0 else 0)
        held = new.get(job)
        assert (held.status, held.error_code, held.attempt) == ("pending", CODE, 0)
        said = "step 1 is recorded as step 'price', and the handler now calls step 'charge'"
        assert said in str(held.error_detail)
        assert [attempt.status for attempt in new.attempts(job)] == ["snoozed", "released"]
        assert "recorded steps" in [event.detail for event in new.timeline(job)][-1]  # type: ignore[operator]
        assert len(new.steps(job)) == 3
        repaired = deploy(*FIRST, "# repaired")
        repaired.drain()
        assert (repaired.get(job).status, repaired.get(job).result) == ("succeeded", "thanks")

    def test_a_handler_that_catches_the_change_does_not_go_on(self, deploy: Deploy) -> None:
        lines = "try:", '    ctx.step("{}", str, "1")', "except Exception:", "    pass"
        old, new = (deploy(*(line.format(name) for line in lines)) for name in ("charge", "charge card"))
        job = old.enqueue("order")
        old.drain()
        new.signal(job, "resume")
        new.drain()
        held = new.get(job)
        assert (held.status, held.error_code, held.attempt) == ("pending", CODE, 0)

    def test_it_fails_when_the_grace_is_over(self, deploy: Deploy, clock: FakeClock) -> None:
        old, new = deploy(*FIRST), deploy(*SECOND)
        job = old.enqueue("order")
        old.drain()
        old.reschedule(job, delay=0)
        old.signal(job, "resume")
        new.drain()
        check = checking(new, clock)
        check(0)
        check(600)
        failed = new.get(job)
        assert (failed.status, failed.error_code) == (Status.FAILED, CODE)
        assert "is recorded as step 'price'" in str(failed.error_detail)
        assert str(failed.error_detail).endswith("; no worker that fits claimed the job in time")
        assert [(group.error_code, group.count) for group in new.top_errors()] == [(CODE, 1)]
        assert new.timeline(job)[-1].event == "FAILED"

    def test_without_a_grace_it_fails_at_once(self, deploy: Deploy) -> None:
        old, new = deploy(*FIRST), deploy(*SECOND, grace=0)
        job = old.enqueue("order")
        old.drain()
        old.signal(job, "resume")
        new.drain()
        assert (new.get(job).status, new.get(job).error_code) == ("failed", CODE)

    def test_somebody_may_decide(self, deploy: Deploy) -> None:
        old, new = deploy(*FIRST), deploy(*SECOND)
        jobs = [old.enqueue("order") for _ in range(2)]
        old.drain()
        for job in jobs:
            old.signal(job, "resume", "done")
        assert new.drain().released == 2
        new.retry(jobs[0], from_step="price")
        new.cancel(jobs[1])
        new.drain()
        assert new.get(jobs[1]).status == "cancelled"
        assert [step.name for step in new.steps(jobs[0])] == ["charge", "price", "resume"]

    @pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
    def test_patched_marks_new_code(self, deploy: Deploy, clock: FakeClock, is_async: bool) -> None:
        def deployed(*lines: str) -> Rowcall:
            return deploy(*lines, is_async=is_async)

        price = 'ctx.step("price", str, "1")'
        old = deployed(price, 'ctx.step("charge", str, "2")')
        passed = old.enqueue("order")
        old.drain()
        new = deployed(
            price,
            'name = "new charge" if ctx.patched("new-charge") else "charge"',
            'ctx.step(name, str, "2")',
            'late = ctx.patched("late")',
            'late and ctx.wait_for("first")',
            'late and ctx.step("ship", str, "3")',
        )
        fresh = new.enqueue("order")
        new.drain()
        for job in (passed, fresh):
            new.signal(job, "first")
            new.signal(job, "resume", "done")
        new.drain()
        assert [(step.kind, step.name) for step in new.steps(fresh)] == [
            *(("patch", "late"), ("patch", "new-charge")),
            *(("step", "price"), ("step", "new charge"), ("wait", "first"), ("step", "ship"), ("wait", "resume")),
        ]
        assert [step.name for step in new.steps(passed)] == ["price", "charge", "resume"]
        assert [new.get(job).result for job in (passed, fresh)] == ["done", "done"]
        assert "patch" not in str([event.event for event in new.timeline(fresh)]).lower()

    def test_a_call_of_patched_is_removed_when_no_old_job_is_left(self, deploy: Deploy) -> None:
        new = deploy('ctx.patched("new-charge")', *FIRST)
        job = new.enqueue("order")
        new.drain()
        assert [step.kind for step in new.steps(job)] == ["patch", "step", "step", "wait"]
        cleaned = deploy(*FIRST)
        cleaned.signal(job, "resume", "done")
        cleaned.drain()
        assert cleaned.get(job).result == "done"

    def test_wrong_calls_of_patched_are_refused(self, jobs: Rowcall) -> None:
        @jobs.task
        def twice(ctx: Context) -> None:
            for wrong in ("", 3, "a\0b"):
                with pytest.raises(InvalidOption, match="name"):
                    ctx.patched(wrong)  # type: ignore[arg-type]
            ctx.patched("a")
            ctx.patched("a")

        @jobs.task
        def inside(ctx: Context) -> None:
            ctx.step("outer", lambda: ctx.patched("a"))

        jobs_of: list[Any] = [twice.enqueue(), inside.enqueue()]
        jobs.drain()
        assert [jobs.get(job).error_code for job in jobs_of] == ["STEPS:DUPLICATE_NAME", "STEPS:NOT_ALLOWED"]
        assert "ctx.patched('a') is called twice" in str(jobs.get(jobs_of[0]).error_detail)
