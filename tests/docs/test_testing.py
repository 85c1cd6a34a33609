"""The tests on the page about testing pass, under pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.pages import DOCS, blocks


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    for block in blocks(DOCS / "testing.md"):
        if block.file_name is not None:
            (tmp_path / block.file_name).write_text(block.text)
        elif block.language == "toml":
            (tmp_path / "pyproject.toml").write_text(f"{block.text}pythonpath = ['.']\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_rowcall", "-p", "no:cacheprovider"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60).stdout
    assert "4 passed" in said
    assert not (tmp_path / "app.db").exists()
