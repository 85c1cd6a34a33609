from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rowcall import Context, InvalidOption, Rowcall
from rowcall.app import queue_of


class Handler:
    def __call__(self, number: int) -> int:
        return 2 * number

    def method(self, number: int) -> int:
        return 3 * number


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: None, "has no name; give it one with task(name=…)"),
        (functools.partial(print, 1), "has no name; give it one"),
        (5, "must be a function, got 5"),
        ("send", "must be a function, got 'send'"),
    ],
)
def test_other_objects_are_refused_as_tasks(jobs: Rowcall, function: Any, said: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        jobs.task(function)
    assert said in str(caught.value)
    assert queue_of(jobs).declared.tasks == {}


def test_a_method_is_refused_where_it_is_declared(jobs: Rowcall) -> None:
    said = r"Mailer\.send is a method, .*; declare a function or a @staticmethod, and pass what it needs as arguments"
    with pytest.raises(InvalidOption, match=said):

        class Mailer:
            @jobs.task
            def send(self, to: str) -> None: ...

    with pytest.raises(InvalidOption, match=r"build is a method"):

        class Builder:
            @jobs.task
            @classmethod
            def build(cls) -> None: ...

    class Holder:
        @staticmethod
        @jobs.task
        def double(number: int) -> int:
            return 2 * number

    assert Holder.double.enqueue(4).payload == {"number": 4}


def test_a_context_that_is_not_annotated_or_not_first_is_refused_where_it_is_declared(jobs: Rowcall) -> None:
    def bare(ctx, path: str) -> None: ...  # type: ignore[no-untyped-def]
    def spelled(context, path: str) -> None: ...  # type: ignore[no-untyped-def]
    def last(path: str, ctx: Context) -> None: ...

    with pytest.raises(InvalidOption, match="the parameter context has no annotation; write context: Context to"):
        jobs.task(spelled)
    with pytest.raises(InvalidOption, match="task 'bare': the parameter ctx has no annotation; write ctx: Context"):
        jobs.task(bare)
    with pytest.raises(InvalidOption, match="task 'last': ctx: Context must be the first parameter"):
        jobs.task(last)
    assert queue_of(jobs).declared.tasks == {}


def test_a_generator_cannot_be_a_task(jobs: Rowcall) -> None:
    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(InvalidOption, match="is a generator: its body would never run"):
        jobs.task(numbers)


def test_every_callable_can_be_a_task(jobs: Rowcall) -> None:
    async def coroutine(number: int) -> int:
        return 4 * number

    callables: dict[str, Callable[..., Any]] = {
        "object": Handler(),
        "method": Handler().method,
        "partial": functools.partial(Handler().method, number=7),
        "coroutine": coroutine,
    }
    for name, function in callables.items():
        jobs.task(name=name)(function)
        jobs.enqueue(name, {"number": 2})
    assert jobs.drain().succeeded == 4
    assert [job.result for job in jobs.list().jobs] == [8, 6, 6, 4]
