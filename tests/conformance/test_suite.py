from __future__ import annotations

import importlib
import inspect
import pkgutil

from tests.conformance import suite

CASES = "tests.conformance.cases"


def test_the_suite_holds_every_case() -> None:
    found = set()
    for module in pkgutil.iter_modules(importlib.import_module(CASES).__path__, f"{CASES}."):
        for name, value in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if name.startswith("Test") and value.__module__ == module.name:
                found.add(name)
    assert found == {name for name in suite.__all__ if name.startswith("Test")}
