"""Large tables, made quickly: rows by plain SQL, in one transaction, indexes last."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.app import ARGUMENTS, open_app

DAY_MS = 86_400_000


def make_queue(path: Path) -> None:
    """An empty queue, as Rowcall makes it."""
    jobs = open_app(path).jobs
    jobs.migrate()
    jobs.close()


class Filler:
    """Inserts rows into the jobs' table."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._now_ms = time.time_ns() // 1_000_000

    def waiting(self, count: int, kind: str, *, priority: int = 0) -> range:
        """Jobs that may run now; gives their ids."""
        return self._insert(count, {"type": kind, "status": "pending", "priority": priority})

    def future(self, count: int, kind: str, *, priority: int) -> None:
        """Jobs that are due tomorrow, each a millisecond after the other."""
        tomorrow = f"{self._now_ms + DAY_MS} + value"
        self._insert(count, {"type": kind, "status": "scheduled", "priority": priority}, run_at=tomorrow)

    def finished(self, count: int, kind: str) -> None:
        """Jobs that succeeded an hour ago."""
        then = self._now_ms - 3_600_000
        columns = {
            "type": kind,
            "status": "succeeded",
            "attempt": 1,
            "lease": 2,
            "worker": "long:gone:1",
            "claimed_at": then,
            "started_at": then,
            "finished_at": then + 5,
        }
        self._insert(count, columns)

    def _insert(self, count: int, columns: Mapping[str, object], *, run_at: str = "") -> range:
        values = {"payload": json.dumps(ARGUMENTS), "created_at": self._now_ms - DAY_MS, **columns}
        names = ", ".join([*values, "run_at"])
        marks = ", ".join(["?"] * len(values))
        before = self._last_id()
        self._database.execute(
            "with recursive counter (value) as (select 1 union all select value + 1 from counter where value < ?)"
            f" insert into rowcall_job ({names}) select {marks}, {run_at or self._now_ms - DAY_MS} from counter",
            (count, *values.values()),
        )
        return range(before + 1, self._last_id() + 1)

    def _last_id(self) -> int:
        last: int | None = self._database.execute("select max(id) from rowcall_job").fetchone()[0]
        return last or 0


@contextmanager
def filling(path: Path, *, indexes_last: bool = True) -> Iterator[Filler]:
    """Fill a queue's file. Not durable meanwhile; all of it is on disk at the end."""
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("pragma synchronous = off")
        database.execute("pragma cache_size = -400000")
        database.execute("begin immediate")
        indexes = database.execute(
            "select name, sql from sqlite_master where type = 'index' and tbl_name = 'rowcall_job' and sql is not null"
        ).fetchall()
        if indexes_last:
            for name, _ in indexes:
                database.execute(f"drop index {name}")
        yield Filler(database)
        if indexes_last:
            for _, sql in indexes:
                database.execute(sql)
        database.execute("commit")
        database.execute("pragma synchronous = full")
        database.execute("pragma wal_checkpoint(truncate)")
    finally:
        database.close()


def refill(path: Path, kind: str, count: int, *, priority: int) -> None:
    """Put back what was taken, so that `count` jobs of this task and priority wait again."""
    with closing(sqlite3.connect(path)) as database:
        query = "select count(*) from rowcall_job where status = 'pending' and type = ? and priority = ?"
        waiting: int = database.execute(query, (kind, priority)).fetchone()[0]
    if waiting < count:
        with filling(path, indexes_last=False) as fill:
            fill.waiting(count - waiting, kind, priority=priority)
