from __future__ import annotations

from pathlib import Path

import pytest

from rowcall.drivers.sqlite import connection
from rowcall.drivers.sqlite.connection import SameFile


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(connection, "TRUSTED_SECONDS", 0.0)
    path = tmp_path / "app.db"
    path.write_text("first")
    return path


def test_a_file_that_is_written_stays_the_same(path: Path) -> None:
    file = SameFile(str(path))
    path.write_text("more")
    assert file.is_same()


def test_a_file_that_was_deleted(path: Path) -> None:
    file = SameFile(str(path))
    path.unlink()
    assert not file.is_same()
    assert not file.exists


def test_a_file_that_was_replaced(path: Path) -> None:
    file = SameFile(str(path))
    (path.parent / "new").write_text("second")
    (path.parent / "new").rename(path)
    assert not file.is_same()
    assert file.exists


def test_a_wal_that_was_deleted_or_replaced(path: Path) -> None:
    wal = path.with_name("app.db-wal")
    file = SameFile(str(path))
    wal.touch()
    assert file.is_same()
    wal.rename(path.with_name("moved"))
    assert not file.is_same()
    wal.touch()
    assert not file.is_same()
    assert file.lost_only_its_wal


def test_the_file_system_is_not_asked_every_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TRUSTED_SECONDS", 60.0)
    file = SameFile(str(path))
    path.unlink()
    assert file.is_same()
