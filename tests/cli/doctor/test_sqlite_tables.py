"""What the doctor says of the file itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.cli.doctor import sqlite_tables
from tests.cli.conftest import Examine, change
from tests.support import PythonProcess


def test_of_an_empty_file_nothing_is_said_that_its_first_use_cures(app: Path, folder: Path, examine: Examine) -> None:
    (folder / "queue.db").touch()
    found = examine()
    # the file system of the tests may be one in memory
    assert {check for check, level in found.level.items() if level != "ok"} - {"file system"} == {"tables"}
    with Rowcall(folder / "queue.db") as jobs:
        jobs.migrate()
    found = examine()
    assert (found.level["journal"], found.level["vacuum"]) == ("ok", "ok")


def test_a_file_that_is_no_database(app: Path, folder: Path, examine: Examine) -> None:
    (folder / "queue.db").write_text("a shopping list, for instance\n" * 100)
    found = examine()
    assert (found.exit_code, found.level["database"]) == (1, "problem")
    assert "is not a SQLite database" in found.what["database"]


def test_a_damaged_file(queue: Rowcall, folder: Path, examine: Examine) -> None:
    queue.enqueue("hello", {"name": "x" * 100_000})
    queue.close()
    change(folder, "pragma wal_checkpoint(truncate)")
    size = (folder / "queue.db").stat().st_size
    with (folder / "queue.db").open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xff" * (size - 4096 * 2))
    found = examine()
    assert found.exit_code == 1
    assert "damaged" in (found.what.get("integrity", "") + found.what.get("database", ""))


def test_tables_of_another_prefix(app: Path, folder: Path, examine: Examine) -> None:
    with Rowcall(folder / "queue.db", table_prefix="other_") as jobs:
        jobs.migrate()
    found = examine()
    assert found.level["tables"] == "problem"
    assert found.advice["tables"].endswith("prefix other_: set its table_prefix if you mean one of them")
    assert examine("--url", "sqlite:///queue.db").advice["tables"].endswith("other_: name the app instead of --url")


def test_rows_that_lost_their_job(queue: Rowcall, folder: Path, examine: Examine) -> None:
    job = queue.enqueue("hello", tags=["a", "b"])
    drop = "drop trigger rowcall_job_belongings"
    change(folder, "pragma foreign_keys = off", drop, f"delete from rowcall_job where id = {job.id}")
    found = examine()
    assert (found.exit_code, found.level["foreign keys"]) == (1, "problem")
    assert "2 in rowcall_job_tag" in found.what["foreign keys"]


def test_a_journal_that_is_no_wal(queue: Rowcall, folder: Path, examine: Examine) -> None:
    queue.close()
    change(folder, "pragma journal_mode = delete")
    assert examine().what["journal"] == "the journal mode is delete, not wal"


def test_a_large_wal(queue: Rowcall, examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.enqueue("hello")
    monkeypatch.setattr(sqlite_tables, "OVERSIZED_WAL_BYTES", 1)
    assert examine().level["wal"] == "warn"


def test_who_holds_the_write_lock(queue: Rowcall, folder: Path, examine: Examine) -> None:
    program = "import sqlite3, sys; c = sqlite3.connect('queue.db'); c.execute('begin immediate');"
    program += "print('held', flush=True); import threading; threading.Event().wait()"
    with PythonProcess("-c", program, cwd=str(folder)) as holder:
        holder.wait_for("held")
        found = examine()
        assert found.level["write lock"] == "warn"
        assert found.what["write lock"] == f"held by process {holder.pid}"
    assert examine().level["write lock"] == "ok"


def test_a_process_that_has_lost_its_locks(queue: Rowcall, folder: Path, examine: Examine) -> None:
    queue.enqueue("hello")
    program = "from rowcall import Rowcall; jobs = Rowcall('sqlite:///queue.db'); jobs.list(); {}"
    program += "print('open', flush=True); import threading; threading.Event().wait()"
    with PythonProcess("-c", program.format(""), cwd=str(folder)) as process:
        process.wait_for("open")
        assert "locks" not in examine().level
    with PythonProcess("-c", program.format("open('queue.db').close();"), cwd=str(folder)) as process:
        process.wait_for("open")
        found = examine()
        assert (found.exit_code, found.level["locks"]) == (1, "problem")
        assert f"locks of process {process.pid} are lost" in found.what["locks"]


def test_a_wal_that_was_deleted(queue: Rowcall, folder: Path, examine: Examine) -> None:
    queue.enqueue("hello")
    (folder / "queue.db-wal").unlink()
    found = examine()
    assert (found.exit_code, found.level["wal"]) == (1, "problem")
    assert "was deleted or replaced while it was open" in found.what["wal"]
    assert not (folder / "queue.db-wal").exists()
