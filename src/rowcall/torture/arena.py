"""The database of a torture run, as a reader apart from Rowcall sees it: plain connections and plain SQL."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from rowcall.app import queue_of
from rowcall.domain.config import ServerKind
from rowcall.domain.errors import InvalidOption, StoreUnavailable
from rowcall.operations.scratch_tables import drop_tables
from rowcall.torture.workload import opened

BUSY_SECONDS = 20.0
LOOKS = 10
_KINDS = ("view", "trigger", "table")  # a view first: it names tables


class Arena(Protocol):
    """A database, and the prefix of the run's tables in it."""

    kind: str
    name: str
    url: str
    prefix: str

    def version(self) -> str: ...

    def tables(self) -> list[str]:
        """Return the names of all tables with the prefix."""

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query; `<name>` in it is a table."""

    def is_free(self) -> bool:
        """Return whether others can write while a process is stopped."""

    def remove(self) -> None:
        """Remove all that the run has created."""


def arena_of(url: str, prefix: str) -> Arena:
    """Return it, or raise what is wrong with the URL, the prefix or the database."""
    with opened(url, prefix) as jobs:
        queue = queue_of(jobs)
        if queue.config.server is None:
            if queue.config.in_memory:
                raise InvalidOption("url", "names a queue in memory, which no other process can use")
            return SqliteArena(queue.config.path, prefix)
        queue.database.read(queue.dialect.version(), snapshot=True)  # a server that is away is reported as everywhere
        return SERVERS[queue.config.server.kind](url, queue.database.name, prefix)


class SqliteArena:
    kind = "SQLite"

    def __init__(self, path: str, prefix: str) -> None:
        self.path = self.name = os.path.realpath(path)
        self.url = f"sqlite:///{quote(self.path)}"
        self.prefix = prefix
        self._had_file = os.path.exists(self.path)
        self._side_folder = Path(f"{self.path}-rowcall")
        self._had_side_folder = self._side_folder.exists()
        folder = os.path.dirname(self.path)
        if not os.access(folder, os.W_OK) or (self._had_file and not os.access(self.path, os.W_OK)):
            raise StoreUnavailable(f"{self.path} cannot be written", "Name a file in a folder that you may write")

    def version(self) -> str:
        return sqlite3.sqlite_version

    def tables(self) -> list[str]:
        return [name for _, name in self._named()] if os.path.exists(self.path) else []

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        with self._connected() as connection:
            yield from connection.execute(with_tables(sql, self.prefix))

    def is_free(self) -> bool:
        with self._connected(timeout=0.0) as connection:
            for _ in range(LOOKS):  # another process may be writing just now
                with contextlib.suppress(sqlite3.OperationalError):
                    connection.execute("begin immediate")
                    connection.execute("rollback")
                    return True
        return False

    def checkpoint(self) -> None:
        with self._connected(timeout=0.1) as connection, contextlib.suppress(sqlite3.OperationalError):
            connection.execute("pragma wal_checkpoint(truncate)")

    def remove(self) -> None:
        if not self._had_file:
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        elif os.path.exists(self.path):
            self._drop()
        if not self._had_side_folder:
            shutil.rmtree(self._side_folder, ignore_errors=True)

    def _drop(self) -> None:
        with self._connected() as connection:
            connection.execute("pragma foreign_keys = off")
            connection.execute("begin immediate")
            for kind, name in self._named():
                connection.execute(f"drop {kind} if exists {name}")
            connection.execute("commit")
            connection.execute("pragma incremental_vacuum").fetchall()

    def _named(self) -> list[tuple[str, str]]:
        with self._connected() as connection:
            found = connection.execute("select type, name from sqlite_master where type <> 'index'").fetchall()
        named = [(kind, name) for kind, name in found if name.startswith(self.prefix)]
        return sorted(named, key=lambda row: _KINDS.index(row[0]))

    @contextlib.contextmanager
    def _connected(self, timeout: float = BUSY_SECONDS) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(sqlite3.connect(self.path, timeout=timeout, isolation_level=None)) as connection:
                yield connection
        except sqlite3.DatabaseError as error:
            raise StoreUnavailable(f"{self.path}: {error}", "Check the file") from error


class ServerArena(ABC):
    """Addresses of a server are hosts with their ports, or paths of sockets."""

    kind: str

    def __init__(self, url: str, name: str, prefix: str) -> None:
        self.url, self.name, self.prefix = url, name, prefix

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def tables(self) -> list[str]: ...

    @abstractmethod
    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]: ...

    @abstractmethod
    def addresses(self) -> list[tuple[str, int] | str]: ...

    @abstractmethod
    def url_at(self, port: int) -> str:
        """Return the URL with a port of this machine instead of the server's address."""

    def is_free(self) -> bool:
        return True  # the locks of one transaction do not keep others from other rows

    def remove(self) -> None:
        with opened(self.url, self.prefix) as jobs:
            drop_tables(queue_of(jobs))


