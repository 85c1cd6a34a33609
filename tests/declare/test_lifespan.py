"""What is refused as a lifespan, and what its errors say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest

from rowcall import InvalidOption, LifespanFailed, Rowcall
from rowcall.declare.lifespan import LifespanFunction


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


def resources() -> Iterator[int]:
    yield 1


async def not_a_generator() -> None: ...


def with_a_parameter(app: object) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (None, "must be a function that yields once, got None"),
        (not_a_generator, "must yield once, and .*not_a_generator has no yield"),
        (
            with_a_parameter,
            "must be callable without arguments: .*with_a_parameter: missing a required argument: 'app'",
        ),
    ],
)
def test_what_cannot_be_a_lifespan_is_refused(jobs: Rowcall, function: LifespanFunction, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        jobs.lifespan(function)


def test_a_second_lifespan_is_refused(jobs: Rowcall) -> None:
    assert jobs.lifespan(resources) is resources
    with pytest.raises(InvalidOption, match=r"lifespan is already declared: tests\.declare\.test_lifespan\.resources"):
        jobs.lifespan(resources)


def never() -> Iterator[None]:
    yield from ()


async def never_async() -> AsyncIterator[None]:
    if __name__ == "never":
        yield


def twice() -> Iterator[None]:
    yield
    yield


async def twice_async() -> AsyncIterator[None]:
    yield
    yield


def no_manager() -> AbstractContextManager[None]:
    return 3  # type: ignore[return-value]


def exits() -> Iterator[None]:
    raise SystemExit(3)
    yield


async def exits_async() -> AsyncIterator[None]:
    raise SystemExit(3)
    yield


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (never, "it must yield once, and it did not yield"),
        (never_async, "it must yield once, and it did not yield"),
        (twice, "it must yield once, and it yielded again"),
        (twice_async, "it must yield once, and it yielded again"),
        (no_manager, "it must yield once or return a context manager, got 3"),
        (exits, "SystemExit: 3"),
        (exits_async, "SystemExit: 3"),
    ],
)
def test_one_that_does_not_yield_once_fails(jobs: Rowcall, function: LifespanFunction, problem: str) -> None:
    jobs.lifespan(function)
    with pytest.raises(LifespanFailed) as failed:
        jobs.drain()
    assert (failed.value.lifespan, failed.value.problem) == (f"{__name__}.{function.__name__}", problem)


class Closed:
    closed = 0

    def close(self) -> None:
        self.closed += 1


class Manager:
    left = 0

    async def __aenter__(self) -> Manager:
        return self

    async def __aexit__(self, *error: object) -> None:
        type(self).left += 1


def test_context_managers_are_entered_and_left(tmp_path: Path) -> None:
    closed = Closed()

    @asynccontextmanager
    async def decorated() -> AsyncIterator[None]:
        yield
        closed.close()

    @contextmanager
    def decorated_sync() -> Iterator[None]:
        yield
        closed.close()

    functions: list[Callable[[], object]] = [lambda: closing(closed), decorated, decorated_sync, Manager]
    for number, function in enumerate(functions):
        with Rowcall(tmp_path / f"{number}.db") as jobs:
            jobs.lifespan(function)  # type: ignore[type-var]
            jobs.drain()
    assert (closed.closed, Manager.left) == (3, 1)
