"""The examples in the docstrings run, and say what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import rowcall

SOURCE = Path(rowcall.__file__).parent
WITH_EXAMPLES = sorted(path for path in SOURCE.rglob("*.py") if ">>>" in path.read_text())


class Finder(doctest.DocTestFinder):
    def _from_module(self, module: ModuleType, object: object) -> bool:
        """Count a public class, which says that it is the package's, as one of the module that defines it."""
        if isinstance(object, type) and object.__module__ == "rowcall":
            return re.search(rf"^class {object.__name__}\b", inspect.getsource(module), re.MULTILINE) is not None
        return super()._from_module(module, object)  # type: ignore[misc, no-any-return]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def test_the_domain_has_examples() -> None:
    assert {"errors", "outcome", "backoff", "payload", "times"} <= {path.stem for path in WITH_EXAMPLES}


@pytest.mark.parametrize("name", [module_name(path) for path in WITH_EXAMPLES])
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner()
    for test in Finder().find(module, name):
        runner.run(test)
    assert runner.summarize().failed == 0
