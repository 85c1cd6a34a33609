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
    methods = [(name, member) for name, member in vars(Rowcall).items() if not name.startswith("_")]
    assert [name for name, member in methods if not (member.__doc__ or "").strip()] == []