class PostgresArena(ServerArena):
    kind = "PostgreSQL"

    def version(self) -> str:
        return str(next(self.rows("show server_version"))[0]).split()[0]

    def tables(self) -> list[str]:
        named = """
            select relname from pg_class
            where relkind in ('r', 'v') and relnamespace = current_schema()::regnamespace and starts_with(relname, '<>')
            """
        return [name for (name,) in self.rows(named.replace("<>", self.prefix))]

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.url) as connection, connection.cursor("torture") as cursor:
            cursor.itersize = 10_000
            if sql.startswith("show"):
                yield from connection.execute(sql.encode()).fetchall()
                return
            cursor.execute(with_tables(sql, self.prefix).encode())
            yield from cursor

    def addresses(self) -> list[tuple[str, int] | str]:
        parts = self._parts()
        hosts = parts.get("hostaddr", parts.get("host", "localhost")).split(",")
        given = parts.get("port", "").split(",")
        ports = [given[number if number < len(given) else 0] or "5432" for number, _ in enumerate(hosts)]
        return [
            f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host or "localhost", int(port))
            for host, port in zip(hosts, ports, strict=True)
        ]

    def url_at(self, port: int) -> str:
        """The name of the host stays, as a certificate is checked against it."""
        parts = {**self._parts(), "hostaddr": "127.0.0.1", "port": str(port)}
        host = parts.pop("host", "").split(",")[0]
        parts["host"] = "127.0.0.1" if not host or host.startswith(("/", "@")) else host
        return f"postgresql://?{urlencode(parts, quote_via=quote)}"

    def _parts(self) -> dict[str, str]:
        from psycopg.conninfo import conninfo_to_dict

        return {key: str(value) for key, value in conninfo_to_dict(self.url).items() if value is not None}


class MysqlArena(ServerArena):
    kind = "MariaDB or MySQL"

    def version(self) -> str:
        return str(next(self.rows("select version()"))[0])

    def tables(self) -> list[str]:
        named = """
            select table_name from information_schema.tables
            where table_schema = database() and left(table_name, char_length('<>')) = '<>'
            """
        return [name for (name,) in self.rows(named.replace("<>", self.prefix))]

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        import pymysql
        from pymysql.cursors import SSCursor

        from rowcall.drivers.mysql.connection import options_of

        connection = pymysql.connect(**options_of(self.url), cursorclass=SSCursor)
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(with_tables(sql, self.prefix))
            yield from cursor

    def addresses(self) -> list[tuple[str, int] | str]:
        parts = urlsplit(self.url)
        socket = dict(parse_qsl(parts.query)).get("unix_socket")
        return [socket or (unquote(parts.hostname or "localhost"), parts.port or 3306)]

    def url_at(self, port: int) -> str:
        parts = urlsplit(self.url)
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        kept = [(name, value) for name, value in parse_qsl(parts.query) if name != "unix_socket"]
        return urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{port}", query=urlencode(kept)))


SERVERS: Mapping[ServerKind, type[ServerArena]] = {"postgresql": PostgresArena, "mysql": MysqlArena}


def with_tables(sql: str, prefix: str) -> str:
    """
    >>> with_tables("select id from <job> where id < 3 and status <> ''", "p_")
    "select id from p_job where id < 3 and status <> ''"
    """
    return re.sub(r"<(\w+)>", rf"{prefix}\1", sql)
