"""How a child process finds the function of a task with `isolation="process"`."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable

import msgspec

from rowcall.domain.errors import InvalidOption

SCRIPT_MODULE = "__rowcall_main__"
"""The name, in a child, of the script that its worker was started with."""


class Home(msgspec.Struct, frozen=True):
    """Where another process can import a function."""

    module: str
    name: str
    path: str | None = None
    """The file of a script, which cannot be imported by name."""


def home_of(function: Callable[..., object]) -> Home:
    """Return where a function is, or raise `InvalidOption` if no other process can import it."""
    target = inspect.unwrap(function)
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name:
        raise InvalidOption(
            "isolation",
            f"a child process cannot import {name or repr(function)} by its name; define it at the top of a module",
        )
    if module != "__main__":
        return Home(module, name)
    main = sys.modules["__main__"]
    if main.__spec__ is not None:  # python -m
        return Home(main.__spec__.name, name)
    path = getattr(main, "__file__", None)
    if path is None:
        raise InvalidOption(
            "isolation", f"a child process cannot import {name} from an interactive session; put it into a module"
        )
    return Home(module, name, os.path.abspath(path))
