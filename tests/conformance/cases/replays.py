"""Jobs that are replayed with the recorded results of their steps: before a deploy, or in a debugger."""

from __future__ import annotations

from functools import partial

import pytest

from rowcall import Context, Fail, Rowcall
from rowcall.app import queue_of
from rowcall.testing.fake_clock import FakeClock
from rowcall.worker.replay import NOT_DECLARED_CODE, Replayed, check_jobs, replay_job
from tests.conformance.fixtures import OpenQueue

CHANGED = "STEPS:CHANGED"


def checked(jobs: Rowcall) -> dict[int, Replayed]:
    return {replayed.job.id: replayed for replayed in check_jobs(queue_of(jobs))}


class TestReplays:
    @pytest.fixture
    def versions(self, open_queue: OpenQueue, clock: FakeClock) -> tuple[Rowcall, Rowcall]:
        """The old and the new code of an app."""
        return open_queue(clock=clock), open_queue(clock=clock)

    def test_changed_steps_and_arguments_are_found(self, versions: tuple[Rowcall, Rowcall]) -> None:
        old, new = versions

        @old.task(name="order")
        def old_order(ctx: Context, first: str) -> object:
            ctx.step(first, int, "1")
            ctx.step("charge", int, "2")
            return ctx.wait_for("go")

        calls: list[str] = []

        async def number(text: str) -> int:
            return int(text)

        async def call(text: str) -> None:
            calls.append(text)

        @new.task(name="order")
        async def new_order(ctx: Context, first: str) -> object:
            calls.append(first)
            await ctx.step("price", number, "1")
            await ctx.step("charge", call, "charged")
            await ctx.wait_for("go")
            return await ctx.step("ship", call, "shipped")

        @old.task(name="greet")
        def greet(name: str) -> None: ...

        @new.task(name="greet")
        def greet_again(name: str, loud: bool) -> None: ...

        @old.task
        def removed() -> None: ...

        fits, breaks = old_order.enqueue("price"), old_order.enqueue("cost")
        signalled = old_order.enqueue("price")
        old.drain()
        old.signal(signalled, "go")
        greeted, unknown, ended = greet.enqueue("ann"), removed.enqueue(), old.enqueue("greet", {"name": "bob"})
        old.cancel(ended)
        before = [(old.get(job), old.timeline(job), old.steps(job)) for job in (fits, breaks, greeted, unknown)]
        answers = checked(new)
        assert {job_id for job_id, answer in answers.items() if not answer.breaks} == {fits.id, signalled.id}
        assert answers[breaks.id].error_code == CHANGED
        said = "step 1 is recorded as step 'cost', and the handler now calls step 'price'"
        assert said in str(answers[breaks.id].error_detail)
        assert answers[greeted.id].error_code == "INVALID_INPUT:SCHEMA_MISMATCH"
        assert answers[unknown.id].error_code == NOT_DECLARED_CODE
        assert [str(answers[job.id].stopped_at) for job in (fits, breaks)] == ["wait 'go'", "None"]
        assert calls == ["price", "cost", "price"]  # no step ran
        assert before == [(old.get(job), old.timeline(job), old.steps(job)) for job in (fits, breaks, greeted, unknown)]

    @pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
    def test_children_races_and_patches_fit(self, jobs: Rowcall, is_async: bool) -> None:
        @jobs.task
        def double(n: int) -> int:
            return 2 * n

        @jobs.task
        def in_thread(ctx: Context) -> object:
            total = ctx.call(double, 2) + sum(ctx.gather(*(partial(ctx.call, double, n) for n in (1, 2))))
            if ctx.patched("new"):
                ctx.step("log", str, total)
            ctx.stream(total)
            ctx.progress(0.5)
            index, _ = ctx.first(partial(ctx.wait_for, "go"), partial(ctx.sleep, 3600))
            return ctx.step("end", str, index)

        async def text(value: object) -> str:
            return str(value)

        @jobs.task
        async def in_loop(ctx: Context) -> object:
            total = await ctx.call(double, 2) + sum(await ctx.gather(*(ctx.call(double, n) for n in (1, 2))))
            if ctx.patched("new"):
                await ctx.step("log", text, total)
            ctx.stream(total)
            ctx.progress(0.5)
            index, _ = await ctx.first(ctx.wait_for("go"), ctx.sleep(3600))
            return await ctx.step("end", text, index)

        job = (in_loop if is_async else in_thread).enqueue()
        jobs.drain()
        values = list(map(str, jobs.steps(job)))
        for _ in range(2):
            answer = checked(jobs)[job.id]
            assert (answer.error_code, answer.breaks, str(answer.stopped_at)) == (None, False, "ctx.first")
        assert list(map(str, jobs.steps(job))) == values
        jobs.signal(job, "go")
        jobs.drain()
        assert (jobs.get(job).result, checked(jobs)) == ("0", {})
        ended = replay_job(queue_of(jobs), job.id, runs_steps=False)
        assert (ended.result, ended.stopped_at, ended.is_suspended) == ('"0"', None, False)

    def test_a_replay_runs_further_steps_if_asked_and_writes_nothing(self, jobs: Rowcall) -> None:
        ran: list[str] = []

        @jobs.task
        def note(text: str) -> None:
            ran.append(text)

        @jobs.task(max_attempts=1)
        def load(ctx: Context, fails: bool) -> str:
            ctx.step("read", ran.append, "read")
            if fails:
                ctx.step("parse", lambda: 1 // 0)
            note.enqueue("outside of steps")
            ran.append("continued")
            ctx.step("write", ran.append, "written")
            return "done"

        job, other = load.enqueue(True), load.enqueue(False)
        jobs.drain()
        ran.clear()
        queue = queue_of(jobs)
        stopped = replay_job(queue, job.id, runs_steps=False)
        assert (str(stopped.stopped_at), stopped.error_code) == ("step 'parse'", None)
        failed = replay_job(queue, job.id, runs_steps=True)
        assert (failed.error_code, type(failed.error)) == ("INTERNAL:ZeroDivisionError", ZeroDivisionError)
        written = replay_job(queue, other.id, runs_steps=True)
        assert (written.is_suspended, written.stopped_at, ran) == (True, None, [])
        assert (jobs.get(job).status, len(jobs.steps(job)), jobs.list(type="note", status="pending").jobs) == (
            "failed",
            1,
            [],
        )
        note.enqueue("afterwards")  # the queue writes again

    def test_what_a_handler_means_to_raise_breaks_nothing(self, jobs: Rowcall) -> None:
        @jobs.task
        def refuse(ctx: Context, how: str) -> None:
            ctx.step("look", str, how)
            ctx.sleep(3600)
            if how == "fail":
                raise Fail("ORDER:REFUSED")
            raise KeyError(how)

        fails, raises = refuse.enqueue("fail"), refuse.enqueue("error")
        jobs.drain()
        for job in (fails, raises):
            jobs.reschedule(job, delay=0)
        answers = checked(jobs)
        assert [(answers[job.id].error_code, answers[job.id].breaks) for job in (fails, raises)] == [
            ("ORDER:REFUSED", False),
            ("INTERNAL:KeyError", True),
        ]
