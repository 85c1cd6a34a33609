"""Whatever plain SQL writes into any column: good jobs run, and every call answers or raises an error of Rowcall's.

`ROWCALL_TEST_ODD_ROWS=1` writes each value of each column into a database of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from rowcall import Backoff, Job, Limit, Rowcall, RowcallError
from rowcall.cli.main import main
from tests.connected import connected, database_with_tables

GOOD = 5
DEEP = "[" * 5000 + "]" * 5000
DEEP_OBJECT = '{"a":' * 5000 + "1" + "}" * 5000
NOW = 1_600_000_000_000

# what a row of each table has, where nothing else is said; job_id 1 and 2 are jobs that have ended
ROWS: dict[str, dict[str, object]] = {
    "job": {"type": "note", "payload": '{"number": 1}'},
    "attempt": {"job_id": 1, "attempt": 1, "status": "failed", "claimed_at": NOW},
    "event": {"job_id": 1, "at": NOW, "event": "X"},
    "worker": {
        "name": "w", "host": "h", "pid": 1, "queues": "", "concurrency": 1, "version": "1", "lease_ms": 1000,
        "started_at": NOW, "beat_at": NOW,
    },
    "job_tag": {"tag": "t", "job_id": 1},
    "tally": {"at": NOW, "queue": "q", "type": "note", "error_code": "", "attempt": 1, "jobs": 0},
    "total": {"status": "failed", "queue": "q", "type": "note", "error_code": "", "attempt": 1, "jobs": 0},
    "history": {"at": NOW, "span_ms": 60_000, "queue": "q", "type": "note", "outcome": "failed", "jobs": 1},
    "setting": {"name": "s", "value": "1"},
    "blob_ref": {"digest": "d", "job_id": 1},
    "blob_pin": {"token": "t", "digest": "d", "reference": "r"},
    "blob": {"touched_at": NOW, "size": 1, "digest": "d", "data": b"x"},
    "edge": {"blocker_id": 1, "job_id": 2, "place": 0},
    "slot": {"limit_key": '["api"]', "job_id": 1, "lease": 1},
    "start": {"limit_key": '["rated"]', "number": 1, "at": NOW, "until": NOW},
    "gate": {"limit_key": '["api"]', "opens_at": NOW},
    "quota": {"name": "api", "changed_at": NOW},
    "pause": {"kind": "queue", "name": "other", "at": NOW},
    "schedule": {"name": "s", "task": "note", "every_ms": 60_000, "changed_at": NOW, "next_run_at": NOW},
    "waiter": {"job_id": 1, "until": NOW, "name": "w"},
}  # fmt: skip


class Raw(str):
    """A value as an expression of SQL."""


ODD_OF_SQLITE: list[object] = [
    None, "", "text", "a\0b", "a\x1b[31m\nb", b"", b"ab", b"\xff\xfe", Raw("cast(x'ff41' as text)"),
    Raw("cast(x'eda080' as text)"), 0, 1, -1, 1.5, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), float("inf"), float("-inf"),
    100_000_000_001, 300_000_000_000_000,
]  # fmt: skip
ODD_TEXTS: list[object] = [
    *(f"[{'[' * depth}{']' * depth}]" for depth in (250, 900, 960)),
    *(f'{{"number": {"[" * depth}{"]" * depth}}}' for depth in (250, 900, 960)),
    f'[["k", "api", 1, null, null, {DEEP}]]', f'{{"kind": "constant", "base_seconds": 0, "more": {DEEP}}}',
    DEEP, DEEP_OBJECT, '{"number": ' + DEEP + "}", '["\\ud800"]', '{"number": "\\ud800"}', "[", "[[1],null]", "{}", "[1e999]",
    '{"number": NaN}', "9" * 5000, '{"number": ' + "9" * 5000 + "}", '[["k","api",0,0,0]]', '[["k","k",null,5,null]]',
    '[["k","k",1,null,null],["k","k",-1,1,1]]', "limit:" + DEEP, 'limit:["api"]', "limit:", "x" * 201, "x" * 5_000,
    '{"kind": "constant", "base_seconds": 1e999}', '{"kind": "linear", "base_seconds": -1e308}',
    '{"__rowcall_blob__": 1}', '{"__rowcall_blob__": {"digest": "d", "size": 1}}', "00-" + "0" * 32 + "-0-00", "\U0010ffff", "_%",
    '{"1":-5,"x":1}', '{"99999999999":1}', '{"5":99999999999999999999}', "* * * * *", "61 25 * * *", "../..", "all", "queue", "*",
]  # fmt: skip
ODD_OF_POSTGRES: list[object] = [
    None, "", "text", "a\x1b[31m\nb", "0", "1", "-1", "1.5", str(2**31 - 1), str(2**31), str(2**62), str(2**63 - 1),
    str(-(2**63)), "infinity", "-infinity", "NaN", "1e308", "-1e308", "294276-12-31 23:59:59+00", "4713-01-01 00:00:00+00 BC",
    "0001-01-01", "9999-12-31 23:59:59.9999", "1970-01-01", "\\x00ff", "true",
]  # fmt: skip
STATUSES = ("running", "failed", "succeeded", "blocked", "cancelled", "scheduled")
# columns of which two rows cannot have the same value
KEYS = {"worker": "name", "setting": "name", "schedule": "name", "quota": "name", "start": "number", "pause": "name"}
TIMES = {"at", "until", "touched_at", "opens_at", "changed_at", "started_at", "beat_at", "claimed_at", "next_run_at"}


class Shell:
    """Plain SQL on a database, with what is odd there."""

    def __init__(self, url: str, execute: Callable[[str, list[object]], object], errors: type[Exception]) -> None:
        self.url = url
        self.execute = execute
        self.errors = errors
        self.is_sqlite = errors is sqlite3.Error
        self._numbers = itertools.count(1)

    @property
    def odd_values(self) -> list[object]:
        return [*(ODD_OF_SQLITE if self.is_sqlite else ODD_OF_POSTGRES), *ODD_TEXTS]

    def insert(self, table: str, row: dict[str, object]) -> bool:
        """Whether the database took it."""
        if not self.is_sqlite:
            row = {name: _time(value) if name in TIMES else value for name, value in row.items()}
        marks = [value if isinstance(value, Raw) else "?" if self.is_sqlite else "%s" for value in row.values()]
        values = [value for value in row.values() if not isinstance(value, Raw)]
        try:
            self.execute(f"insert into rowcall_{table} ({', '.join(row)}) values ({', '.join(marks)})", values)
        except (*_refusals, self.errors):
            return False
        return True

    def insert_odd(self, table: str, column: str, value: object) -> int:
        """Rows that have the value there, and are else as they should be; returns how many were taken."""
        number = next(self._numbers)
        row = dict(ROWS[table])
        if table in KEYS and number > 1:
            row[KEYS[table]] = number if KEYS[table] == "number" else f"{row[KEYS[table]]}{number}"
        row[column] = value
        if table != "job":
            return self.insert(table, row)
        status = STATUSES[number % len(STATUSES)]
        others = {"finished_at": NOW} if status in ("failed", "succeeded", "cancelled") else {"worker": "gone"}
        if not self.is_sqlite and "finished_at" in others:
            others = {"finished_at": _time(NOW)}
        kind = ("note", "fail", "slow", "limited", "by_value")[number % 5]
        return sum(
            self.insert(table, given)
            for given in (
                {"status": "pending", **row},
                {"status": status, **others, **row},
                {"status": "pending", **row, "type": kind},
            )
        )


_refusals = (OverflowError, ValueError)


def _time(value: object) -> object:
    return f"epoch {value} ms" if False else _times.get(value, value) if isinstance(value, int) else value


_times: dict[object, object] = {NOW: "2020-09-13 12:26:40+00"}


def declare(jobs: Rowcall) -> None:
    @jobs.task(timeout=30)
    def note(number: int = 1) -> int:
        return number

    @jobs.task(max_attempts=2)
    def fail(number: int = 1) -> None:
        raise ValueError("no")

    @jobs.task(timeout=0.01, max_attempts=1)
    async def slow(number: int = 1) -> None:
        await asyncio.sleep(30)

    @jobs.task(limit=Limit("api", concurrency=2))
    def limited(number: int = 1) -> int:
        return number

    @jobs.task(limit=Limit("by", concurrency=2, by="number"))
    def by_value(number: int = 1) -> int:
        return number

    @jobs.task(limit=Limit("rated", rate=1000, per=0.1))
    def rated(number: int = 1) -> int:
        return number

    @jobs.task(max_attempts=1, retry=Backoff.constant(0))
    async def last(number: int = 1) -> int:
        return number


TASKS = ("note", "limited", "by_value", "rated", "last")


def enqueue_good(jobs: Rowcall) -> list[int]:
    return [jobs.enqueue(task, {"number": 7}, priority=-(2**31)).id for task in TASKS]


def look_at_everything(jobs: Rowcall) -> list[str]:
    """Every read, of all that there is; returns what was refused."""
    refused: list[str] = []

    def ask(read: Callable[..., object], *given: object, **options: object) -> object:
        try:
            return read(*given, **options)
        except RowcallError as error:
            refused.append(f"{getattr(read, '__name__', read)}{given or ''}: {error}")
            return None

    found: list[Job] = []
    cursor = None
    while (page := ask(jobs.list, limit=100, cursor=cursor)) is not None:
        found += page.jobs
        cursor = page.next_cursor
        if cursor is None:
            break
    for status in (*STATUSES, "pending"):
        ask(jobs.list, status=status)
    for option in ({"queue": "default"}, {"type": "note"}, {"tag": "t"}, {"tag": "\ufffd"}):
        ask(jobs.list, **option)
    for job in found[:: max(1, len(found) // 60)]:
        for read in (jobs.get, jobs.attempts, jobs.timeline, jobs.blockers):
            ask(read, job.id)
        if job.chain_id is not None:
            with contextlib.suppress(RowcallError):
                jobs.chain(job.id)
        if job.status in ("succeeded", "failed", "cancelled"):
            with contextlib.suppress(RowcallError):
                jobs.result(job.id, timeout=0)
    for read in (
        jobs.stats, jobs.stuck, jobs.retries, jobs.top_errors, jobs.retention, jobs.workers, jobs.paused, jobs.schedules,
        jobs.list_chains,
    ):  # fmt: skip
        ask(read)
    return refused


COMMANDS = (
    "jobs", "stats", "stuck", "errors", "retries", "workers", "schedules", "retention", "doctor", "top --once",
    "prune --dry-run", "show 1",
)  # fmt: skip


def run_all_commands(url: str) -> None:
    for command in COMMANDS:
        for words in (command.split(), [*command.split(), "--json"]):
            outcome = CliRunner().invoke(main, [*words, "--url", url])
            if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
                raise AssertionError(f"rowcall {' '.join(words)}") from outcome.exception
            assert "Traceback" not in outcome.output


def claim_all(jobs: Rowcall) -> None:
    for _ in range(100):
        claimed = jobs.claim("hand", limit=100)
        if not claimed:
            return
        for job in claimed:
            jobs.complete(job)
    raise AssertionError("claims do not come to an end")


def steer(jobs: Rowcall) -> None:
    for call in (
        lambda: jobs.cancel(type="note", status="blocked"),
        lambda: jobs.cancel(type="note"),
        lambda: jobs.cancel(queue="default"),
        lambda: jobs.retry(type="note"),
        lambda: jobs.retry(error_code="*"),
        lambda: jobs.retry(type="note", status="succeeded"),
        lambda: jobs.cancel(type="note"),
        lambda: jobs.prune(),
        lambda: jobs.recount(),
        lambda: jobs.vacuum(),
    ):
        with contextlib.suppress(RowcallError):
            call()


def live_through(shell: Shell, folder: Path) -> None:
    """Good jobs beside what is there run, by a worker and by hand, and all calls answer or are refused."""
    with Rowcall(shell.url) as jobs:
        declare(jobs)
        assert look_at_everything(jobs) == []
        run_all_commands(shell.url)
        good = enqueue_good(jobs)
        jobs.drain(concurrency=2)
        assert {jobs.get(job_id).status for job_id in good} == {"succeeded"}
        assert look_at_everything(jobs) == []
        run_all_commands(shell.url)
        good = enqueue_good(jobs)
        claim_all(jobs)
        assert {jobs.get(job_id).status for job_id in good} == {"succeeded"}
        steer(jobs)
        assert look_at_everything(jobs) == []
        good = enqueue_good(jobs)
        jobs.drain(concurrency=2)
        assert {jobs.get(job_id).status for job_id in good} == {"succeeded"}


def columns_of(shell: Shell, table: str) -> list[str]:
    if shell.is_sqlite:
        return [row[1] for row in shell.execute(f"pragma table_info(rowcall_{table})", [])]
    asked = "select column_name from information_schema.columns where table_name = %s order by ordinal_position"
    return [row[0] for row in shell.execute(asked, [f"rowcall_{table}"])]


@contextlib.contextmanager
def sqlite_shell(path: Path) -> Iterator[Shell]:
    with Rowcall(path) as jobs:
        jobs.migrate()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma foreign_keys = off")
        yield Shell(f"sqlite:///{path}", lambda sql, values: connection.execute(sql, values).fetchall(), sqlite3.Error)


@contextlib.contextmanager
def postgres_shell(server_url: str) -> Iterator[Shell]:
    import psycopg

    def execute(sql, values):
        cursor = connection.execute(sql, values)
        return cursor.fetchall() if cursor.description else []

    with database_with_tables(server_url) as url, connected(url) as connection:
        yield Shell(url, execute, psycopg.Error)


def write_odd(shell: Shell, table: str, columns: list[str], values: list[object]) -> int:
    for _ in range(2):
        shell.insert("job", {"type": "old", "status": "failed", "finished_at": NOW if shell.is_sqlite else _time(NOW)})
    return sum(shell.insert_odd(table, column, value) for column in columns for value in values)


SQLITE_TABLES = [table for table in ROWS if table not in ("blob", "waiter")]


@pytest.mark.parametrize("table", SQLITE_TABLES)
def test_odd_rows_in_a_file(tmp_path: Path, table: str) -> None:
    with sqlite_shell(tmp_path / "app.db") as shell:
        write_odd(shell, table, columns_of(shell, table), shell.odd_values)
        live_through(shell, tmp_path)


@pytest.mark.parametrize("table", ROWS)
def test_odd_rows_on_a_server(postgres_server_url: str, tmp_path: Path, table: str) -> None:
    with postgres_shell(postgres_server_url) as shell:
        write_odd(shell, table, columns_of(shell, table), shell.odd_values)
        live_through(shell, tmp_path)
