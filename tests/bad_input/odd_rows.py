"""Rows of every table with values that make no sense, and a queue that has to live with them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import psycopg
from click.testing import CliRunner

from rowcall import Backoff, Job, Limit, Rowcall, RowcallError
from rowcall.cli.main import main
from tests.connected import connected, database_with_tables

T = TypeVar("T")

DEEP = "[" * 5000 + "]" * 5000
LONG_AGO_MS, LONG_AGO = 1_600_000_000_000, "2020-09-13 12:26:40+00"


class Raw(str):
    """A value as an expression of SQL."""


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


# a row of each table as it should be; the jobs 1 and 2 have ended
ROWS: dict[str, dict[str, object]] = {
    "job": {"type": "note", "payload": '{"number": 1}'},
    "claim": {"lease": 1, "holder": 1, "worker": "gone", "attempt": 1, "claimed_at": LONG_AGO_MS},
    "attempt": {"job_id": 1, "attempt": 1, "status": "failed", "claimed_at": LONG_AGO_MS},
    "event": {"job_id": 1, "at": LONG_AGO_MS, "event": "X"},
    "worker": {
        "name": "w",
        "host": "h",
        "pid": 1,
        "queues": "",
        "concurrency": 1,
        "version": "1",
        "lease_ms": 1000,
        "started_at": LONG_AGO_MS,
        "heartbeat_at": LONG_AGO_MS,
    },
    "step": {
        "job_id": 1,
        "position": 1,
        "attempt": 1,
        "started_at": LONG_AGO_MS,
        "kind": "wait",
        "name": "x",
        "status": "waiting",
    },
    "signal": {"job_id": 1, "name": "x"},
    "log": {"job_id": 1, "lease": 1, "attempt": 1, "at": LONG_AGO_MS, "lines": "[]"},
    "stream": {"job_id": 1, "number": 1, "part": 1, "bytes": 1, "name": "out", "value": "1"},
    "job_tag": {"tag": "t", "job_id": 1},
    "tally": {"at": LONG_AGO_MS, "queue": "q", "type": "note", "error_code": "", "attempt": 1, "jobs": 0},
    "total": {"status": "failed", "queue": "q", "type": "note", "error_code": "", "attempt": 1, "jobs": 0},
    "history": {"at": LONG_AGO_MS, "span_ms": 60_000, "queue": "q", "type": "note", "outcome": "failed", "jobs": 1},
    "setting": {"name": "retention of task s", "value": "1"},
    "blob_ref": {"digest": "d", "job_id": 1},
    "blob_pin": {"token": "t", "digest": "d", "reference": "r"},
    "blob": {"touched_at": LONG_AGO_MS, "digest": "d", "data": b"x"},
    "edge": {"blocker_id": 1, "job_id": 2, "position": 0},
    "slot": {"limit_key": '["api"]', "job_id": 1, "lease": 1},
    "start": {"limit_key": '["rated"]', "number": 1, "at": LONG_AGO_MS, "until": LONG_AGO_MS},
    "opening": {"limit_key": '["api"]', "opens_at": LONG_AGO_MS},
    "quota": {"name": "api"},
    "batch": {"created_at": LONG_AGO_MS, "name": "group"},
    "batch_tally": {"batch_id": 1, "jobs": 1},
    "limit_hold": {"limit_key": '["api"]', "held_at": LONG_AGO_MS, "until": LONG_AGO_MS, "job_id": 1},
    "breaker": {
        "limit_key": '["api"]',
        "opened_at": LONG_AGO_MS,
        "open_until": LONG_AGO_MS,
        "failed": 1,
        "outcomes": 1,
    },
    "outcome": {"at": LONG_AGO_MS, "failed": 1, "limit_key": '["api"]'},
    "audit": {"at": LONG_AGO_MS, "event": "LIMIT_SET", "subject": "api"},
    "pause": {"kind": "queue", "name": "other", "at": LONG_AGO_MS},
    "schedule": {
        "name": "s",
        "task": "note",
        "every_ms": 60_000,
        "next_run_at": LONG_AGO_MS,
    },
    "waiter": {"job_id": 1, "until": LONG_AGO_MS, "name": "w"},
}
ONLY_ON_A_SERVER = {"blob", "waiter"}
# no two rows can have the same value there
NAMES = {
    "worker": "name",
    "setting": "name",
    "schedule": "name",
    "quota": "name",
    "start": "number",
    "pause": "name",
    "step": "position",
}
JSON_COLUMNS = {
    "payload",
    "result",
    "tags",
    "limits",
    "held",
    "retry",
    "waits",
    "runs",
    "options",
    "value",
    "reference",
}
STATUSES = ("running", "failed", "succeeded", "blocked", "cancelled", "scheduled")

TEXTS: list[object] = ["", "text", "a\x1b[31m\nb", "x" * 201, "\U0010ffff", "_%", "*", "../..", "[", "61 25 * * *"]
JSON_TEXTS: list[object] = [
    *(nested(depth) for depth in (250, 900, 960, 5000)),
    *(f'{{"number": {nested(depth)}}}' for depth in (250, 900, 960, 5000)),
    f'[["k", "api", 1, null, null, {DEEP}]]',
    f'{{"kind": "constant", "base_seconds": 0, "more": {DEEP}}}',
    f"limit:{DEEP}",
    'limit:["api"]',
    "limit:",
    '["\\ud800"]',
    '{"number": "\\ud800"}',
    "{}",
    "[[1], null]",
    "[1e999]",
    '{"number": NaN}',
    "9" * 5000,
    f'{{"number": {"9" * 5000}}}',
    '[["k", "api", 0, 0, 0]]',
    '[["k", "k", null, 5, null]]',
    '[["k", "k", 1, null, null], ["k", "k", -1, 1, 1]]',
    '{"kind": "constant", "base_seconds": 1e999}',
    '{"kind": "linear", "base_seconds": -1e308}',
    '{"timeout_seconds": -1}',
    '{"delay_ms": 9007199254740992}',
    '{"expires_in_ms": -9007199254740992}',
    '{"tags": "text", "key": "a\\u0000b"}',
    '{"after": [[[1, false], null, null]], "chain_id": 1}',
    '{"unique": {"scope": "x"}, "key": "k"}',
    '{"__rowcall_blob__": 1}',
    '{"__rowcall_blob__": {"digest": "d", "size": 1}}',
    '{"1": -5, "x": 1}',
    '{"99999999999": 1}',
    '{"5": 99999999999999999999}',
]
SQLITE_VALUES: list[object] = [
    None,
    "a\0b",
    b"",
    b"ab",
    b"\xff\xfe",
    Raw("cast(x'ff41' as text)"),
    Raw("cast(x'eda080' as text)"),
    0,
    1,
    -1,
    1.5,
    2**31,
    2**53,
    2**62,
    2**63 - 1,
    -(2**63),
    float("inf"),
    float("-inf"),
    100_000_000_001,
    300_000_000_000_000,
]
POSTGRES_VALUES: list[object] = [
    None,
    "0",
    "1",
    "-1",
    "1.5",
    str(2**30 - 1),
    str(2**31 - 1),
    str(2**31),
    str(2**53),
    str(2**62 - 1),
    str(2**63 - 1),
    str(-(2**63)),
    "infinity",
    "-infinity",
    "NaN",
    "1e308",
    "-1e308",
    "294276-12-31 23:59:59+00",
    "4713-01-01 00:00:00+00 BC",
    "0001-01-01",
    "9999-12-31 23:59:59.9999",
    "1970-01-01",
    "\\x00ff",
    "true",
]


class Shell:
    """Plain SQL on one database."""

    def __init__(self, url: str, execute: Callable[[str, list[object]], list[tuple[object, ...]]]) -> None:
        self.url = url
        self.execute = execute
        self.is_sqlite = url.startswith("sqlite")
        self._numbers = itertools.count()

    def columns_of(self, table: str) -> list[str]:
        if self.is_sqlite:
            return [str(row[1]) for row in self.execute(f"pragma table_info(rowcall_{table})", [])]
        asked = "select column_name from information_schema.columns where table_name = %s order by ordinal_position"
        return [str(row[0]) for row in self.execute(asked, [f"rowcall_{table}"])]

    def odd_values(self, column: str) -> list[object]:
        values = SQLITE_VALUES if self.is_sqlite else POSTGRES_VALUES
        if column == "every_ms":  # each millisecond is odd, too, but valid: nothing would ever be idle
            values = [value for value in values if value not in (1, "1")]
        return [*values, *TEXTS, *(JSON_TEXTS if column in JSON_COLUMNS else [])]

    def insert(self, table: str, row: dict[str, object]) -> bool:
        """Return whether the database took the row."""
        if not self.is_sqlite:
            row = {name: LONG_AGO if value == LONG_AGO_MS else value for name, value in row.items()}
        marks = [value if isinstance(value, Raw) else "?" if self.is_sqlite else "%s" for value in row.values()]
        given = [value for value in row.values() if not isinstance(value, Raw)]
        try:
            self.execute(f"insert into rowcall_{table} ({', '.join(row)}) values ({', '.join(marks)})", given)
        except (sqlite3.Error, psycopg.Error, OverflowError):
            return False
        return True

    def insert_odd(self, table: str, column: str, value: object) -> None:
        """Insert rows that have the value in that column, and are else as they should be."""
        if (table, column, value) == ("pause", "name", "*"):  # valid: nothing would run
            return
        number = next(self._numbers)
        row = dict(ROWS[table])
        if table in NAMES and number:
            row[NAMES[table]] = number + 1 if NAMES[table] in ("number", "position") else f"{row[NAMES[table]]}{number}"
        if table == "job":
            status = STATUSES[number % len(STATUSES)]
            ended = {"finished_at": LONG_AGO_MS} if status in ("failed", "succeeded", "cancelled") else {}
            kind = ("fail", "slow", "limited", "by_value")[number % 4] if column != "timeout" else "fail"
            self.insert(table, {"status": "pending", **row, "type": kind, column: value})
            self.insert(table, {"status": status, **ended, "worker": "gone", **row, column: value})
            row["status"] = "pending"
        if table == "claim":
            for of_hand in ({}, {"lease_ms": 1000, "lease_until": LONG_AGO_MS}):
                self._insert_claim({**row, **of_hand, column: value})
            return
        self.insert(table, {**row, column: value})

    def _insert_claim(self, row: dict[str, object]) -> None:
        """Insert a job, and its claim."""
        self.insert("job", {**ROWS["job"], "status": "pending"})
        ((job_id,),) = self.execute("select max(id) from rowcall_job", [])
        if self.insert("claim", {"job_id": job_id, **row}):
            self.execute(f"delete from rowcall_ready where id = {job_id}", [])

    def insert_ended_jobs(self) -> None:
        for _ in range(2):
            self.insert("job", {"type": "old", "status": "failed", "finished_at": LONG_AGO_MS})


@contextlib.contextmanager
def sqlite_shell(path: Path) -> Iterator[Shell]:
    with Rowcall(path) as jobs:
        jobs.migrate()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma synchronous = off")
        yield Shell(f"sqlite:///{path}", lambda sql, given: connection.execute(sql, given).fetchall())


@contextlib.contextmanager
def postgres_shell(server_url: str) -> Iterator[Shell]:
    def execute(sql: str, given: list[object]) -> list[tuple[object, ...]]:
        cursor = connection.execute(sql.encode(), given)
        return cursor.fetchall() if cursor.description else []

    with database_with_tables(server_url) as url, connected(url) as connection:
        connection.execute("set synchronous_commit = off")
        yield Shell(url, execute)


TASKS = ("note", "limited", "by_value", "rated", "last")


def declare(jobs: Rowcall) -> None:
    @jobs.task(timeout=30)
    def note(number: int = 1) -> int:
        return number

    @jobs.task(max_attempts=2)
    def fail(number: int = 1) -> None:
        raise ValueError("no")

    @jobs.task(timeout=0.01, max_attempts=1)
    async def slow(number: int = 1) -> None:
        await asyncio.Event().wait()

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


def enqueue_good(jobs: Rowcall) -> list[int]:
    """Behind all others, so that nothing odd is left when they have run."""
    return [jobs.enqueue(task, {"number": 7}, priority=-(2**31)).id for task in TASKS]


def statuses_of(jobs: Rowcall, job_ids: Iterable[int]) -> set[str]:
    return {str(jobs.get(job_id).status) for job_id in job_ids}


def look_at_everything(jobs: Rowcall) -> None:
    found: list[Job] = []
    cursor: str | None = None
    while not found or cursor is not None:
        page = jobs.list(limit=500, cursor=cursor)
        found += page.jobs
        cursor = page.next_cursor
    for status in (*STATUSES, "pending"):
        jobs.list(status=status)
    jobs.list(queue="default")
    jobs.list(type="note", tag="t")
    for job in found[:: 1 + len(found) // 40]:
        jobs.get(job.id)
        jobs.attempts(job.id)
        jobs.timeline(job.id)
        jobs.steps(job.id)
        jobs.blockers(job.id)
        jobs.dependents(job.id)
        jobs.why(job.id)
    for job in found[:40]:
        with contextlib.suppress(RowcallError, TimeoutError):
            jobs.result(job, timeout=0)
        with contextlib.suppress(RowcallError):
            jobs.stack(job, timeout=0)
        with contextlib.suppress(RowcallError):
            jobs.chain(job.chain_id or job.id)
    jobs.stats()
    jobs.stuck()
    jobs.retries()
    jobs.top_errors()
    jobs.failing()
    jobs.retention()
    jobs.workers()
    jobs.paused()
    jobs.schedules()
    jobs.list_chains()


COMMANDS = (
    "jobs",
    "stats",
    "stuck",
    "errors",
    "retries",
    "workers",
    "schedules",
    "retention",
    "doctor",
    "top",
    "show 1",
)


def run_all_commands(url: str) -> None:
    for command in COMMANDS:
        for words in (command.split(), [*command.split(), "--json"]):
            outcome = CliRunner().invoke(main, [*words, "--url", url])
            if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
                raise AssertionError(f"rowcall {' '.join(words)}") from outcome.exception


def claim_all(jobs: Rowcall) -> None:
    while claimed := jobs.claim("hand", limit=100):
        for job in claimed:
            jobs.complete(job)


def steer(jobs: Rowcall) -> None:
    """Each call answers, or says what is wrong."""
    calls: list[Callable[[], object]] = [
        lambda: jobs.cancel(type="note", status="blocked"),
        lambda: jobs.cancel(type="note"),
        lambda: jobs.retry(type="note"),
        lambda: jobs.retry(error_code="*"),
        lambda: jobs.retry(type="note", status="succeeded"),
        lambda: jobs.cancel(queue="default"),
        lambda: jobs.prune(),
        lambda: jobs.recount(),
    ]
    for call in calls:
        with contextlib.suppress(RowcallError):
            call()


def live_with(shell: Shell, *, commands: bool = True) -> None:
    """Good jobs run next to what is there, by a worker and by hand, and all calls answer."""
    with Rowcall(shell.url) as jobs:
        declare(jobs)
        look_at_everything(jobs)
        good = enqueue_good(jobs)
        jobs.drain(concurrency=2)
        assert statuses_of(jobs, good) == {"succeeded"}
        look_at_everything(jobs)
        if commands:
            run_all_commands(shell.url)
        steer(jobs)
        good = enqueue_good(jobs)
        claim_all(jobs)
        assert statuses_of(jobs, good) == {"succeeded"}
        steer(jobs)
        look_at_everything(jobs)
