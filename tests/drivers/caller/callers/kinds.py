"""Every kind of connection that a caller can pass, by name."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Literal

import sqlmodel
from psycopg.rows import class_row, dict_row, namedtuple_row
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker
from sqlmodel.ext.asyncio.session import AsyncSession as SqlmodelAsyncSession

from tests.drivers.caller.callers.asyncpg_callers import Asyncpg, AsyncpgOfPool, AsyncpgWithCodecs
from tests.drivers.caller.callers.base import Caller, Kind
from tests.drivers.caller.callers.django_callers import Django
from tests.drivers.caller.callers.mysql_callers import Mysql, MysqlAsync
from tests.drivers.caller.callers.psycopg_callers import (
    Psycopg,
    PsycopgAsync,
    PsycopgAsyncInPipeline,
    PsycopgAsyncOfPool,
    PsycopgInPipeline,
    PsycopgOfPool,
    Something,
)
from tests.drivers.caller.callers.sqlalchemy_callers import Alchemy, AlchemyAsync
from tests.drivers.caller.callers.sqlite_callers import Aiosqlite, Sqlite3

Database = Literal["sqlite", "postgresql", "mysql"]


def _kind(name: str, database: Database, caller: type[Caller], *arguments: Any, **options: Any) -> Kind:
    def make(database: str) -> Caller:
        return caller(database, *arguments, **options)

    return Kind(name, database, make, caller.is_async)


HANDLES = {
    "connection": lambda engine: engine.connect(),
    "session": orm.Session,
    "scoped-session": lambda engine: orm.scoped_session(orm.sessionmaker(engine)),
    "sqlmodel-session": sqlmodel.Session,
}
ASYNC_HANDLES = {
    "async-connection": lambda engine: engine.connect(),
    "async-session": AsyncSession,
    "async-scoped-session": lambda engine: async_scoped_session(async_sessionmaker(engine), asyncio.current_task),
    "sqlmodel-async-session": SqlmodelAsyncSession,
}
SYNC_DRIVERS = ("pysqlite", "psycopg", "psycopg2", "pymysql", "mysqldb")
ASYNC_DRIVERS = ("aiosqlite", "psycopg", "asyncpg", "aiomysql", "asyncmy")


def sqlalchemy_kind(driver: str, name: str, **options: Any) -> Kind:
    """`options` are the engine's."""
    database: Database = "sqlite" if "sqlite" in driver else "mysql" if "my" in driver else "postgresql"
    full = f"sqlalchemy-{driver}-{name}"
    if name in HANDLES:
        return _kind(full, database, Alchemy, driver, HANDLES[name], **options)
    return _kind(full, database, AlchemyAsync, driver, ASYNC_HANDLES[name], **options)


ISOLATIONS = {"legacy": "", "deferred": "DEFERRED", "immediate": "IMMEDIATE", "exclusive": "EXCLUSIVE", "none": None}
AUTOCOMMITS = {"autocommit-off": False, "autocommit-on": True} if sys.version_info >= (3, 12) else {}

