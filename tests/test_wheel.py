"""What users install: the wheel has all files, its description is shown, and it runs in an empty environment."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.wheel import built_wheel

pytestmark = pytest.mark.slow


@pytest.fixture
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.getbasetemp().parent / "wheel")


def test_the_wheel_has_the_files_of_src_and_no_others(wheel: Path) -> None:
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"]
    files = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == {file.removeprefix("src/") for file in files}
    assert "rowcall/py.typed" in packed


def test_its_description_can_be_shown(wheel: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", str(wheel)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


def test_it_runs_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    programs = tmp_path / "env" / "bin"
    subprocess.run(
        [str(programs / "pip"), "install", "--quiet", str(wheel)], check=True, capture_output=True, timeout=100
    )
    command = [str(programs / "rowcall"), "demo", "--json"]
    demo = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(demo.stdout)["lost"] == 0
