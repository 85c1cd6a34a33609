"""The examples run as their first lines say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.support import PythonProcess

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
OUTPUT = {"orders": "order 1 confirmed to ann@example.com on attempt 2"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_runs_to_its_end(example: Path, tmp_path: Path) -> None:
    with PythonProcess(str(example), cwd=str(tmp_path)) as process:
        assert process.wait() == 0, process.output
        assert OUTPUT[example.stem] in process.output
