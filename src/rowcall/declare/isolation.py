"""Tasks with `isolation="process"`: their options, and how another process finds their functions."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable

import msgspec

from rowcall.domain.errors import InvalidOption

SCRIPT_MODULE = "__rowcall_main__"
"""What a child calls the script that its worker was started with."""
LEAST_MEMORY_BYTES = 64 * 1024**2
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


class Home(msgspec.Struct, frozen=True):
    """Where a function can be found by a process that knows nothing yet."""

    module: str
    name: str
    path: str | None = None
    """The file of a script, which has no module that could be imported by its name."""


def home_of(function: Callable[..., object]) -> Home:
    """`InvalidOption` for a function that only this process can know."""
    target = inspect.unwrap(function)
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name:
        raise InvalidOption(
            "isolation",
            f"a child process imports the function by its name, which it cannot for {name or repr(function)}: "
            "define it at the top of a module",
        )
    if module != "__main__":
        return Home(module, name)
    main = sys.modules["__main__"]
    if main.__spec__ is not None:  # python -m
        return Home(main.__spec__.name, name)
    path = getattr(main, "__file__", None)
    if path is None:
        raise InvalidOption(
            "isolation", f"a child process cannot import {name}, as it was typed in: put it into a module"
        )
    return Home(module, name, os.path.abspath(path))


def checked_isolation(value: object) -> bool:
    if value not in (None, "thread", "process"):
        raise InvalidOption("isolation", f"wants 'thread' or 'process', not {value!r}")
    return value == "process"


def checked_memory_limit(value: object, isolation: object) -> int | None:
    """Bytes.

    >>> checked_memory_limit("1.5 GB", "process") == 1536 * 1024**2
    True
    """
    if value is None:
        return None
    if isolation != "process":
        raise InvalidOption("memory_limit", "wants isolation='process': a thread shares the memory of its worker")
    size = _bytes(value)
    if size is None:
        raise InvalidOption("memory_limit", f"wants bytes, or a text such as '512MB', not {value!r}")
    if size < LEAST_MEMORY_BYTES:
        least = LEAST_MEMORY_BYTES // 1024**2
        raise InvalidOption("memory_limit", f"wants at least {least} MB, for Python itself needs some; not {value!r}")
    return size


def _bytes(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if found is None else round(float(found[1]) * _UNITS[found[2].upper()])
