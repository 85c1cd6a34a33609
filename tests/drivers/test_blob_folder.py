"""Blobs in a folder: what others do to the same file at the worst moment is done there, on the real file system."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers import blob_folder
from rowcall.drivers.blob_folder import BlobFolder
from rowcall.operations.blobs import collect_blobs

DATA = b"some bytes"
DIGEST = hashlib.sha256(DATA).hexdigest()
HOUR = 3600.0


@pytest.fixture
def folder(tmp_path: Path) -> BlobFolder:
    database = tmp_path / "app.db"
    database.touch(0o640)
    return BlobFolder(f"{database}-blobs", str(database))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db-blobs" / DIGEST[:2] / DIGEST


def make_old(path: Path) -> None:
    os.utime(path, (time.time() - 2 * HOUR, time.time() - 2 * HOUR))


def just_before(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, act: Callable[[], object]) -> None:
    """Act once, right before the next call of that function."""
    real = getattr(owner, name)

    def hooked(*arguments: object, **options: object) -> object:
        monkeypatch.setattr(owner, name, real)
        act()
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, hooked)


def test_a_blob_is_a_file_of_that_name_and_nothing_else_is_left(folder: BlobFolder, path: Path) -> None:
    folder.put(DIGEST, DATA)
    assert (path.read_bytes(), folder.get(DIGEST)) == (DATA, DATA)
    assert [file.name for file in path.parent.iterdir()] == [DIGEST]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750


def test_what_is_there_is_only_touched(folder: BlobFolder, path: Path) -> None:
    folder.put(DIGEST, DATA)
    make_old(path)
    before = path.stat()
    assert list(folder.digests(HOUR)) == [DIGEST]
    folder.put(DIGEST, DATA)
    assert path.stat().st_ino == before.st_ino
    assert list(folder.digests(HOUR)) == []


def test_a_damaged_blob_is_written_again(folder: BlobFolder, path: Path) -> None:
    folder.put(DIGEST, DATA)
    path.write_bytes(DATA[:-1] + b"?")
    folder.put(DIGEST, DATA)
    assert folder.get(DIGEST) == DATA


def test_what_is_not_there(folder: BlobFolder) -> None:
    with pytest.raises(KeyError):
        folder.get(DIGEST)
    folder.delete(DIGEST, HOUR)
    assert list(folder.digests(0)) == []


def test_removing(folder: BlobFolder, path: Path) -> None:
    folder.put(DIGEST, DATA)
    folder.delete(DIGEST, HOUR)
    assert folder.get(DIGEST) == DATA
    make_old(path)
    folder.delete(DIGEST, HOUR)
    assert list(path.parent.iterdir()) == []


def test_put_again_right_before_it_loses_its_name(
    folder: BlobFolder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(DIGEST, DATA)
    make_old(path)
    just_before(monkeypatch, os, "rename", lambda: folder.put(DIGEST, DATA))
    folder.delete(DIGEST, HOUR)
    assert path.read_bytes() == DATA
    assert [file.name for file in path.parent.iterdir()] == [DIGEST]


def test_put_again_right_after_it_lost_its_name(
    folder: BlobFolder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(DIGEST, DATA)
    make_old(path)
    just_before(monkeypatch, blob_folder, "_is_older", lambda: folder.put(DIGEST, DATA))
    folder.delete(DIGEST, HOUR)
    assert path.read_bytes() == DATA
    assert [file.name for file in path.parent.iterdir()] == [DIGEST]


def test_removed_between_the_touch_and_the_look_of_who_puts_it(
    folder: BlobFolder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(DIGEST, DATA)
    make_old(path)
    just_before(monkeypatch, os, "utime", lambda: folder.delete(DIGEST, HOUR))
    folder.put(DIGEST, DATA)
    assert path.read_bytes() == DATA


def test_a_reader_finds_what_is_being_decided_about(
    folder: BlobFolder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(DIGEST, DATA)
    seen: list[bytes] = []
    just_before(monkeypatch, blob_folder, "_is_older", lambda: seen.append(folder.get(DIGEST)))
    folder.delete(DIGEST, HOUR)
    assert seen == [DATA]


def test_a_reader_between_the_two_folders_reads_again(
    folder: BlobFolder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken when the reader looks in its own folder, and put back before it looks at the other."""
    folder.put(DIGEST, DATA)
    taken = path.with_name(f"{DIGEST}.taken")
    path.rename(taken)
    looks: list[str] = []

    def looking(asked: str, mode: str) -> object:
        looks.append(asked)
        if len(looks) == 2:
            taken.rename(path)
        return open(asked, mode)

    monkeypatch.setattr(blob_folder, "open", looking, raising=False)
    assert folder.get(DIGEST) == DATA
    assert len(looks) == 3


def test_two_who_remove_the_same(folder: BlobFolder, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.put(DIGEST, DATA)
    make_old(path)
    just_before(monkeypatch, blob_folder, "_is_older", lambda: list(folder.digests(HOUR)))
    folder.delete(DIGEST, HOUR)  # the other took it for left behind, and has put it back
    assert path.read_bytes() == DATA
    make_old(path)
    just_before(monkeypatch, os, "rename", lambda: folder.delete(DIGEST, HOUR))
    folder.delete(DIGEST, HOUR)
    assert list(path.parent.iterdir()) == []


def test_what_the_dead_have_left(folder: BlobFolder, path: Path) -> None:
    folder.put(DIGEST, DATA)
    path.rename(path.with_name(f"{DIGEST}.taken"))
    unfinished = path.with_name(f"{DIGEST}-0123456789abcdef.new")
    strange = path.with_name("notes.txt")
    for file in (unfinished, strange):
        file.write_text("half")
    assert folder.get(DIGEST) == DATA
    assert list(folder.digests(HOUR)) == []
    assert path.exists()
    assert unfinished.exists()
    make_old(unfinished)
    make_old(strange)
    assert list(folder.digests(HOUR)) == []
    assert not unfinished.exists()
    assert strange.exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", blob_threshold=1024) as jobs:
        (tmp_path / "app.db-blobs").touch()
        with pytest.raises(StoreUnavailable, match="-blobs"):
            jobs.enqueue("task", {"text": "x" * 2000})
        assert jobs.list().jobs == []


def test_a_job_deleted_without_foreign_keys_does_not_keep_its_blob(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", blob_threshold=1024) as jobs:
        jobs.enqueue("task", {"text": "x" * 2000})
        assert collect_blobs(queue_of(jobs), 0) == 0
        with closing(sqlite3.connect(tmp_path / "app.db")) as mine, mine:
            mine.execute("delete from rowcall_job")
        assert collect_blobs(queue_of(jobs), 0) == 1


def test_a_database_in_memory_has_its_blobs_there() -> None:
    with Rowcall("sqlite:///:memory:", blob_threshold=1024) as jobs:
        job = jobs.enqueue("task", {"text": "x" * 2000})
        assert jobs.get(job.id).payload == {"text": "x" * 2000}
        assert os.path.isdir(f"{queue_of(jobs).database.path}-blobs")
