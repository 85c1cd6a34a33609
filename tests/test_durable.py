"""Durable steps: what is refused, and which functions a step can call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rowcall import Backoff, Context, InvalidArguments, InvalidOption, Rowcall
from rowcall.testing.fake_clock import FakeClock


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db", clock=FakeClock()) as made:
        yield made


async def double(number: int) -> int:
    return 2 * number


class Doubler:
    def method(self, number: int) -> int:
        return 2 * number

    def __call__(self, number: int) -> tuple[int, int]:
        return number, number


def test_functions_of_any_kind(jobs: Rowcall) -> None:
    @jobs.task
    async def handler(ctx: Context) -> list[object]:
        method, call = Doubler().method, Doubler()
        return [
            await ctx.step("coroutine", double, 1),
            await ctx.step("partial", partial(double, 2)),
            await ctx.step("returns a coroutine", lambda: double(3)),
            await ctx.step("method", method, 4),  # type: ignore[arg-type]
            isinstance(await ctx.step("object", call, 5), tuple),  # type: ignore[arg-type]
        ]

    job = handler.enqueue()
    jobs.drain()
    assert jobs.get(job).result == [2, 4, 6, 8, True]


def test_an_async_function_needs_an_async_handler(jobs: Rowcall) -> None:
    refused: list[str] = []

    @jobs.task
    def handler(ctx: Context) -> None:
        with pytest.raises(InvalidArguments, match="an async function needs an async handler") as caught:
            ctx.step("double", double, 1)
        refused.append(str(caught.value))

    handler.enqueue()
    jobs.drain()
    assert len(refused) == 1


def test_wrong_options_are_refused_where_they_are_given(jobs: Rowcall) -> None:
    refused: list[str] = []

    @jobs.task
    async def handler(ctx: Context) -> None:
        for wrong in (
            lambda: ctx.step("", double, 1),
            lambda: ctx.step("x", 5),  # type: ignore[call-overload]
            lambda: ctx.step("y", double, 1, retry=3),  # type: ignore[call-arg]
            lambda: ctx.step("z", double, 1, retry=Backoff.linear(1), connection=object()),
            lambda: ctx.sleep(-1),
            lambda: ctx.wait_for("go", timeout=-1),
            lambda: ctx.gather(1),
        ):
            with pytest.raises(InvalidOption) as caught:
                wrong()
            refused.append(caught.value.option)

    job = handler.enqueue()
    jobs.drain()
    assert refused == ["name", "function", "retry", "retry", "delay", "timeout", "gather"]
    assert jobs.steps(job) == []


def test_a_step_is_awaited_once(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=1)
    async def handler(ctx: Context) -> None:
        step = ctx.step("a", asyncio.sleep, 0)
        await step
        await step

    job = handler.enqueue()
    jobs.drain()
    assert "a step is awaited twice" in str(jobs.get(job).error_detail)


def test_an_error_wins_over_a_sleep_next_to_it(jobs: Rowcall) -> None:
    async def fail() -> None:
        raise ValueError("no")

    @jobs.task(max_attempts=1)
    async def handler(ctx: Context) -> str:
        try:
            await ctx.gather(ctx.sleep(60), ctx.step("fails", fail))
        except ValueError:
            return await ctx.step("undo", partial(_undone))
        return "never"

    job = handler.enqueue()
    jobs.drain()
    assert jobs.get(job).result == "undone"


async def _undone() -> str:
    return "undone"


def test_a_retry_function_chooses_the_delay(jobs: Rowcall) -> None:
    given: list[tuple[int, str]] = []

    def wait(failures: int, error: BaseException) -> float:
        given.append((failures, str(error)))
        return 60.0

    def fail(text: str) -> None:
        raise ValueError(text)

    @jobs.task
    def handler(ctx: Context) -> None:
        ctx.step("fails", fail, "no", retry=wait)

    @jobs.task(max_attempts=1)
    def gives_up(ctx: Context) -> None:
        ctx.step("fails", fail, "no", retry=Backoff.constant(60, give_up_on=ValueError))

    @jobs.task(max_attempts=2)
    def gives_up_too(ctx: Context) -> None:
        ctx.step("fails", fail, "no", retry=lambda failures, error: None)

    job, other, third = handler.enqueue(), gives_up.enqueue(), gives_up_too.enqueue()
    jobs.drain()
    assert jobs.attempts(third)[0].error_code == "INTERNAL:ValueError"  # the step is not tried again
    assert given == [(1, "no")]
    assert jobs.why(job).sentence.startswith("step 'fails' failed with")
    assert jobs.get(other).status == "failed"
