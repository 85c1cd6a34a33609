"""What a handler reads through its context: the previous step and the blockers, typed, and never on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rowcall import Context, InvalidArguments, Rowcall


@dataclass
class Report:
    title: str
    pages: int


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


def test_the_previous_result_is_read_as_a_type(jobs: Rowcall) -> None:
    @jobs.task
    def write(title: str) -> Report:
        return Report(title, 3)

    @jobs.task
    def count(ctx: Context) -> int:
        return ctx.previous_as(Report).pages

    @jobs.task
    async def count_async(ctx: Context) -> int:
        return (await ctx.aprevious(int)) + 1

    chain = jobs.start_chain([write.bind("a"), count.bind(), count_async.bind()])
    jobs.drain()
    assert jobs.result(chain) == 4


def test_blockers_are_read_as_a_type_and_a_failed_one_is_none(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=1)
    def write(title: str) -> Report:
        if not title:
            raise ValueError("no title")
        return Report(title, 3)

    @jobs.task(on_blocker_failure="run")
    async def titles(ctx: Context) -> list[list[str | None]]:
        loaded = [None if one is None else one.title for one in ctx.blockers_as(Report)]
        awaited = [None if one is None else one.title for one in await ctx.ablockers(Report)]
        return [loaded, awaited]

    job = titles.using(after=[write.enqueue("a"), write.enqueue("")]).enqueue()
    jobs.drain()
    assert jobs.result(job) == [["a", None], ["a", None]]


def test_a_result_that_does_not_fit_the_type_is_refused(jobs: Rowcall) -> None:
    @jobs.task
    def write() -> str:
        return "text"

    @jobs.task(max_attempts=1)
    def count(ctx: Context) -> int:
        with pytest.raises(
            InvalidArguments, match=r"count: previous is not a <class 'int'>: Expected `int`, got `str`"
        ):
            ctx.previous_as(int)
        return 1

    chain = jobs.start_chain([write.bind(), count.bind()])
    jobs.drain()
    assert jobs.result(chain) == 1


def test_an_async_handler_has_what_its_code_names_before_it_starts(jobs: Rowcall) -> None:
    @jobs.task
    def first() -> int:
        return 1

    @jobs.task
    async def second(ctx: Context) -> list[object]:
        async def inner() -> object:
            return ctx.previous

        return [await inner(), ctx.blockers]

    @jobs.task(isolation="thread")
    async def third(ctx: Context) -> object:
        return ctx.previous

    chain = jobs.start_chain([first.bind(), second.bind(), third.bind()])
    jobs.drain()
    assert jobs.result(chain) == [1, [1]]


def read_both(ctx: Context) -> object:
    return [ctx.previous, ctx.blockers]


def test_reading_on_the_event_loop_elsewhere_is_refused_with_the_cure(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=1)
    async def second(ctx: Context) -> object:
        with pytest.raises(RuntimeError, match=r"ctx\.previous would block the event loop .* await ctx\.aprevious\(\)"):
            read_both(ctx)
        return [await ctx.aprevious(), await ctx.ablockers(), read_both(ctx)]

    chain = jobs.start_chain([second.bind()])
    jobs.drain()
    assert jobs.result(chain) == [None, [], [None, []]]


def test_a_callable_object_is_read_ahead_too(jobs: Rowcall) -> None:
    class Handler:
        async def __call__(self, ctx: Context) -> object:
            return ctx.previous

    first = jobs.task(name="first")(lambda: 5)
    second = jobs.task(name="second")(Handler())
    chain = jobs.start_chain([first.bind(), second.bind()])
    asyncio.run(jobs.adrain())
    assert jobs.result(chain) == 5
