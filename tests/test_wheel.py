"""What users install: the wheel has all files, its description is shown, and it runs in an empty environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, README, ROOT
from tests.wheel import built_wheel

pytestmark = pytest.mark.slow


def listed_files(*folders: str) -> list[str]:
    """Return the files of the repository that exist, committed or not."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    files = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [file for file in files if (ROOT / file).exists()]


@pytest.fixture
def wheel(shared_folder: Path) -> Path:
    return built_wheel(shared_folder / "wheel")


def test_the_wheel_has_the_files_of_src_and_no_others(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    pages = {f"rowcall/{page.relative_to(ROOT)}" for page in PAGES if page != README}  # `rowcall mcp` searches them
    assert packed == {file.removeprefix("src/") for file in listed_files("src")} | pages
    assert "rowcall/py.typed" in packed


def test_its_description_can_be_shown(wheel: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", str(wheel)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert checked.returncode == 0, checked.stdout


def test_it_runs_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env")
    programs = tmp_path / "env" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python")]
    subprocess.run([*pip, "install", "--quiet", str(wheel)], check=True, capture_output=True, timeout=200)
    command = [str(programs / "rowcall"), "demo"]
    (temporary := tmp_path / "temporary").mkdir()
    env = {**os.environ, "TMPDIR": str(temporary)}
    demo = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=200)
    assert "\n0 lost, in " in demo.stdout
    assert demo.stdout.endswith("\n  pip install 'rowcall[http]' && rowcall demo --keep\n")
    assert list(temporary.iterdir()) == []  # no dashboard can open its file
    kept = subprocess.run([*command, "--keep"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert (kept.returncode, kept.stderr.strip()) == (1, "error: the dashboard needs h11: pip install 'rowcall[http]'")


def test_two_builds_of_one_commit_are_equal(wheel: Path, tmp_path: Path) -> None:
    copy, first, second = tmp_path / "copy", tmp_path / "first", tmp_path / "second"
    for name in listed_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    for source, folder, kinds in ((ROOT, first, ["sdist"]), (copy, second, ["sdist", "wheel"])):
        for kind in kinds:
            build = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(folder)]
            subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=200)
    [archive] = first.iterdir()
    assert archive.read_bytes() == (second / archive.name).read_bytes()
    assert wheel.read_bytes() == (second / wheel.name).read_bytes()
