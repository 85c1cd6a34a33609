"""The examples in the docstrings run, and say what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import rowcall

SOURCE = Path(rowcall.__file__).parent
WITH_EXAMPLES = sorted(path for path in SOURCE.rglob("*.py") if ">>>" in path.read_text())


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def test_the_domain_has_examples() -> None:
    assert {"errors", "lifecycle", "retry", "payload", "times"} <= {path.stem for path in WITH_EXAMPLES}


@pytest.mark.parametrize("name", [module_name(path) for path in WITH_EXAMPLES])
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
