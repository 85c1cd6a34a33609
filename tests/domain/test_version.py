"""The version is said in two places, and is the same in both."""

from __future__ import annotations

import tomllib
from pathlib import Path

import rowcall


def test_the_package_and_the_project_agree() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert rowcall.__version__ == project["project"]["version"]
