"""Code that is written once for sync and async callers: generators that yield what they need, and what runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

W = TypeVar("W")
T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")


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


def drive(questions: Generator[Q, A, T], answer: Callable[[Q], A]) -> T:
    """Run a generator that only asks, such as a plan. An error goes to the caller, never into the generator."""
    try:
        question = next(questions)
        while True:
            question = questions.send(answer(question))
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        questions.close()


async def adrive(questions: Generator[Q, A, T], answer: Callable[[Q], Awaitable[A]]) -> T:
    """Do what `drive` does, where answers are awaited."""
    try:
        question = next(questions)
        while True:
            question = questions.send(await answer(question))
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        questions.close()
