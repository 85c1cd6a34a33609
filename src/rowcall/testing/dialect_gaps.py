"""Lists what a database package still has to bring: texts of the catalogue, and operations of the dialect.

    python -m rowcall.testing.dialect_gaps rowcall.store.sqlite

Without a package it lists everything that a new database needs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

from rowcall.store.catalogue import TOPICS, faults_of
from rowcall.store.dialect import Dialect


def gaps(package: str | None) -> Iterator[str]:
    """Yield what is missing or unknown, one line each."""
    modules = [module for topic in TOPICS if (module := _module(package, topic)) is not None]
    yield from faults_of(package.rpartition(".")[2] if package else "", modules)
    yield from (f"dialect.{name} is missing" for name in missing_operations(_module(package, "dialect")))


def missing_operations(module: ModuleType | None) -> list[str]:
    """Return the operations that no class of a dialect module has."""
    classes = [value for value in vars(module).values() if isinstance(value, type)] if module else []
    # the catalogue has `ask`
    operations = sorted(name for name in dir(Dialect) if not name.startswith("_") and name != "ask")
    found = {name for one in classes if one.__name__.endswith("Dialect") and one is not Dialect for name in dir(one)}
    return [name for name in operations if name not in found]


def _module(package: str | None, name: str) -> ModuleType | None:
    try:
        spec = package is not None and importlib.util.find_spec(f"{package}.{name}")
    except ModuleNotFoundError:  # the package itself is still to be written
        return None
    return importlib.import_module(f"{package}.{name}") if spec else None


if __name__ == "__main__":
    found = list(gaps(sys.argv[1] if len(sys.argv) > 1 else None))
    print("\n".join([*found, f"{len(found)} gaps"]))
