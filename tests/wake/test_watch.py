"""Waiting for a file to change or a bell to ring."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowcall.wake import file_watch as watch_module
from rowcall.wake.file_watch import POLL_LAST_SECONDS, Bell, InotifyWatch, PollingWatch, Watch, watch

LONG = 10.0


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell()
    yield bell
    bell.close()


@pytest.fixture
def watched(tmp_path: Path, bell: Bell) -> Iterator[tuple[Path, InotifyWatch]]:
    path = tmp_path / "file"
    path.write_bytes(b"first")
    watch = InotifyWatch([str(path)], bell)
    yield path, watch
    watch.close()


def append(path: Path, data: bytes = b"more") -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.parametrize("kind", ["inotify", "polling"])
def test_the_bell_ends_a_wait(tmp_path: Path, bell: Bell, kind: str) -> None:
    waiting: Watch = InotifyWatch([str(tmp_path / "nothing")], bell) if kind == "inotify" else PollingWatch(bell)
    ringer = threading.Timer(0.01, bell.ring)
    ringer.start()
    began = time.monotonic()
    assert waiting.wait(LONG, hints=False) == (True, False)
    assert time.monotonic() - began < LONG / 2
    assert waiting.wait(0, hints=False) == (False, False)
    ringer.join()
    waiting.close()


def test_many_rings_are_one_and_never_block(watched: tuple[Path, InotifyWatch], bell: Bell) -> None:
    for _ in range(100_000):  # more than a pipe holds
        bell.ring()
    assert watched[1].wait(LONG, hints=True) == (True, False)
    assert watched[1].wait(0, hints=True) == (False, False)


def test_a_nudge_rings_only_for_somebody_who_waits(watched: tuple[Path, InotifyWatch], bell: Bell) -> None:
    bell.nudge()
    assert watched[1].wait(0, hints=True) == (False, False)
    bell.arm()
    bell.nudge()
    bell.nudge()
    assert watched[1].wait(0, hints=True) == (True, False)


def test_a_closed_bell_is_silent(bell: Bell) -> None:
    bell.close()
    reader, writer = os.pipe()  # takes the numbers that have become free
    os.set_blocking(reader, False)
    bell.ring()
    bell.arm()
    bell.nudge()
    bell.close()
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    os.close(writer)


def test_a_write_is_told(watched: tuple[Path, InotifyWatch]) -> None:
    path, watch = watched
    assert watch.wait(0, hints=True) == (False, False)
    append(path)
    assert watch.wait(LONG, hints=True) == (False, True)
    assert watch.wait(0, hints=True) == (False, False)


def test_a_write_during_the_wait_ends_it(watched: tuple[Path, InotifyWatch]) -> None:
    path, watch = watched
    writer = threading.Timer(0.01, append, [path])
    writer.start()
    assert watch.wait(LONG, hints=True) == (False, True)
    writer.join()


def test_hints_that_nobody_asked_for_are_kept(watched: tuple[Path, InotifyWatch]) -> None:
    path, watch = watched
    append(path)
    assert watch.wait(0, hints=False) == (False, False)
    assert watch.wait(0, hints=True) == (False, True)


def test_a_ring_does_not_swallow_a_hint(watched: tuple[Path, InotifyWatch], bell: Bell) -> None:
    path, watch = watched
    append(path)
    bell.ring()
    assert watch.wait(LONG, hints=True) == (True, True)


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_file_that_is_deleted_and_made_again_is_found(watched: tuple[Path, InotifyWatch], keep_open: bool) -> None:
    """Also while somebody still has the deleted one open, as SQLite does with its WAL."""
    path, watch = watched
    with path.open("rb") if keep_open else path.parent.joinpath("other").open("wb"):
        path.unlink()
        assert watch.wait(LONG, hints=True) == (False, True)
        assert watch.wait(0, hints=True)[0] is False
        path.write_bytes(b"again")
        assert watch.wait(LONG, hints=True) == (False, True)
        drain_hints(watch)
        append(path)
        assert watch.wait(LONG, hints=True) == (False, True)


def test_a_file_that_is_moved_away_is_looked_for_again(watched: tuple[Path, InotifyWatch]) -> None:
    path, watch = watched
    path.rename(path.with_name("elsewhere"))
    assert watch.wait(LONG, hints=True) == (False, True)
    path.write_bytes(b"new")
    assert watch.wait(LONG, hints=True) == (False, True)
    drain_hints(watch)
    append(path)
    assert watch.wait(LONG, hints=True) == (False, True)


def test_a_file_that_comes_later_is_found(tmp_path: Path, bell: Bell) -> None:
    path = tmp_path / "later"
    with closing(InotifyWatch([str(path)], bell)) as watch:
        assert watch.wait(0, hints=True) == (False, False)
        path.write_bytes(b"here")
        assert watch.wait(LONG, hints=True) == (False, True)


def test_the_wal_of_a_database_that_was_closed_and_opened_again_is_seen(tmp_path: Path, bell: Bell) -> None:
    database = tmp_path / "app.db"
    wal = tmp_path / "app.db-wal"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table thing (id integer)")
        assert wal.exists()
        watch = InotifyWatch([str(wal)], bell)
    with closing(watch):
        assert not wal.exists()  # the last one to close takes it away
        drain_hints(watch)
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("select * from thing").fetchall()
            drain_hints(watch)
            connection.execute("insert into thing values (1)")
            connection.commit()
            assert watch.wait(LONG, hints=True) == (False, True)


def drain_hints(watch: InotifyWatch) -> None:
    while watch.wait(0, hints=True)[1]:
        pass


def test_polling_grows_slower_while_nothing_happens(bell: Bell) -> None:
    polling = PollingWatch(bell)
    lengths = []
    for _ in range(12):
        began = time.monotonic()
        assert polling.wait(LONG, hints=True) == (False, True)
        lengths.append(time.monotonic() - began)
    assert lengths[0] < POLL_LAST_SECONDS
    assert lengths[-1] >= POLL_LAST_SECONDS * 0.9
    bell.ring()
    assert polling.wait(LONG, hints=True)[0] is True
    began = time.monotonic()
    polling.wait(0.001, hints=True)
    assert time.monotonic() - began < POLL_LAST_SECONDS
    polling.close()


def test_the_best_watch_is_taken(tmp_path: Path, bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> InotifyWatch:
        raise OSError(24, "Too many open files")

    best = watch([str(tmp_path)], bell)
    assert isinstance(best, InotifyWatch if sys.platform == "linux" else PollingWatch)
    best.close()
    monkeypatch.setattr(watch_module, "InotifyWatch", none_left)
    fallback = watch([str(tmp_path)], bell)
    assert isinstance(fallback, PollingWatch)
    fallback.close()


def test_an_inotify_that_cannot_be_had_says_why(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "O_CLOEXEC", 0x7FFFFFFF)  # the kernel refuses such flags
    with pytest.raises(OSError, match="Invalid argument"):
        InotifyWatch([], bell)
