"""A foreign process of `rowcall torture`: on each line of its input it locks something, and holds it for a while.

A line names the lock, or `snapshot`, and the seconds. It uses no code of Rowcall's drivers.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.domain.config import Server, ServerKind, database_of
from rowcall.torture.workload import PREFIX

PATIENCE_SECONDS = 10.0
DONE, BUSY = "done", "busy"
SQLITE = {
    "file": ("begin immediate",),
    "snapshot": ("begin", "select count(*) from {prefix}migration"),
}
POSTGRES = {
    "table": ("begin", "lock table {prefix}job in access exclusive mode"),
    "rows": ("begin", "select id from {prefix}job where status = 'pending' order by id limit 200 for update"),
    "claims": ("begin", "select job_id from {prefix}claim limit 100 for update"),
    "snapshot": ("begin isolation level repeatable read", "select count(*) from {prefix}migration"),
}
MYSQL = {
    "table": ("lock tables {prefix}job write",),
    "rows": ("begin", "select id from {prefix}job where status = 'pending' order by id limit 200 for update"),
    "claims": ("begin", "select job_id from {prefix}claim limit 100 for update"),
    "snapshot": (
        "set transaction isolation level repeatable read",
        "start transaction with consistent snapshot",
        "select count(*) from {prefix}migration",
    ),
}
Run = Callable[[str], object]


class Away(Exception):
    """The database is away, or a lock was not to be had."""


def hold(lock: str, seconds: float) -> str:
    """Hold the lock. Return how it went: the database may be busy, or away."""
    database = database_of(os.environ["ROWCALL_URL"])
    locks, opened = ON_SERVER[database.kind] if isinstance(database, Server) else (SQLITE, _in_file)
    with suppress(Away), opened(database.url if isinstance(database, Server) else database) as run:
        for statement in locks[lock]:
            run(statement.format(prefix=os.environ[PREFIX]))
        SYSTEM_CLOCK.sleep(seconds)
        return DONE
    return BUSY


@contextmanager
def _in_file(path: str) -> Iterator[Run]:
    try:
        with closing(sqlite3.connect(path, timeout=PATIENCE_SECONDS, isolation_level=None)) as connection:
            yield lambda statement: connection.execute(statement).fetchall()
    except sqlite3.Error as error:
        raise Away from error


@contextmanager
def _on_postgres(url: str) -> Iterator[Run]:
    import psycopg

    try:
        with closing(psycopg.connect(url, autocommit=True)) as session:
            session.execute(f"set lock_timeout = '{PATIENCE_SECONDS:g}s'")
            yield lambda statement: session.execute(statement.encode())
    except psycopg.Error as error:
        raise Away from error


@contextmanager
def _on_mysql(url: str) -> Iterator[Run]:
    import pymysql

    from rowcall.drivers.mysql.connection import options_of

    try:
        with closing(pymysql.connect(**options_of(url), autocommit=True)) as client, client.cursor() as cursor:
            for name in ("lock_wait_timeout", "innodb_lock_wait_timeout"):
                cursor.execute(f"set {name} = {PATIENCE_SECONDS:g}")
            yield cursor.execute
    except pymysql.MySQLError as error:
        raise Away from error


Opened = Callable[[str], AbstractContextManager[Run]]
ON_SERVER: Mapping[ServerKind, tuple[Mapping[str, Sequence[str]], Opened]] = {
    "postgresql": (POSTGRES, _on_postgres),
    "mysql": (MYSQL, _on_mysql),
}


if __name__ == "__main__":
    for line in sys.stdin:
        name, held_seconds = line.split()
        print(hold(name, float(held_seconds)), flush=True)
