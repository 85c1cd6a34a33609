"""What is refused as middleware, and what its errors say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Context, InvalidOption, Rowcall
from rowcall.middleware import AsyncCallNext, CallNext, Middleware


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


def sync(ctx: Context, call_next: CallNext) -> object:
    return call_next()


async def asynchronous(ctx: Context, call_next: AsyncCallNext) -> object:
    return await call_next()


def yielding(ctx: Context, call_next: CallNext) -> Iterator[None]:
    yield


def alone(ctx: Context) -> object:
    return ctx


@pytest.mark.parametrize(
    ("middleware", "problem"),
    [
        (3, r"must be a function such as `def timed\(ctx, call_next\)`, got 3"),
        (yielding, "must call its second argument, and .*yielding yields; .* use rowcall.middleware.around"),
        (alone, "must take ctx and call_next: .*alone: too many positional arguments"),
    ],
)
def test_what_cannot_be_middleware_is_refused(jobs: Rowcall, middleware: object, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        jobs.middleware(middleware)  # type: ignore[type-var]
    with pytest.raises(InvalidOption, match=problem):
        jobs.task(middleware=[middleware])  # type: ignore[list-item]


def test_it_must_be_of_the_kind_of_the_task(jobs: Rowcall) -> None:
    async def send() -> None: ...

    def store() -> None: ...

    refused = r"sync is sync, and the task 'send' is async; write one function for each kind, .*Middleware\(sync, asy"
    with pytest.raises(InvalidOption, match=refused):
        jobs.task(middleware=[sync])(send)
    with pytest.raises(InvalidOption, match="asynchronous is async, and the task 'store' is sync"):
        jobs.task(middleware=[asynchronous])(store)
    jobs.middleware(sync)
    with pytest.raises(InvalidOption, match=refused):
        jobs.task(send)
    assert jobs.task(store)() is None


def test_a_pair_has_one_of_each_kind() -> None:
    with pytest.raises(InvalidOption, match=r"sync must be a plain function, and .*asynchronous is async"):
        Middleware(asynchronous, asynchronous)
    with pytest.raises(InvalidOption, match=r"asynchronous must be an async function, and .*sync is not"):
        Middleware(sync, sync)
    assert repr(Middleware(sync, asynchronous)) == f"<middleware {__name__}.sync>"


def test_a_list_of_them_is_an_option(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match="middleware must be a list of functions, got <function sync"):
        jobs.task(middleware=sync)  # type: ignore[call-overload]
