from __future__ import annotations

import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from rowcall import Rowcall, RowcallError, SchemaMismatch
from rowcall.store.schema import TABLES
from rowcall.store.sqlite import dialect
from rowcall.store.sqlite.schema import MIGRATIONS, NEWEST_VERSION
from tests.store.later_tables import ADD_COLUMN, ADD_INDEX, FILL_COLUMN, later
from tests.support import ForkedProcess, eventually

ROUNDS = 10
# what two newer steps say is the oldest code that suits them, and whether this code does
SUITED: list[tuple[tuple[int | None, int], bool]] = [
    ((NEWEST_VERSION, NEWEST_VERSION), True),
    ((NEWEST_VERSION, NEWEST_VERSION + 1), False),
    ((NEWEST_VERSION + 1, NEWEST_VERSION), False),
    ((None, NEWEST_VERSION), False),
]

MIGRATE_AT_EACH_SIGNAL = """
import os, sys, threading
from rowcall import Rowcall
folder, rounds = sys.argv[1], int(sys.argv[2])
for turn in range(rounds):
    jobs = Rowcall(f"sqlite:///{folder}/app{turn}.db")
    print(f"ready {turn};", flush=True)
    while not os.path.exists(f"{folder}/go{turn}"):
        threading.Event().wait(0.0005)
    jobs.enqueue("task", {"pid": os.getpid()})
    jobs.migrate()
    jobs.close()
    print(f"done {turn};", flush=True)
"""


def names(path: Path, kind: str = "table") -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("select name from sqlite_master where type = ? and name not like 'sqlite%'", [kind])
        return {str(name) for (name,) in rows}


def tables(prefix: str) -> set[str]:
    return {f"{prefix}{name}" for name in TABLES}


def pretend_version(path: Path, version: int, oldest: int | None = None) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "insert into rowcall_migration (version, name, applied_at, oldest) values (?, 'from the future', 0, ?)",
            [version, oldest],
        )
        connection.commit()


