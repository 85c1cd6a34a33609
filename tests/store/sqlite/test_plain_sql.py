"""Jobs written by plain SQL, from any language: valid ones run, and an odd one never stops the others."""

from __future__ import annotations

import functools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rowcall import Job, Rowcall, Status
from rowcall.store.sqlite.schema import MIGRATIONS, VERSION_TABLE
from rowcall.store.sqlite.words import render
from tests.store.databases import migrated

BYTES_THAT_ARE_NO_TEXT = "cast(x'ff41' as text)"
ODD_VALUES = {
    "a blob": b"ab",
    "a text": "text",
    "no text": "",
    "a text with NUL": "a\0b",
    "half of JSON": "[",
    "JSON": "[[1],null]",
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "half": 1.5,
    "zero": 0,
    "minus one": -1,
    "the highest": 2**63 - 1,
    "the lowest": -(2**63),
    "nothing": None,
}


ONE_OF = 1 if "ROWCALL_TEST_ODD_ROWS" in os.environ else 3


@functools.cache
def columns_of_a_job() -> list[str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(render(VERSION_TABLE, "rowcall_"))
        for migration in MIGRATIONS:
            for statement in migration.statements:
                connection.execute(render(statement, "rowcall_"))
        return [str(row[1]) for row in connection.execute("pragma table_info(rowcall_job)")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def shell(path: Path) -> Iterator[sqlite3.Connection]:
    with migrated(path) as connection:
        yield connection


@pytest.fixture
def jobs(path: Path, shell: sqlite3.Connection) -> Iterator[Rowcall]:
    with Rowcall(path) as jobs:

        @jobs.task
        def double(number: int = 21) -> int:
            return 2 * number

        yield jobs


def insert(shell: sqlite3.Connection, **row: object) -> int:
    marks = ", ".join("?" * len(row))
    cursor = shell.execute(f"insert into rowcall_job ({', '.join(row)}) values ({marks})", list(row.values()))
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def test_type_and_payload_make_a_job(jobs: Rowcall, shell: sqlite3.Connection) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=2)
    job = jobs.get(insert(shell, type="double", payload='{"number": 4}'))
    assert (job.status, job.queue, job.priority, job.attempt, job.max_attempts) == ("scheduled", "default", 0, 0, 5)
    assert before <= job.run_at <= datetime.now(UTC) + timedelta(milliseconds=2)
    assert job.created_at == job.run_at
    assert jobs.drain().succeeded == 1
    assert jobs.get(job.id).result == 8


def test_the_type_alone_makes_a_job(jobs: Rowcall, shell: sqlite3.Connection) -> None:
    job_id = insert(shell, type="double")
    jobs.drain()
    assert jobs.get(job_id).result == 42


def test_any_column_can_be_given(jobs: Rowcall, shell: sqlite3.Connection) -> None:
    run_at = datetime(2090, 1, 1, tzinfo=UTC)
    job_id = insert(
        shell,
        type="double",
        queue="mail",
        priority=7,
        max_attempts=2,
        run_at=round(run_at.timestamp() * 1000),
        expires_at=round(run_at.timestamp() * 1000) + 1,
        timeout=3,
        tags='["a", "b"]',
        retry='{"kind": "constant", "base_seconds": 1}',
    )
    job = jobs.get(job_id)
    assert (job.queue, job.priority, job.max_attempts, job.run_at, job.timeout) == ("mail", 7, 2, run_at, 3.0)
    assert job.tags == ("a", "b")
    assert jobs.list(tag="b").jobs == [job]


@pytest.mark.parametrize("status", Status)
def test_any_word_for_the_status_can_be_given(jobs: Rowcall, shell: sqlite3.Connection, status: Status) -> None:
    job_id = insert(shell, type="double", status=status)
    assert jobs.list(status=status).jobs == [jobs.get(job_id)]
    jobs.drain()
    runs = status in ("scheduled", "pending", "running")  # a job that plain SQL marks as running has no worker
    assert jobs.get(job_id).status == ("succeeded" if runs else status)
    assert jobs.enqueue("double").id > job_id
    assert jobs.drain().succeeded == 1


def look_at_everything(jobs: Rowcall) -> list[Job]:
    shown = jobs.list().jobs
    for job in shown:
        assert jobs.get(job.id) == job
        jobs.attempts(job.id)
        jobs.timeline(job.id)
    assert jobs.stats().total == len(shown)
    return shown


@pytest.mark.parametrize("column", columns_of_a_job())
def test_an_odd_value_is_refused_or_harms_no_other_job(jobs: Rowcall, shell: sqlite3.Connection, column: str) -> None:
    accepted = 0
    for value in list(ODD_VALUES.values())[columns_of_a_job().index(column) % ONE_OF :: ONE_OF]:
        try:
            insert(shell, **{"type": "double", column: value})
        except sqlite3.IntegrityError:
            continue
        accepted += 1
        look_at_everything(jobs)
    good = jobs.enqueue("double", {"number": 1})
    claimed = jobs.claim("me", limit=accepted + 1)
    assert good.id in [job.id for job in claimed]
    for job in claimed:
        jobs.release(job)
    jobs.drain()
    assert jobs.get(good.id).status == "succeeded"
    look_at_everything(jobs)


@pytest.mark.parametrize("column", ["payload", "queue", "type", "worker", "retry", "key", "error_detail", "result"])
def test_bytes_that_are_no_text_are_shown_and_harm_no_other_job(
    jobs: Rowcall, shell: sqlite3.Connection, column: str
) -> None:
    given = {"type": "'double'", column: BYTES_THAT_ARE_NO_TEXT}
    shell.execute(f"insert into rowcall_job ({', '.join(given)}) values ({', '.join(given.values())})")
    good = jobs.enqueue("double", {"number": 1})
    look_at_everything(jobs)
    jobs.drain()
    assert jobs.get(good.id).status == "succeeded"
    look_at_everything(jobs)


def test_the_stock_shell_sees_times_as_milliseconds(jobs: Rowcall, path: Path) -> None:
    job = jobs.enqueue("double", run_at=datetime(2090, 1, 1, 0, 0, 0, 5000, tzinfo=UTC))
    with closing(sqlite3.connect(path)) as connection:
        (run_at,) = connection.execute("select run_at from rowcall_job where id = ?", [job.id]).fetchone()
    assert run_at == 3_786_912_000_005
