"""What an app declares for all handlers is compiled, or refused as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest

from rowcall import INJECTED, Context, Depends, InvalidOption, Rowcall
from rowcall.middleware import CallNext


def counted(ctx: Context, call_next: CallNext) -> object:
    return [call_next()]


def test_a_task_without_middleware_is_called_directly(tmp_path: Path) -> None:
    jobs = Rowcall(tmp_path / "app.db")

    @jobs.task
    def work() -> None: ...

    declared = jobs.declared_task("work")
    assert declared.call is declared.function
    assert not declared.has_middleware


def test_middleware_that_does_not_fit_one_task_changes_none(tmp_path: Path) -> None:
    jobs = Rowcall(tmp_path / "app.db")

    @jobs.task
    def work() -> None: ...

    @jobs.task
    async def wait() -> None: ...

    with pytest.raises(InvalidOption, match="counted is sync, and the task 'wait' is async"):
        jobs.middleware(counted)
    assert not jobs.declared_task("work").has_middleware

    @jobs.task
    def later() -> None: ...

    assert jobs.declared_task("later").call is later.__wrapped__


def number() -> int:
    return 1


async def anumber() -> int:
    return 3


def test_overrides_are_undone_in_turn(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:

        @jobs.task
        def work(found: Annotated[int, Depends(number)] = INJECTED) -> int:
            return found

        def result() -> object:
            job = work.enqueue()
            jobs.drain()
            return jobs.get(job).result

        with jobs.override(number, lambda: 2):
            with jobs.override(number, lambda: 5):
                assert result() == 5
            with pytest.raises(InvalidOption, match=r"is sync, and its dependency .*number is async"):
                jobs.override(number, anumber)
            with pytest.raises(InvalidOption, match=r"must be a function to call instead of .*number, got 3"):
                jobs.override(number, 3)  # type: ignore[arg-type]
            assert result() == 2
        assert result() == 1
        jobs.override(number, lambda: 7)
        assert result() == 7
