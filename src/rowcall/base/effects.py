"""Code that is written once for sync and async callers: generators of effects, and the two functions that run them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

W = TypeVar("W")
T = TypeVar("T")


class Effect(ABC, Generic[W, T]):
    """Something that a generator needs done: `found = yield from effect`. `W` is what it is done with."""

    __slots__ = ()

    def __iter__(self) -> Generator[Effect[W, T], Any, T]:
        result: T = yield self
        return result

    @abstractmethod
    def run(self, world: W, /) -> T: ...

    @abstractmethod
    def arun(self, world: W, /) -> Awaitable[T]: ...


Effects = Generator[Effect[W, Any], Any, T]
"""A generator of effects. An effect that fails raises in it."""


def run(effects: Effects[W, T], world: W) -> T:
    try:
        effect = next(effects)
        while True:
            try:
                result = effect.run(world)
            except BaseException as error:
                effect = effects.throw(error)
            else:
                effect = effects.send(result)
    except StopIteration as stop:
        returned: T = stop.value
        return returned


async def arun(effects: Effects[W, T], world: W) -> T:
    """Do what `run` does. A cancellation is raised in the generator, which may yield further effects."""
    try:
        effect = next(effects)
        while True:
            try:
                result = await effect.arun(world)
            except BaseException as error:
                effect = effects.throw(error)
            else:
                effect = effects.send(result)
    except StopIteration as stop:
        returned: T = stop.value
        return returned
