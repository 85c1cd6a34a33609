"""What the doctor says of the file's surroundings."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import NamedTuple

import pytest

from rowcall import Rowcall
from rowcall.base.clock import SystemClock
from rowcall.cli.doctor import sqlite_file
from tests.cli.conftest import Examine


def test_a_missing_file_is_a_problem_and_stays_missing(app: Path, folder: Path, examine: Examine) -> None:
    found = examine()
    assert (found.exit_code, found.level["file"]) == (1, "problem")
    assert "there is no file" in found.what["file"]
    assert "rowcall migrate" in found.advice["file"]
    assert not (folder / "queue.db").exists()


def test_a_missing_folder(examine: Examine) -> None:
    assert "nowhere does not exist" in examine("--url", "sqlite:///nowhere/queue.db").what["file"]


def test_a_folder_instead_of_the_file(folder: Path, examine: Examine) -> None:
    (folder / "queue.db").mkdir()
    found = examine("--url", "sqlite:///queue.db")
    assert (found.exit_code, found.what["file"]) == (1, f"{folder / 'queue.db'} is a folder")


@pytest.mark.parametrize(
    ("refused", "check", "word"),
    [
        ("queue.db", "file", "cannot be read"),
        ("", "folder", "cannot be written"),
        ("queue.db-rowcall", "worker files", "cannot be written"),
    ],
)
def test_permissions_of_file_and_folder(
    queue: Rowcall,
    folder: Path,
    examine: Examine,
    monkeypatch: pytest.MonkeyPatch,
    refused: str,
    check: str,
    word: str,
) -> None:
    # asked by the answer of the system, because root may do everything
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder / refused and allowed(path, mode))
    found = examine()
    assert (found.exit_code, found.level[check]) == (1, "problem")
    assert word in found.what[check]
    assert "is its file system read-only?" in found.advice[check]
    (folder / refused).chmod(0o500)
    assert f"mode 500: chmod u+rw{'' if check == 'file' else 'x'} {folder / refused}" in examine().advice[check]
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    assert ", and this is user 4242: run as that user, or let it or root" in examine().advice[check]


def test_a_side_folder_that_is_a_file(queue: Rowcall, folder: Path, examine: Examine) -> None:
    queue.close()
    shutil.rmtree(folder / "queue.db-rowcall")
    assert "worker files" not in examine().level
    (folder / "queue.db-rowcall").touch()
    found = examine()
    assert (found.exit_code, found.level["worker files"]) == (1, "problem")
    assert "is not a folder" in found.what["worker files"]


def test_a_file_that_may_only_be_read(
    queue: Rowcall, folder: Path, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and allowed(path, mode))
    found = examine()
    assert "cannot be written by this user" in found.what["file"]
    assert f"user {os.getuid()}" in found.advice["file"]


@pytest.mark.parametrize(
    ("kind", "level"), [("nfs4", "problem"), ("fuse.sshfs", "problem"), ("tmpfs", "warn"), ("xfs", "ok"), (None, "ok")]
)
def test_the_file_system(
    queue: Rowcall, examine: Examine, monkeypatch: pytest.MonkeyPatch, kind: str | None, level: str
) -> None:
    monkeypatch.setattr(sqlite_file, "file_system_of", lambda path: kind)
    assert examine().level["file system"] == level


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(("free", "level"), [(1024**2, "problem"), (100 * 1024**2, "warn"), (10 * 1024**3, "ok")])
def test_free_space(queue: Rowcall, examine: Examine, monkeypatch: pytest.MonkeyPatch, free: int, level: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(free, 0, free))
    assert examine().level["disk"] == level


def test_an_old_sqlite(queue: Rowcall, examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    assert sqlite_file.check_sqlite().level == "problem"


def test_a_clock_that_is_years_behind(examine: Examine, queue: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "_EARLIEST_YEAR", 9999)
    assert examine().level["clock"] == "problem"


def test_two_clocks_that_differ(examine: Examine, queue: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "wall", staticmethod(lambda: 0.0))
    assert sqlite_file.check_clock(SystemClock()).level == "warn"
