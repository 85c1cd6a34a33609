"""Databases on a PostgreSQL server that is there already: new ones, dropped ones, and cut connections."""

from __future__ import annotations

import re
import uuid
from contextlib import closing

from rowcall.testing.deadline import eventually

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


class Databases:
    """Creates and drops databases on the server that a URL names, over one connection."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._connection: psycopg.Connection | None = None

    def create(self, name: str | None = None, *, template: str = "template0") -> str:
        """Create a database, and return its URL.

        It is empty, or a copy of the database `template`, to which no client may be connected.
        """
        name = name or f"rowcall_{uuid.uuid4().hex[:16]}"
        statement = sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
        connection = self._connected()
        if connection.info.server_version >= FILE_COPY_SINCE:
            statement += sql.SQL(" strategy file_copy")
        connection.execute(statement)
        return with_database(self._server_url, name)

    def drop(self, name: str) -> None:
        """Drop a database, even if clients are connected to it. A missing database is not an error."""
        self._connected().execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _connected(self) -> psycopg.Connection:
        try:
            if self._connection is not None:
                self._connection.execute("select")
        except psycopg.OperationalError:  # a test may have cut it off
            self._connection = None
        if self._connection is None:
            self._connection = psycopg.connect(self._server_url, autocommit=True)
        return self._connection


def create_database(server_url: str, name: str | None = None, *, template: str = "template0") -> str:
    """Create a database on the server that the URL names, and return its URL. See `Databases.create`."""
    with closing(Databases(server_url)) as databases:
        return databases.create(name, template=template)


def drop_database(server_url: str, name: str) -> None:
    """Drop a database. See `Databases.drop`."""
    with closing(Databases(server_url)) as databases:
        databases.drop(name)


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
