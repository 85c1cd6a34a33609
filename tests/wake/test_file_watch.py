"""Waiting for a file to change, or for the waker."""

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

from rowcall.wake import waiter_and_file_watch as watch_module
from rowcall.wake.waiter_and_file_watch import POLL_LAST_SECONDS, InotifyWatch, PollingWatch, Waker, Watch, watch

LONG = 10.0


@pytest.fixture
def waker() -> Iterator[Waker]:
    waker = Waker()
    yield waker
    waker.close()


@pytest.fixture
def watched(tmp_path: Path, waker: Waker) -> Iterator[tuple[Path, InotifyWatch]]:
    path = tmp_path / "file"
    path.write_bytes(b"first")
    watch = InotifyWatch([str(path)], waker)
    yield path, watch
    watch.close()


def append(path: Path, data: bytes = b"more") -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.parametrize("kind", ["inotify", "polling"])
def test_the_waker_ends_a_wait(tmp_path: Path, waker: Waker, kind: str) -> None:
    waiting: Watch = InotifyWatch([str(tmp_path / "nothing")], waker) if kind == "inotify" else PollingWatch(waker)
    ringer = threading.Timer(0.01, waker.wake)
    ringer.start()
    began = time.monotonic()
    assert waiting.wait(LONG, files=False) == (True, False)
    assert time.monotonic() - began < LONG / 2
    assert waiting.wait(0, files=False) == (False, False)
    ringer.join()
    waiting.close()


def test_many_rings_are_one_and_never_block(watched: tuple[Path, InotifyWatch], waker: Waker) -> None:
    for _ in range(100_000):  # more than a pipe holds
        waker.wake()
    assert watched[1].wait(LONG, files=True) == (True, False)
    assert watched[1].wait(0, files=True) == (False, False)


def test_only_an_announced_wait_is_woken(watched: tuple[Path, InotifyWatch], waker: Waker) -> None:
    waker.wake_if_armed()
    assert watched[1].wait(0, files=True) == (False, False)
    waker.arm()
    waker.wake_if_armed()
    waker.wake_if_armed()
    assert watched[1].wait(0, files=True) == (True, False)


def test_a_closed_waker_does_nothing(waker: Waker) -> None:
    waker.close()
    reader, writer = os.pipe()  # takes the numbers that have become free
    os.set_blocking(reader, False)
    waker.wake()
    waker.arm()
    waker.wake_if_armed()
    waker.close()
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    os.close(writer)


def test_a_write_is_reported(watched: tuple[Path, InotifyWatch]) -> None:
    path, watch = watched
    assert watch.wait(0, files=True) == (False, False)
    append(path)
    assert watch.wait(LONG, files=True) == (False, True)
    assert watch.wait(0, files=True) == (False, False)


def test_a_write_during_the_wait_ends_it(watched: tuple[Path, InotifyWatch]) -> None:
    path, watch = watched
    writer = threading.Timer(0.01, append, [path])
    writer.start()
    assert watch.wait(LONG, files=True) == (False, True)
    writer.join()


def test_writes_during_a_pause_are_kept(watched: tuple[Path, InotifyWatch]) -> None:
    path, watch = watched
    append(path)
    assert watch.wait(0, files=False) == (False, False)
    assert watch.wait(0, files=True) == (False, True)


def test_a_wake_up_does_not_hide_a_write(watched: tuple[Path, InotifyWatch], waker: Waker) -> None:
    path, watch = watched
    append(path)
    waker.wake()
    assert watch.wait(LONG, files=True) == (True, True)


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_file_that_is_deleted_and_made_again_is_found(watched: tuple[Path, InotifyWatch], keep_open: bool) -> None:
    """Also while a process still has the deleted one open, as SQLite does with its WAL."""
    path, watch = watched
    with path.open("rb") if keep_open else path.parent.joinpath("other").open("wb"):
        path.unlink()
        assert watch.wait(LONG, files=True) == (False, True)
        assert watch.wait(0, files=True)[0] is False
        path.write_bytes(b"again")
        assert watch.wait(LONG, files=True) == (False, True)
        drain_notifications(watch)
        append(path)
        assert watch.wait(LONG, files=True) == (False, True)


def test_a_file_that_is_moved_away_is_watched_again(watched: tuple[Path, InotifyWatch]) -> None:
    path, watch = watched
    path.rename(path.with_name("elsewhere"))
    assert watch.wait(LONG, files=True) == (False, True)
    path.write_bytes(b"new")
    assert watch.wait(LONG, files=True) == (False, True)
    drain_notifications(watch)
    append(path)
    assert watch.wait(LONG, files=True) == (False, True)


def test_a_file_that_comes_later_is_found(tmp_path: Path, waker: Waker) -> None:
    path = tmp_path / "later"
    with closing(InotifyWatch([str(path)], waker)) as watch:
        assert watch.wait(0, files=True) == (False, False)
        path.write_bytes(b"here")
        assert watch.wait(LONG, files=True) == (False, True)


def test_the_wal_of_a_database_that_was_closed_and_opened_again_is_seen(tmp_path: Path, waker: Waker) -> None:
    database = tmp_path / "app.db"
    wal = tmp_path / "app.db-wal"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table thing (id integer)")
        assert wal.exists()
        watch = InotifyWatch([str(wal)], waker)
    with closing(watch):
        assert not wal.exists()  # the last one to close takes it away
        drain_notifications(watch)
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("select * from thing").fetchall()
            drain_notifications(watch)
            connection.execute("insert into thing values (1)")
            connection.commit()
            assert watch.wait(LONG, files=True) == (False, True)


def drain_notifications(watch: InotifyWatch) -> None:
    while watch.wait(0, files=True)[1]:
        pass


def test_polling_grows_slower_while_nothing_happens(waker: Waker) -> None:
    polling = PollingWatch(waker)
    lengths = []
    for _ in range(12):
        began = time.monotonic()
        assert polling.wait(LONG, files=True) == (False, True)
        lengths.append(time.monotonic() - began)
    assert lengths[0] < POLL_LAST_SECONDS
    assert lengths[-1] >= POLL_LAST_SECONDS * 0.9
    waker.wake()
    assert polling.wait(LONG, files=True)[0] is True
    began = time.monotonic()
    polling.wait(0.001, files=True)
    assert time.monotonic() - began < POLL_LAST_SECONDS
    polling.close()


def test_the_best_watch_is_taken(tmp_path: Path, waker: Waker, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> InotifyWatch:
        raise OSError(24, "Too many open files")

    best = watch([str(tmp_path)], waker)
    assert isinstance(best, InotifyWatch if sys.platform == "linux" else PollingWatch)
    best.close()
    monkeypatch.setattr(watch_module, "InotifyWatch", none_left)
    fallback = watch([str(tmp_path)], waker)
    assert isinstance(fallback, PollingWatch)
    fallback.close()


def test_an_inotify_that_cannot_be_had_says_why(waker: Waker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "O_CLOEXEC", 0x7FFFFFFF)  # the kernel refuses such flags
    with pytest.raises(OSError, match="Invalid argument"):
        InotifyWatch([], waker)
