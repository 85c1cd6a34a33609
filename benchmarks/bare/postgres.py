"""The least a queue in PostgreSQL must do: claim and settle in groups by one statement each, in one transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import psycopg

from benchmarks.noop import ARGUMENTS, MANY

GROUP = 300
PAYLOAD = json.dumps(ARGUMENTS)

TABLE = """
create table bare_job (
  id bigint generated always as identity primary key,
  queue text not null default 'default',
  type text not null,
  payload jsonb not null,
  status text not null,
  priority integer not null default 0,
  attempt integer not null default 0,
  max_attempts integer not null default 5,
  lease integer not null default 0,
  run_at timestamptz not null,
  created_at timestamptz not null,
  claimed_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  worker text,
  error_code text,
  error_detail text,
  result jsonb
);
create index bare_ready on bare_job (queue, priority desc, id) where status = 'pending';
create index bare_due on bare_job (run_at) where status = 'scheduled';
create index bare_owned on bare_job (worker) where status = 'running';
"""

INSERT = """
insert into bare_job (type, payload, status, run_at, created_at)
values ('noop', $1::text::jsonb, 'pending', clock_timestamp(), clock_timestamp())
"""

INSERT_MANY = """
insert into bare_job (type, payload, status, run_at, created_at)
select 'noop', given.payload::jsonb, 'pending', clock_timestamp(), clock_timestamp()
from unnest($1::text[]) as given (payload)
"""

CLAIM = """
update bare_job
set status = 'running', attempt = attempt + 1, lease = lease + 1, worker = 'w',
    claimed_at = clock_timestamp(), started_at = clock_timestamp()
where id = any(array(
  select id from bare_job where status = 'pending' and queue = 'default'
  order by priority desc, id limit $1
  for update skip locked
))
returning id, type, payload::text, attempt, lease
"""

SETTLE = """
update bare_job
set status = 'succeeded', finished_at = clock_timestamp(), lease = bare_job.lease + 1
from unnest($1::bigint[], $2::int[]) as done (id, lease)
where bare_job.id = done.id and bare_job.lease = done.lease
returning bare_job.id
"""


class BarePostgres:
    def __init__(self, url: str) -> None:
        self._database = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor)

    def create(self) -> None:
        for statement in filter(str.strip, TABLE.split(";")):
            self._database.execute(statement.encode())

    def insert_singly(self, count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            self._database.execute(INSERT, (PAYLOAD,), prepare=True)
        return time.perf_counter() - began

    def insert_many(self, count: int) -> float:
        began = time.perf_counter()
        for start in range(0, count, MANY):
            self._database.execute(INSERT_MANY, ([PAYLOAD] * min(MANY, count - start),))
        return time.perf_counter() - began

    def drain(self, count: Callable[[int], None]) -> None:
        """Claim and settle until nothing is left, in groups of 300; says how many after each commit."""
        cursor = self._database.cursor(binary=True)
        held: list[tuple[int, str, str, int, int]] = []
        while True:
            settled = 0
            with self._database.transaction():
                if held:
                    cursor.execute(SETTLE, ([job[0] for job in held], [job[4] for job in held]), prepare=True)
                    settled = len(cursor.fetchall())
                held = cursor.execute(CLAIM, (GROUP,), prepare=True).fetchall()
            count(settled)
            if not held:
                return

    def close(self) -> None:
        self._database.close()
