"""Generators of effects, run by sync and by async code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rowcall.base import effects
from rowcall.base.effects import Effect, Effects


class Add(Effect[list[int], int]):
    def __init__(self, number: int) -> None:
        self._number = number

    def run(self, world: list[int], /) -> int:
        if self._number < 0:
            raise ValueError(self._number)
        world.append(self._number)
        return sum(world)

    async def arun(self, world: list[int], /) -> int:
        await asyncio.sleep(0)
        return self.run(world)


def _arun(generator: Effects[list[int], int], world: list[int]) -> int:
    return asyncio.run(effects.arun(generator, world))


def _adding(*numbers: int) -> Effects[list[int], int]:
    total = 0
    for number in numbers:
        try:
            total = yield from Add(number)
        except ValueError:
            total = yield from Add(100)
    return total


@pytest.mark.parametrize("run", [effects.run, _arun])
def test_results_and_errors_go_into_the_generator(run: Callable[..., int]) -> None:
    assert run(_adding(1, 2), []) == 3
    assert run(_adding(1, -2, 3), []) == 104
    assert run(_adding(), []) == 0
    with pytest.raises(ValueError, match="-1"):
        run(iter(Add(-1)), [])


def test_a_cancelled_generator_may_yield_further_effects() -> None:
    world: list[int] = []

    class Forever(Add):
        async def arun(self, world: list[int], /) -> int:
            await asyncio.Event().wait()
            raise AssertionError("never")

    def waiting() -> Effects[list[int], int]:
        try:
            return (yield from Forever(0))
        finally:
            yield from Add(7)

    async def cancelled() -> None:
        task = asyncio.create_task(effects.arun(waiting(), world))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert world == [7]
