"""The databases for a page: the file that it names, or a server instead."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

import psycopg
import pymysql
from psycopg.conninfo import conninfo_to_dict

from rowcall import Rowcall
from rowcall.drivers.mysql.connection import options_of
from rowcall.testing.postgres_database import database_of
from tests.docs.pages import Block

# what pages call the file, the server and the pooler in front of it
_FILE = re.compile(r"sqlite:///(?:app|test)\.db")
_SERVER = re.compile(
    r"postgresql://(?P<user>\w+)(?::(?P<password>\w+))?@(?P<host>db-1(?:,db-2)?|pooler-1:6432)/shop(?P<more>\?)?"
)
_ENGINE = re.compile(r'(create_engine|create_async_engine)\("sqlite(?:\+aiosqlite)?:///app\.db"')
_DJANGO = '"HOST": "db-1", "USER": "ann", "NAME": "shop"'
_MARIADB = "mysql://ann@db-1/shop"
_MARIADB_ARGUMENTS = 'host="db-1", user="ann", database="shop"'
_OWNER = "ann"
_AUTHORITY = re.compile(r"^postgresql://[^@/]*@")


class Drivers(NamedTuple):
    """The drivers of SQLAlchemy that its engines use on a server."""

    create_engine: str
    create_async_engine: str


PSYCOPG = Drivers("psycopg", "psycopg")


class PageDatabase(Protocol):
    def is_for(self, block: Block) -> bool:
        """Return whether the block can run on this database."""

    def filled_in(self, text: str) -> str:
        """Return a text of the page with this database instead of the one it names."""

    def run_sql(self, sql: str) -> None: ...

    def open(self) -> Rowcall: ...


class File:
    """`app.db`, as in the pages."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "app.db"

    def is_for(self, block: Block) -> bool:
        return not _wants_server(block)

    def filled_in(self, text: str) -> str:
        return text

    def run_sql(self, sql: str) -> None:
        with closing(sqlite3.connect(self._path)) as connection:
            connection.executescript(sql)

    def open(self) -> Rowcall:
        return Rowcall(self._path)


class OnMariadb:
    """An empty database of a server of MariaDB."""

    def __init__(self, url: str) -> None:
        self._url = url
        options = options_of(url)
        self._arguments = ", ".join(f"{name}={options[name]!r}" for name in ("host", "port", "user", "database"))

    def is_for(self, block: Block) -> bool:
        return _wants_mariadb(block) or not (_wants_server(block) or _wants_file(block))

    def filled_in(self, text: str) -> str:
        return _FILE.sub(self._url, text.replace(_MARIADB, self._url).replace(_MARIADB_ARGUMENTS, self._arguments))

    def run_sql(self, sql: str) -> None:
        with closing(pymysql.connect(**options_of(self._url))) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            connection.commit()

    def open(self) -> Rowcall:
        return Rowcall(self._url)


class OnServer:
    """An empty database of a server. `pooled_url` leads there through a pooler, where there is one.

    Users belong to a whole server, so each that a page makes gets another name by `users`.
    """

    def __init__(self, url: str, pooled_url: str, users: Mapping[str, str], drivers: Drivers = PSYCOPG) -> None:
        self._urls = {"db-1": url, "db-1,db-2": _twice(url), "pooler-1:6432": pooled_url}
        self._users = users
        self._drivers = drivers

    def is_for(self, block: Block) -> bool:
        return not _wants_file(block)

    def filled_in(self, text: str) -> str:
        text = text.replace("DATABASE shop ", f"DATABASE {database_of(self._urls['db-1'])} ")
        for user, unique in self._users.items():
            text = text.replace(user, unique)
        text = _ENGINE.sub(self._engine, text).replace(_DJANGO, self._django())
        return _SERVER.sub(self._real, _FILE.sub(f"postgresql://{_OWNER}@db-1/shop", text))

    def run_sql(self, sql: str) -> None:
        with psycopg.connect(self._urls["db-1"], autocommit=True) as connection:
            connection.execute(sql.encode())

    def open(self) -> Rowcall:
        return Rowcall(self._urls["db-1"])

    def _engine(self, named: re.Match[str]) -> str:
        driver = getattr(self._drivers, named[1])
        return f'{named[1]}("{self._urls["db-1"].replace("postgresql:", f"postgresql+{driver}:", 1)}"'

    def _django(self) -> str:
        options = conninfo_to_dict(self._urls["db-1"])
        return f'"NAME": {options.pop("dbname")!r}, "OPTIONS": {options!r}'

    def _real(self, named: re.Match[str]) -> str:
        url = self._urls[named["host"]]
        if named["user"] != _OWNER:
            url = _AUTHORITY.sub(f"postgresql://{named['user']}:{named['password']}@", url)
        return url if named["more"] is None else f"{url}{'&' if '?' in url else '?'}"


def _twice(url: str) -> str:
    """Return a URL of two hosts, which are the same one."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}{at}{host},{host}").geturl()


def _wants_mariadb(block: Block) -> bool:
    return block.language != "sql" and bool(re.search("mysql", block.text))


def _wants_file(block: Block) -> bool:
    """Return whether it is SQL for SQLite only, or uses its modules."""
    if block.language == "sql":
        return block.is_sql_of("SQLite")
    return bool(re.search("sqlite3|import aiosqlite", block.text))


def _wants_server(block: Block) -> bool:
    if block.language == "sql":
        return block.is_sql_of("PostgreSQL")
    return bool(re.search('psycopg|@db-1|"db-1"', block.text))
