from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from rowcall.base import effects
from rowcall.base.effects import Effect, Effects
from rowcall.drivers.patience import OVERVIEW, UPKEEP, current_patience, patience, same_patience, with_patience


class Ask(Effect[None, float]):
    def run(self, world: None) -> float:
        return current_patience()

    async def arun(self, world: None) -> float:
        await asyncio.sleep(0)
        return current_patience()


@with_patience(OVERVIEW)
def overview() -> Effects[None, list[float]]:
    return [(yield from Ask()), (yield from Ask())]


def both() -> Iterator[tuple[list[float], float]]:
    yield effects.run(overview(), None), current_patience()

    async def two_at_once() -> tuple[list[float], float]:
        found, other = await asyncio.gather(effects.arun(overview(), None), Ask().arun(None))
        return found, other

    yield asyncio.run(two_at_once())


def test_an_operation_has_its_own_and_others_do_not() -> None:
    for found, outside in both():
        assert (found, outside) == ([OVERVIEW, OVERVIEW], 1.0)


def test_a_thread_has_it_only_if_it_is_passed() -> None:
    with ThreadPoolExecutor() as threads, patience(UPKEEP):
        assert threads.submit(current_patience).result() == 1.0
        assert threads.submit(same_patience(current_patience)).result() == UPKEEP
    assert current_patience() == 1.0
