"""Rowcall: what a user holds."""

from __future__ import annotations

import inspect

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.domain.config import QueueOptions


def test_an_unknown_option_of_a_worker_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"^unknown option 'concurency' \(did you mean 'concurrency'\?\)$"):
        Rowcall().worker(concurency=3)  # type: ignore[call-arg]


def test_a_password_is_not_shown() -> None:
    pytest.importorskip("psycopg")
    shown = repr(Rowcall("postgresql://ann:secret@db-1/shop"))
    assert shown.startswith("<Rowcall postgresql://ann")
    assert "secret" not in shown


def test_the_docstring_explains_every_option() -> None:
    text = inspect.getdoc(Rowcall) or ""
    assert [option for option in QueueOptions.__annotations__ if f"    {option}: " not in text] == []


def test_every_method_has_a_docstring() -> None:
    methods = [(name, getattr(Rowcall, name)) for name in vars(Rowcall) if not name.startswith("_")]
    assert [name for name, method in methods if not (method.__doc__ or "").strip()] == []


def test_each_async_method_is_named_like_the_sync_one() -> None:
    names = {name for name in vars(Rowcall) if not name.startswith("_")}
    twins = {name for name in names if inspect.iscoroutinefunction(getattr(Rowcall, name))}
    assert {f"a{name[1:]}" for name in twins if name[1:] in names} == twins
    assert all((getattr(Rowcall, name).__doc__ or "").startswith(f"`{name[1:]}`, for async code.") for name in twins)
