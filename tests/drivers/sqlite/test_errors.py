"""What SQLite says, put into words a tired person can act on; each error is one that SQLite really raised."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rowcall.domain.errors import DataRefused, RowcallError, SchemaMismatch, StoreUnavailable
from rowcall.drivers.sqlite.errors import explained, lock_holders
from tests.support import PythonProcess

HOLD_THE_WRITE_LOCK = """
import signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin immediate")
print("held", flush=True)
signal.pause()
"""


def error_of(call: Callable[[], object]) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as caught:
        call()
    return caught.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def in_wal_mode(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table t (a integer check (a > 0))")
    return path


def test_a_full_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table t (a)")
        connection.execute("pragma max_page_count = 3")
        error = error_of(lambda: connection.execute("insert into t values (zeroblob(100000))"))
    found = explained(error, str(path))
    assert isinstance(found, StoreUnavailable)
    assert str(found) == (f"{path}: the disk is full. Nothing of this call was written; free some space and call again")


def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_bytes(b"hello, I am a text file, and I have been one for years" * 100)
    with closing(sqlite3.connect(path)) as connection:
        error = error_of(lambda: connection.execute("select * from sqlite_master"))
    assert str(explained(error, str(path))) == (f"{path} is not a SQLite database. Check the path; nothing was changed")


def test_a_damaged_file(in_wal_mode: Path) -> None:
    data = bytearray(in_wal_mode.read_bytes())
    data[100:] = b"\xff" * (len(data) - 100)
    in_wal_mode.write_bytes(data)
    with closing(sqlite3.connect(in_wal_mode)) as connection:
        error = error_of(lambda: connection.execute("select * from t"))
    assert "is damaged" in str(explained(error, str(in_wal_mode)))
    assert "pragma integrity_check" in str(explained(error, str(in_wal_mode)))


def test_a_read_only_connection(in_wal_mode: Path) -> None:
    with closing(sqlite3.connect(f"file:{in_wal_mode}?mode=ro", uri=True)) as connection:
        error = error_of(lambda: connection.execute("insert into t values (1)"))
    assert "is read-only for this user" in str(explained(error, str(in_wal_mode)))
    assert "The file and its folder must both be writable" in str(explained(error, str(in_wal_mode)))


def test_a_missing_table(in_wal_mode: Path) -> None:
    with closing(sqlite3.connect(in_wal_mode)) as connection:
        error = error_of(lambda: connection.execute("select * from rowcall_job"))
    found = explained(error, str(in_wal_mode))
    assert isinstance(found, SchemaMismatch)
    said = f"{in_wal_mode} does not have the expected tables: no such table: rowcall_job; run: rowcall migrate APP"
    assert str(found).startswith(said)


def test_values_against_a_rule(in_wal_mode: Path) -> None:
    with closing(sqlite3.connect(in_wal_mode)) as connection:
        error = error_of(lambda: connection.execute("insert into t values (-1)"))
    found = explained(error, str(in_wal_mode))
    assert isinstance(found, DataRefused)
    assert "CHECK constraint failed: a > 0" in str(found)


def test_what_is_not_foreseen_keeps_its_own_words(in_wal_mode: Path) -> None:
    with closing(sqlite3.connect(in_wal_mode)) as connection:
        error = error_of(lambda: connection.execute("select nonsense()"))
    found = explained(error, str(in_wal_mode))
    assert type(found) is RowcallError
    assert "no such function: nonsense" in str(found)


@pytest.mark.concurrency
def test_a_lock_held_by_another_process_names_it(in_wal_mode: Path) -> None:
    with (
        PythonProcess("-c", HOLD_THE_WRITE_LOCK, str(in_wal_mode)) as holder,
        closing(sqlite3.connect(in_wal_mode, timeout=0, isolation_level=None)) as connection,
    ):
        holder.wait_for("held")
        error = error_of(lambda: connection.execute("begin immediate"))
        assert lock_holders(str(in_wal_mode)) == {holder.pid}
        assert f"is locked by process {holder.pid} (python" in str(explained(error, str(in_wal_mode)))
    assert lock_holders(str(in_wal_mode)) == set()


def test_a_lock_held_by_this_process_says_so(in_wal_mode: Path) -> None:
    with (
        closing(sqlite3.connect(in_wal_mode, isolation_level=None)) as mine,
        closing(sqlite3.connect(in_wal_mode, timeout=0, isolation_level=None)) as other,
    ):
        mine.execute("begin immediate")
        error = error_of(lambda: other.execute("begin immediate"))
        found = str(explained(error, str(in_wal_mode)))
    assert "is locked by a transaction of this process." in found
    assert "pass that connection with connection=" in found
    assert "Nothing was written" in found


def test_looking_for_the_holder_does_not_drop_the_lock(in_wal_mode: Path) -> None:
    with (
        closing(sqlite3.connect(in_wal_mode, isolation_level=None)) as mine,
        closing(sqlite3.connect(in_wal_mode, timeout=0, isolation_level=None)) as other,
    ):
        mine.execute("begin immediate")
        for _ in range(3):
            assert lock_holders(str(in_wal_mode)) == {os.getpid()}
        error_of(lambda: other.execute("begin immediate"))
        mine.execute("insert into t values (1)")
        mine.execute("commit")
        assert lock_holders(str(in_wal_mode)) == set()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path / "no" / "app.db", "does not exist. Create it first, or check the path"),
        (lambda path: path, "is a folder, not a file. Name a file in it"),
    ],
)
def test_what_cannot_be_opened(tmp_path: Path, make: Callable[[Path], Path], said: str) -> None:
    wrong = make(tmp_path)
    error = error_of(lambda: sqlite3.connect(wrong))
    found = explained(error, str(wrong))
    assert isinstance(found, StoreUnavailable)
    assert said in str(found)
