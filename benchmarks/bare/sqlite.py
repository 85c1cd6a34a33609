"""The least a queue in SQLite must do."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

from benchmarks.noop import ARGUMENTS, MANY

GROUP = 500
ROW = (json.dumps(ARGUMENTS), 0, 0)

TABLE = """
create table bare_job (
  id integer primary key autoincrement,
  queue text not null default 'default',
  type text not null,
  payload text not null,
  status text not null,
  priority integer not null default 0,
  attempt integer not null default 0,
  max_attempts integer not null default 5,
  lease integer not null default 0,
  run_at integer not null,
  created_at integer not null,
  claimed_at integer,
  started_at integer,
  finished_at integer,
  worker text,
  error_code text,
  error_detail text,
  result text
);
create index bare_ready on bare_job (queue, priority desc, id) where status = 'pending';
create index bare_due on bare_job (run_at) where status = 'scheduled';
create index bare_owned on bare_job (worker) where status = 'running';
"""

INSERT = "insert into bare_job (type, payload, status, run_at, created_at) values ('noop', ?, 'pending', ?, ?)"

SETTLE = "update bare_job set status = 'succeeded', finished_at = ?, lease = lease + 1 where id = ? and lease = ?"

CLAIM = """
update bare_job
set status = 'running', attempt = attempt + 1, lease = lease + 1, worker = 'w', claimed_at = ?, started_at = ?
where id in (
  select id from bare_job where status = 'pending' and queue = 'default' order by priority desc, id limit ?
)
returning id, type, payload, attempt, lease
"""


class BareSqlite:
    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, cached_statements=256)
        for pragma in ("journal_mode=wal", "synchronous=full", "foreign_keys=on"):
            self._database.execute(f"pragma {pragma}")
        self._database.executescript(TABLE)

    def insert_singly(self, count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            self._database.execute(INSERT, ROW)
        return time.perf_counter() - began

    def insert_many(self, count: int) -> float:
        began = time.perf_counter()
        for start in range(0, count, MANY):
            self._database.execute("begin immediate")
            self._database.executemany(INSERT, [ROW] * min(MANY, count - start))
            self._database.execute("commit")
        return time.perf_counter() - began

    def drain(self) -> float:
        """Jobs per second, each claimed and settled, in groups of 500."""
        began = time.perf_counter()
        done = 0
        held: list[tuple[int, str, str, int, int]] = []
        while True:
            now = time.time_ns() // 1_000_000
            self._database.execute("begin immediate")
            self._database.executemany(SETTLE, [(now, job[0], job[4]) for job in held])
            done += len(held)
            held = self._database.execute(CLAIM, (now, now, GROUP)).fetchall()
            self._database.execute("commit")
            if not held:
                return done / (time.perf_counter() - began)

    def close(self) -> None:
        self._database.close()
