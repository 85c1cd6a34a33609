"""What is refused as a dependency, and what the errors say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import pytest
from fastapi import Depends as FastApiDepends

from rowcall import INJECTED, Context, Depends, InvalidArguments, InvalidOption, Rowcall


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


class Session: ...


def get_session() -> Session:
    return Session()


async def aget_session() -> Session:
    return Session()


def of_attempt(session: Annotated[Session, Depends(get_session)]) -> Session:
    return session


def with_context(ctx: Context) -> int:
    return ctx.job.id


def with_argument(number: int) -> int:
    return number


def hen(egg: int) -> int:
    return egg


def egg(hen: Annotated[int, Depends(hen)]) -> int:
    return hen


EGG = Depends(egg)
BY_DEFAULT = Depends(get_session)


def circular(hen: Annotated[int, EGG]) -> int:
    return hen


hen.__annotations__["egg"] = Annotated[int, EGG]


def no_default(session: Annotated[Session, Depends]) -> None: ...
def twice(session: Annotated[Session, Depends(get_session), Depends(aget_session)]) -> None: ...
def by_default(session: Session = BY_DEFAULT) -> None: ...  # type: ignore[assignment]
def of_fastapi(session: Annotated[Session, FastApiDepends(get_session)]) -> None: ...
def positional(session: Annotated[Session, Depends(get_session)], /) -> None: ...
def sync_needs_async(session: Annotated[Session, Depends(aget_session)]) -> None: ...
def cycle(hen: Annotated[int, Depends(circular)]) -> None: ...
def narrower(session: Annotated[Session, Depends(of_attempt, scope="worker")]) -> None: ...
def jobless(job: Annotated[int, Depends(with_context, scope="worker")]) -> None: ...
def unfilled(number: Annotated[int, Depends(with_argument)]) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (no_default, r"task 'no_default': the annotation of session must have one Depends\(function\)"),
        (twice, r"the annotation of session must have one Depends\(function\)"),
        (by_default, r"the default of session is a Depends; write session: Annotated\[…, Depends\(.*get_session, sco"),
        (of_fastapi, r"the Depends of session is from fastapi.params; a worker knows rowcall.Depends only"),
        (positional, "session is filled in by name, so it cannot be positional-only"),
        (
            sync_needs_async,
            r"is sync, and its dependency .*aget_session is async; make the task async, ",
        ),
        (cycle, r"task 'cycle' has a dependency cycle: \S+\.egg → \S+\.hen → \S+\.egg"),
        (
            narrower,
            r"dependency \S+of_attempt has scope='worker', and session has scope='attempt'; .* only depend",
        ),
        (jobless, r"has scope='worker', so there is no job for ctx: Context"),
        (unfilled, r"dependency \S+with_argument has a parameter number that nothing fills in; .* or set a default"),
    ],
)
def test_what_cannot_be_filled_in_is_refused(jobs: Rowcall, function: Callable[..., None], problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        jobs.task(function)


def test_what_cannot_be_a_dependency_is_refused() -> None:
    with pytest.raises(InvalidOption, match="Depends must have a function, got 3"):
        Depends(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="scope must be one of attempt, worker, got 'request'"):
        Depends(get_session, scope="request")  # type: ignore[arg-type]


def test_a_dependency_is_not_an_argument(jobs: Rowcall) -> None:
    @jobs.task
    def charge(order_id: int, session: Annotated[Session, Depends(get_session)] = INJECTED) -> None: ...

    refused = "'session' is not an argument: it is a dependency, which the worker fills in; leave it out"
    for session in (Session(), 3):
        with pytest.raises(InvalidArguments, match=refused):
            charge.enqueue(7, session=session)  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments, match="takes at most 1 positional arguments, got 2"):
        charge.enqueue(7, Session())
    with pytest.raises(InvalidArguments, match=refused):
        jobs.enqueue("charge", {"order_id": 7, "session": None})
    assert jobs.list().jobs == []
    assert jobs.declared_task("charge").arguments.names == ["order_id"]


class Numbers:
    def __call__(self) -> Iterator[int]:
        yield 3


def numbers(number: int) -> Iterator[int]:
    yield number


SEVEN = partial(numbers, 7)
THREE = Numbers()


def test_partial_functions_and_callable_objects(jobs: Rowcall) -> None:
    @jobs.task
    def add(one: Annotated[int, Depends(SEVEN)] = INJECTED, other: Annotated[int, Depends(THREE)] = INJECTED) -> int:
        return one + other

    job = add.enqueue()
    jobs.drain()
    assert jobs.get(job).result == 10


def test_a_handler_that_is_called_without_its_dependency_fails(jobs: Rowcall) -> None:
    @jobs.task
    def charge(order_id: int, session: Annotated[Path, Depends(Path)] = INJECTED) -> str:
        return session.name

    assert charge(7, Path("a/b")) == "b"
    with pytest.raises(AttributeError, match="INJECTED has no name: a worker fills in this parameter; pass a value"):
        charge(7)
    assert repr(Depends(get_session)) == f"Depends({__name__}.get_session, scope='attempt')"
