"""Databases on a PostgreSQL server that is there already: new ones, dropped ones, and cut connections."""

from __future__ import annotations

import re
import uuid

from rowcall.testing.waiting import eventually

try:
    import psycopg
    from psycopg import sql
except ImportError as error:
    raise ImportError("PostgreSQL needs psycopg: pip install 'rowcall[postgres]'") from error

URL = re.compile(r"(?P<server>postgres(?:ql)?://[^/?#]*)(?:/(?P<database>[^?#]*))?(?P<options>.*)")
# 15 and newer: twice as quick as the other way, which writes the copy to the log; older ones know nothing else
FILE_COPY_SINCE = 150_000


def with_database(url: str, database: str) -> str:
    """The URL of another database on the same server.

    >>> with_database("postgresql://me@host:5432/postgres?sslmode=disable", "jobs")
    'postgresql://me@host:5432/jobs?sslmode=disable'
    """
    parts = _parts(url)
    return f"{parts['server']}/{database}{parts['options']}"


def database_of(url: str) -> str:
    """The database that a URL names, or nothing.

    >>> database_of("postgresql://me@/jobs?host=/tmp")
    'jobs'
    """
    return _parts(url)["database"] or ""


def create_database(server_url: str, name: str | None = None, *, template: str = "template0") -> str:
    """Create a database on the server that the URL names, and return its URL.

    It is empty, or a copy of the database `template`, to which no client may be connected.
    """
    name = name or f"rowcall_{uuid.uuid4().hex[:16]}"
    statement = sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
    with psycopg.connect(server_url, autocommit=True) as connection:
        if connection.info.server_version >= FILE_COPY_SINCE:
            statement += sql.SQL(" strategy file_copy")
        connection.execute(statement)
    return with_database(server_url, name)


def drop_database(server_url: str, name: str) -> None:
    """Drop a database, even if clients are connected to it. A missing database is not an error."""
    statement = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement)


def terminate_connections(server_url: str, database: str | None = None, *, at_most: int | None = None) -> int:
    """Cut clients off with `pg_terminate_backend`: all of a database or of the server, or some, picked at random.

    Return how many were cut. Each is gone when this returns.
    """
    with psycopg.connect(server_url, autocommit=True) as connection:
        rows = connection.execute(
            """
            select pid, pg_terminate_backend(pid) from (
                select pid from pg_stat_activity
                where backend_type = 'client backend' and pid <> pg_backend_pid()
                  and (%(database)s::text is null or datname = %(database)s)
                order by random() limit %(at_most)s
            ) as chosen
            """,
            {"database": database, "at_most": at_most},
        ).fetchall()
        cut = [pid for pid, was_there in rows if was_there]

        def gone() -> bool:
            return not connection.execute("select from pg_stat_activity where pid = any(%s)", [cut]).fetchall()

        eventually(gone, message="the end of the connections")
    return len(cut)


def _parts(url: str) -> dict[str, str | None]:
    match = URL.fullmatch(url)
    if match is None:
        raise ValueError(f"must be a URL such as postgresql://…, got {url!r}")
    return match.groupdict()
