"""Libraries that not everybody has."""

from __future__ import annotations

import importlib
from types import ModuleType

from rowcall.domain.errors import InvalidOption


def required(module: str, package: str) -> ModuleType:
    """Return the module, or raise `InvalidOption` if its package is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or module.split(".")[0] != error.name.split(".")[0]:
            raise
        raise InvalidOption("middleware", f"needs {package}: pip install {package}") from None
