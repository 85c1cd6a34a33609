"""`tests/README.md` says where a test belongs: it lists the folders that exist, and no others."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent


def listed() -> set[str]:
    """Return the folders in the first column of its first tables."""
    tables, mark, _ = (TESTS / "README.md").read_text(encoding="utf-8").partition("\n## Helpers\n")
    assert mark
    rows = re.findall(r"^\| (`.+?) \|", tables, re.MULTILINE)
    return {folder for row in rows for folder in re.findall(r"`(.+?)`", row)}


def test_every_folder_is_listed_and_every_listed_folder_has_tests() -> None:
    found = {module.relative_to(TESTS).parent.as_posix() for module in TESTS.rglob("test_*.py")} - {"."}
    assert {folder.partition("/")[0] for folder in found} - listed() == set(), "list them in tests/README.md"
    assert {folder for folder in listed() if not any((TESTS / folder).rglob("*.py"))} == set(), "they are gone"
