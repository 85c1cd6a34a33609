"""PostgreSQL databases with the tables of one prefix: empty, or full of all kinds of jobs."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator

import psycopg
from psycopg import sql

from rowcall import Rowcall
from rowcall.testing.postgres_database import create_database, database_of, drop_database, with_database

PREFIX = "rowcall_"
SCALE = int(os.environ.get("ROWCALL_TEST_PLAN_SCALE", "1"))
FINISHED, SCHEDULED, PENDING, RUNNING = (SCALE * count for count in (80_000, 40_000, 20_000, 2_000))
WORKERS = 4


@contextlib.contextmanager
def migrated(url: str, prefix: str = PREFIX) -> Iterator[psycopg.Connection]:
    """A plain connection, as an app or a shell has it, to a database with our tables."""
    with Rowcall(url, table_prefix=prefix) as jobs:
        jobs.migrate()
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@contextlib.contextmanager
def fresh_database(server_url: str, copy_of: str | None = None) -> Iterator[str]:
    """The URL of a database for longer than one test: empty, or a copy of one without connections."""
    url = create_database(server_url) if copy_of is None else _copy(server_url, copy_of)
    try:
        yield url
    finally:
        drop_database(server_url, database_of(url))


def _copy(server_url: str, source: str) -> str:
    name = f"{database_of(source)}_{uuid.uuid4().hex[:8]}"
    statement = sql.SQL("create database {} template {}")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(database_of(source))))
    return with_database(server_url, name)


def fill(connection: psycopg.Connection, share: float = 1.0) -> None:
    """Jobs in the order in which a long life leaves them: the finished first, then pending jobs, then running ones.

    The running ones have a claim, one of ten by hand.
    """
    finished, scheduled, pending, running = (round(count * share) for count in (FINISHED, SCHEDULED, PENDING, RUNNING))
    counts = {
        "finished": finished,
        "scheduled": scheduled,
        "waiting": finished + scheduled + pending,
        "all": finished + scheduled + pending + running,
        "workers": WORKERS,
    }
    connection.execute(
        """
        insert into rowcall_job (type, queue, status, priority, run_at, expires_at, lease, attempt, claimed_at,
                                 started_at, finished_at, worker)
        select 'type' || n % 5, (array['default', 'mail', 'media'])[1 + n % 3],
               case when done then (array['succeeded', 'succeeded', 'succeeded', 'failed', 'cancelled'])[1 + n % 5]
                    when n > %(finished)s + %(scheduled)s then 'pending' else 'scheduled' end,
               n % 11, now() + (n - %(finished)s - %(scheduled)s / 2) * interval '1 second',
               case when not done and n % 20 = 0 then now() + (n - %(finished)s) * interval '1 second' end,
               case when done then 2 else 0 end, case when done then 1 else 0 end,
               case when done then now() end, case when done then now() end, case when done then now() end,
               case when done then 'worker' || n % %(workers)s end
        from (select n, n <= %(finished)s as done from generate_series(1, %(all)s) as n) as job
        """.replace(" % ", " %% "),
        counts,
    )
    connection.execute(
        """
        insert into rowcall_claim (job_id, lease, holder, worker, attempt, claimed_at, started_at, lease_until,
                                   lease_ms)
        select n, 1, n % %(workers)s, 'worker' || n % %(workers)s, 1, now(), now(),
               case when n % 10 = 0 then now() end, case when n % 10 = 0 then 15000 end
        from generate_series(%(waiting)s + 1, %(all)s) as n
        """.replace(" % ", " %% "),
        counts,
    )
    connection.execute("delete from rowcall_ready where id = any (array(select job_id from rowcall_claim))")
    connection.execute(
        """
        insert into rowcall_worker (name, host, pid, queues, concurrency, version, lease_ms, started_at, heartbeat_at)
        select 'worker' || n, 'host', n, '', 10, '1', 15000, now(), now() from generate_series(1, %s) as n
        """,
        [WORKERS - 1],  # of the first one nothing is known any more
    )
