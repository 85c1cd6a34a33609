"""Foreign keys and rules of the tables: history never outlives its job, and wrong rows are refused by name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.domain.outcome import Succeeded
from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.store.statement import Plan, Statement, as_is, fetch
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.worker_parts import StoreWorker
from tests.store.databases import migrated


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with migrated(tmp_path / "app.db") as connection:
        yield connection


def answer(connection: SqliteConnection, sql: str) -> object:
    def ask() -> Plan[object]:
        return (yield from fetch(Statement(sql, (), as_is)))[0][0]

    return connection.read(ask())


def test_our_connections_have_their_settings(tmp_path: Path) -> None:
    for durability, synchronous in (("full", 2), ("normal", 1)):
        jobs = Rowcall(tmp_path / f"{durability}.db", durability=durability)
        with closing(queue_of(jobs).database.connect()) as connection:
            assert isinstance(connection, SqliteConnection)
            settings = {
                name: answer(connection, f"pragma {name}")
                for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous", "auto_vacuum")
            }
        assert settings == {
            "journal_mode": "wal",
            "foreign_keys": 1,
            "busy_timeout": 0,  # we wait outside SQLite, so that another thread can fork in between
            "synchronous": synchronous,
            "auto_vacuum": 2,
        }


def test_a_file_that_an_app_made_keeps_its_vacuum_setting(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table mine (id integer)")
    with Rowcall(path) as jobs:
        jobs.enqueue("task")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma auto_vacuum").fetchone() == (0,)
        assert connection.execute("select count(*) from mine").fetchone() == (0,)


@pytest.mark.parametrize(
    "sql",
    [
        "insert into rowcall_attempt (job_id, attempt, status, claimed_at) values (99, 1, 'failed', 1900000000000)",
        "insert into rowcall_event (job_id, at, event) values (99, 1900000000000, 'X')",
        "insert into rowcall_job_tag (tag, job_id) values ('a', 99)",
    ],
)
def test_history_without_a_job_is_refused(database: sqlite3.Connection, sql: str) -> None:
    database.execute("pragma foreign_keys = on")
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        database.execute(sql)


def test_deleting_a_job_leaves_no_orphans(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with Rowcall(path) as jobs:
        jobs.enqueue("task", tags=["a", "b"])
        kept = jobs.enqueue("task", tags=["a"])
        for _ in range(2):
            claimed = jobs.dequeue("me")
            assert claimed is not None
            jobs.release(claimed)
        jobs.cancel(1, "no longer needed")
        jobs.delete(1)
        assert jobs.list(tag="a").jobs == [kept]
    with closing(sqlite3.connect(path)) as connection:
        for table in ("attempt", "event"):
            assert connection.execute(f"select count(*) from rowcall_{table}").fetchone() == (0,)
        assert connection.execute("select tag, job_id from rowcall_job_tag").fetchall() == [("a", kept.id)]
        assert connection.execute("pragma foreign_key_check").fetchall() == []


def test_an_id_is_never_given_again(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        first = jobs.enqueue("task")
        jobs.delete(first.id)
        assert jobs.enqueue("task").id == first.id + 1


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("run_at", 1_900_000_000, "run_at_is_milliseconds_since_1970"),
        ("run_at", "2030-01-01", "run_at_is_milliseconds_since_1970"),
        ("run_at", 1_900_000_000_000.5, "run_at_is_milliseconds_since_1970"),
        ("expires_at", 1_900_000_000, "expires_at_is_milliseconds_since_1970"),
        ("created_at", "now", "created_at_is_milliseconds_since_1970"),
        ("payload", b"{}", "payload_is_text"),
        ("status", "done", "status_is_known"),
        ("status", "PENDING", "status_is_known"),
        ("type", "", "type_is_text_without_nul"),
        ("type", b"task", "type_is_text_without_nul"),
        ("type", "a\0b", "type_is_text_without_nul"),
        ("queue", "", "queue_is_text_without_nul"),
        ("queue", "x" * 201, "queue_is_text_without_nul"),
        ("queue", "a\0b", "queue_is_text_without_nul"),
        ("priority", "high", "priority_is_a_whole_number"),
        ("priority", 1.5, "priority_is_a_whole_number"),
        ("attempt", -1, "attempt_is_a_whole_number"),
        ("max_attempts", 0, "max_attempts_is_a_whole_number"),
        ("timeout", 0, "timeout_is_seconds"),
        ("timeout", "soon", "timeout_is_seconds"),
        ("timeout", float("inf"), "timeout_is_seconds"),
        ("tags", "urgent", "tags_are_a_json_array"),
        ("tags", '{"a": 1}', "tags_are_a_json_array"),
        ("id", 0, "id_is_a_small_positive_number"),
        ("id", 2**63 - 1, "id_is_a_small_positive_number"),
    ],
)
def test_a_wrong_value_in_plain_sql_is_refused_by_a_rule_with_a_clear_name(
    database: sqlite3.Connection, column: str, value: object, rule: str
) -> None:
    row = {"type": "task", column: value}
    marks = ", ".join("?" * len(row))
    with pytest.raises(sqlite3.IntegrityError) as caught:
        database.execute(f"insert into rowcall_job ({', '.join(row)}) values ({marks})", list(row.values()))
    assert str(caught.value) == f"CHECK constraint failed: {rule}"
    assert database.execute("select count(*) from rowcall_job").fetchone() == (0,)


@pytest.mark.parametrize(
    "act",
    [
        "insert into rowcall_job (type, status) select 'echo', 'pending' where new.type = 'send'",
        "delete from rowcall_job where type = 'old'",
        "update rowcall_job set status = 'pending' where id = new.id",
        "update rowcall_job set priority = 5 where id = new.id",
    ],
)
@pytest.mark.parametrize("delay", [0, 60])
def test_a_trigger_of_the_app_keeps_no_job_of_a_bulk_insert_from_being_ready(
    tmp_path: Path, act: str, delay: float
) -> None:
    with Rowcall(tmp_path / "app.db") as jobs, closing(sqlite3.connect(tmp_path / "app.db")) as app:
        send = jobs.task(name="send")(lambda: None)
        jobs.enqueue("old")
        app.execute(f"create trigger of_the_app after insert on rowcall_job begin {act}; end")
        send.using(delay=delay).enqueue_many([{}] * 20)
        pending = "select id from rowcall_job where status = 'pending' order by id"
        assert app.execute("select id from rowcall_ready order by id").fetchall() == app.execute(pending).fetchall()
        assert app.execute("select * from rowcall_claim").fetchall() == []


def test_a_job_that_was_replaced_is_claimed_once(tmp_path: Path) -> None:
    """INSERT OR REPLACE deletes the old row without a trigger, so its ready row stays."""
    ran: list[int] = []
    with Rowcall(tmp_path / "app.db") as jobs, closing(sqlite3.connect(tmp_path / "app.db")) as app:

        @jobs.task
        def send(number: int = 0) -> None:
            ran.append(number)

        kept, replaced, again = (send.enqueue(number) for number in (1, 2, 3))
        replace = "insert or replace into rowcall_job (id, type, priority, status, payload) values (?, 'send', ?, ?, ?)"
        app.execute(replace, (replaced.id, 5, "pending", '{"number": 20}'))
        app.execute(replace, (again.id, 0, "scheduled", '{"number": 30}'))
        app.commit()
        assert jobs.drain().succeeded == 3
        assert sorted(ran) == [1, 20, 30]
        assert jobs.get(kept.id).status == "succeeded"


def test_a_running_job_that_was_replaced_is_not_started_again_by_its_worker(tmp_path: Path) -> None:
    clock = FakeClock()
    with Rowcall(tmp_path / "app.db", clock=clock) as jobs, closing(sqlite3.connect(tmp_path / "app.db")) as app:
        worker = StoreWorker(jobs, "web-1")
        jobs.enqueue("send")
        ready = worker.start_one()
        app.execute("insert or replace into rowcall_job (id, type, status) values (?, 'send', 'pending')", (ready.id,))
        app.commit()
        clock.advance(1)
        assert worker.claim(slots=2).jobs == []
        assert worker.settle(ready, Succeeded())
        assert jobs.get(ready.id).status == "succeeded"