ON_SQLITE = [
    *(_kind(f"sqlite3-{name}", "sqlite", Sqlite3, isolation_level=level) for name, level in ISOLATIONS.items()),
    *(_kind(f"sqlite3-{name}", "sqlite", Sqlite3, autocommit=mode) for name, mode in AUTOCOMMITS.items()),
    _kind("aiosqlite", "sqlite", Aiosqlite),
    _kind("aiosqlite-none", "sqlite", Aiosqlite, isolation_level=None),
]
ON_POSTGRESQL = [
    _kind("psycopg", "postgresql", Psycopg),
    _kind("psycopg-autocommit", "postgresql", Psycopg, autocommit=True),
    _kind("psycopg-dict-row", "postgresql", Psycopg, row_factory=dict_row),
    _kind("psycopg-namedtuple-row", "postgresql", Psycopg, row_factory=namedtuple_row),
    _kind("psycopg-class-row", "postgresql", Psycopg, row_factory=class_row(Something)),
    _kind("psycopg-pipeline", "postgresql", PsycopgInPipeline),
    _kind("psycopg-pool", "postgresql", PsycopgOfPool),
    _kind("psycopg-async", "postgresql", PsycopgAsync),
    _kind("psycopg-async-autocommit", "postgresql", PsycopgAsync, autocommit=True),
    _kind("psycopg-async-dict-row", "postgresql", PsycopgAsync, row_factory=dict_row),
    _kind("psycopg-async-pipeline", "postgresql", PsycopgAsyncInPipeline),
    _kind("psycopg-async-pool", "postgresql", PsycopgAsyncOfPool),
    _kind("asyncpg", "postgresql", Asyncpg),
    _kind("asyncpg-pool", "postgresql", AsyncpgOfPool),
    _kind("asyncpg-codecs", "postgresql", AsyncpgWithCodecs),
]
ASYNC_MYSQL = ("aiomysql", "asyncmy")
ON_MYSQL = [
    *(_kind(name, "mysql", Mysql, package) for name, package in (("pymysql", "pymysql"), ("mysqlclient", "MySQLdb"))),
    _kind("pymysql-autocommit", "mysql", Mysql, "pymysql", autocommit=True),
    _kind("pymysql-dict-cursor", "mysql", Mysql, "pymysql", "DictCursor"),
    _kind("mysqlclient-autocommit", "mysql", Mysql, "MySQLdb", autocommit=True),
    _kind("mysqlclient-dict-cursor", "mysql", Mysql, "MySQLdb", "DictCursor"),
    *(_kind(package, "mysql", MysqlAsync, package) for package in ASYNC_MYSQL),
    *(_kind(f"{package}-autocommit", "mysql", MysqlAsync, package, autocommit=True) for package in ASYNC_MYSQL),
    *(_kind(f"{package}-dict-cursor", "mysql", MysqlAsync, package, "DictCursor") for package in ASYNC_MYSQL),
]
OF_SQLALCHEMY = [
    *(sqlalchemy_kind(driver, name) for driver in SYNC_DRIVERS for name in HANDLES),
    *(sqlalchemy_kind(driver, name) for driver in ASYNC_DRIVERS for name in ASYNC_HANDLES),
]
OF_DJANGO = [
    kind
    for database in ("sqlite", "postgresql", "mysql")
    for kind in (
        _kind(f"django-{database}-wrapper", database, Django, "wrapper"),
        _kind(f"django-{database}-proxy", database, Django, "proxy"),
        _kind(f"django-{database}-other", database, Django, "wrapper", "other"),
        _kind(f"django-{database}-alias", database, Django, "alias"),
        _kind(f"django-{database}-other-alias", database, Django, "alias", "other"),
    )
]
KINDS = [*ON_SQLITE, *ON_POSTGRESQL, *ON_MYSQL, *OF_SQLALCHEMY, *OF_DJANGO]
BY_NAME = {kind.name: kind for kind in KINDS}

# one of each class of connection on each driver
MAIN = [
    BY_NAME[name]
    for name in (
        "sqlite3-legacy",
        "sqlite3-none",
        "aiosqlite",
        "psycopg",
        "psycopg-autocommit",
        "psycopg-pipeline",
        "psycopg-async",
        "asyncpg",
        "asyncpg-pool",
        "sqlalchemy-pysqlite-connection",
        "sqlalchemy-pysqlite-session",
        "sqlalchemy-psycopg-connection",
        "sqlalchemy-psycopg2-scoped-session",
        "sqlalchemy-psycopg2-sqlmodel-session",
        "sqlalchemy-aiosqlite-async-session",
        "sqlalchemy-psycopg-async-connection",
        "sqlalchemy-asyncpg-async-connection",
        "sqlalchemy-asyncpg-async-scoped-session",
        "django-sqlite-alias",
        "django-postgresql-proxy",
        "pymysql",
        "mysqlclient-autocommit",
        "aiomysql",
        "asyncmy-autocommit",
        "sqlalchemy-pymysql-session",
        "sqlalchemy-mysqldb-connection",
        "sqlalchemy-aiomysql-async-connection",
        "sqlalchemy-asyncmy-async-scoped-session",
        "django-mysql-wrapper",
    )
]

# one of each library, sync and async, on each database
CORE = [
    BY_NAME[name]
    for name in (
        "sqlite3-legacy",
        "aiosqlite",
        "psycopg",
        "psycopg-async",
        "asyncpg",
        "sqlalchemy-pysqlite-session",
        "sqlalchemy-psycopg2-scoped-session",
        "sqlalchemy-asyncpg-async-connection",
        "django-postgresql-proxy",
        "pymysql",
        "sqlalchemy-asyncmy-async-connection",
    )
]
