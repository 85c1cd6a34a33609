"""What an app declares for all handlers is compiled, or refused as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall import Context, InvalidOption, Rowcall
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
