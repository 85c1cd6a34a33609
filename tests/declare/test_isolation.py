"""Where a child process finds the function of a task."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from rowcall import InvalidOption
from rowcall.declare.isolation import Home, home_of


def top() -> None: ...


@functools.wraps(top)
def wrapped() -> None: ...


class Holder:
    @staticmethod
    def inside() -> None: ...


@pytest.mark.parametrize(("function", "name"), [(top, "top"), (wrapped, "top"), (Holder.inside, "Holder.inside")])
def test_a_function_is_found_by_module_and_name(function: Callable[..., object], name: str) -> None:
    assert home_of(function) == Home(__name__, name)


def test_a_function_that_no_other_process_can_import_is_refused() -> None:
    def local() -> None: ...

    for function in (local, lambda: None, functools.partial(top)):
        with pytest.raises(InvalidOption, match="by its name; define it at the top of a module"):
            home_of(function)
