"""The tests on the page about testing pass, under pytest."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import DOCS, blocks
from tests.testing.test_plugin import run


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    for block in blocks(DOCS / "testing.md"):
        if block.file_name is not None:
            (tmp_path / block.file_name).write_text(block.text)
        elif block.language == "toml":
            (tmp_path / "pyproject.toml").write_text(f"{block.text}pythonpath = ['.']\n")
    assert "4 passed" in run(tmp_path)
    assert not (tmp_path / "app.db").exists()