def test_from_nothing_and_then_there_is_nothing_to_do(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with Rowcall(path) as jobs:
        assert jobs.migrate() == (0, NEWEST_VERSION)
        assert jobs.migrate() == (NEWEST_VERSION, NEWEST_VERSION)
    with Rowcall(path) as jobs:
        assert jobs.migrate() == (NEWEST_VERSION, NEWEST_VERSION)
    assert names(path) == tables("rowcall_")


def test_each_step_is_written_down_once(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with Rowcall(path) as jobs:
        jobs.migrate()
        jobs.migrate()
    with closing(sqlite3.connect(path)) as connection:
        steps = connection.execute("select version, name from rowcall_migration order by version").fetchall()
    assert steps == [(migration.version, migration.name) for migration in MIGRATIONS]


def test_the_first_use_migrates_by_itself(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        assert jobs.enqueue("task").id == 1


def test_reading_first_migrates_too(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        assert jobs.list().jobs == []


def test_a_step_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table rowcall_timeline (mine text)")
    with Rowcall(path) as jobs, pytest.raises(RowcallError, match="rowcall_timeline already exists"):
        jobs.migrate()
    assert names(path) == {"rowcall_timeline"}


def test_tables_newer_than_the_code_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with Rowcall(path) as jobs:
        jobs.enqueue("task")
    pretend_version(path, NEWEST_VERSION + 7)
    with Rowcall(path) as jobs:
        for use in (lambda: jobs.enqueue("task"), jobs.list, jobs.migrate, jobs.drain):
            with pytest.raises(SchemaMismatch, match="a newer Rowcall made them; install that version here") as caught:
                use()
            assert (caught.value.found, caught.value.wanted) == (NEWEST_VERSION + 7, NEWEST_VERSION)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from rowcall_job").fetchone() == (1,)


def test_newer_tables_that_suit_this_code_are_used(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with Rowcall(path) as jobs:
        jobs.enqueue("note")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("alter table rowcall_job add column future text")
        connection.execute("create index rowcall_job_future on rowcall_job (future)")
    pretend_version(path, NEWEST_VERSION + 7, oldest=NEWEST_VERSION)
    with Rowcall(path) as jobs:

        @jobs.task
        def note() -> str:
            return "done"

        assert jobs.migrate() == (NEWEST_VERSION + 7, NEWEST_VERSION + 7)
        note.enqueue()
        assert jobs.drain().succeeded == 2
        assert [job.result for job in jobs.list().jobs] == ["done", "done"]


@pytest.mark.parametrize(("oldest", "suits"), SUITED)
def test_every_newer_step_must_suit(tmp_path: Path, oldest: tuple[int | None, int], suits: bool) -> None:
    """A migration that does not name the oldest code that it allows suits no older code."""
    path = tmp_path / "app.db"
    with Rowcall(path) as jobs:
        jobs.migrate()
    for version, suited in enumerate(oldest, start=NEWEST_VERSION + 1):
        pretend_version(path, version, suited)
    with Rowcall(path) as jobs, nullcontext() if suits else pytest.raises(SchemaMismatch):
        jobs.enqueue("task")


def test_auto_migrate_can_be_turned_off(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with Rowcall(path, auto_migrate=False) as jobs:
        with pytest.raises(SchemaMismatch, match="run: rowcall migrate") as caught:
            jobs.enqueue("task")
        assert (caught.value.found, caught.value.wanted) == (0, NEWEST_VERSION)
        assert names(path) == set()
        jobs.migrate()
        assert jobs.enqueue("task").id == 1


@pytest.mark.parametrize("prefix", ["q", "my_app_", "_", "__", "_x1_", "pg_", "x" * 40])
def test_the_prefix_is_on_everything(tmp_path: Path, prefix: str) -> None:
    path = tmp_path / "app.db"
    with Rowcall(path, table_prefix=prefix) as jobs:
        job = jobs.enqueue("task", tags=["a"])
        assert jobs.list(tag="a").jobs == [job]
    assert names(path) == tables(prefix)
    for kind in ("index", "view", "trigger"):
        assert [name for name in names(path, kind) if not name.startswith(prefix)] == []


def test_two_prefixes_live_in_one_file_next_to_the_apps_own_tables(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table job (id integer primary key)")
    with Rowcall(path, table_prefix="one_") as one, Rowcall(path, table_prefix="two_") as two:
        one.enqueue("first")
        two.enqueue("second")
        two.enqueue("third")
        assert [job.type for job in one.list().jobs] == ["first"]
        assert [job.type for job in two.list().jobs] == ["third", "second"]
        two.delete(1)
        assert one.get(1).type == "first"
    assert names(path) == tables("one_") | tables("two_") | {"job"}


def test_later_steps_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with Rowcall(path) as jobs:
        jobs.enqueue("task")
    with later(dialect, (ADD_COLUMN, FILL_COLUMN), (ADD_INDEX,)) as newest:
        with Rowcall(path) as jobs:
            assert jobs.migrate() == (NEWEST_VERSION, newest)
            assert jobs.migrate() == (newest, newest)
            assert jobs.enqueue("task").id == 2
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("select future from rowcall_job order by id").fetchall() == [("task",), (None,)]
            assert connection.execute("select count(*) from rowcall_migration").fetchone() == (newest,)


def test_a_later_step_that_fails_leaves_the_tables_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with Rowcall(path) as jobs:
        jobs.enqueue("task")
        with later(dialect, (ADD_COLUMN,), ("select nonsense",)), pytest.raises(RowcallError, match="nonsense"):
            jobs.migrate()
        assert jobs.migrate() == (NEWEST_VERSION, NEWEST_VERSION)
        assert jobs.enqueue("task").id == 2


def test_a_process_that_is_killed_while_it_migrates_leaves_the_tables_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with Rowcall(path) as jobs:
        jobs.enqueue("task")
    with ForkedProcess("-m", "tests.store.later_tables", f"sqlite:///{path}") as process:
        assert process.wait() == -signal.SIGKILL
    with Rowcall(path) as jobs:
        assert jobs.migrate() == (NEWEST_VERSION, NEWEST_VERSION)
        assert jobs.enqueue("task").id == 2
    with later(dialect, (ADD_COLUMN,)) as newest, Rowcall(path) as jobs:
        assert jobs.migrate() == (NEWEST_VERSION, newest)


@pytest.mark.slow
@pytest.mark.concurrency
def test_two_processes_that_migrate_at_once(tmp_path: Path) -> None:
    arguments = ("-c", MIGRATE_AT_EACH_SIGNAL, str(tmp_path), str(ROUNDS))
    with ForkedProcess(*arguments) as first, ForkedProcess(*arguments) as second:
        for turn in range(ROUNDS):
            for process in (first, second):
                process.wait_for(f"ready {turn};")
            (tmp_path / f"go{turn}").touch()
            for process in (first, second):
                process.wait_for(f"done {turn};")
            path = tmp_path / f"app{turn}.db"
            with Rowcall(path) as jobs:
                assert {job.payload["pid"] for job in jobs.list().jobs} == {first.pid, second.pid}
            with closing(sqlite3.connect(path)) as connection:
                assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
                assert connection.execute("select count(*) from rowcall_migration").fetchone() == (len(MIGRATIONS),)
        assert (first.wait(), second.wait()) == (0, 0)


@pytest.mark.no_tables
def test_many_threads_that_begin_at_once_migrate_once(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs, ThreadPoolExecutor(8) as threads:
        done = [threads.submit(jobs.enqueue, "task") for _ in range(8)]
        eventually(lambda: all(future.done() for future in done))
        assert sorted(future.result().id for future in done) == list(range(1, 9))
