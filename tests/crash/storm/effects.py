"""Handlers that complete their jobs in their own transactions, and writers that enqueue in theirs.

Rows in tables of the app say what these transactions did.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiomysql
import aiosqlite
import psycopg
import pymysql

from rowcall import Context
from rowcall.drivers.mysql.connection import options_of
from tests.crash.storm.tasks import AGAIN, CALM, chance_of, followed, jobs, lasts, noted
from tests.crash.storm.terms import MAX_ATTEMPTS

Connection = Any  # of sqlite3, psycopg or PyMySQL, or their async twins: the same as far as they are used here
DATABASE_AWAY = (sqlite3.OperationalError, psycopg.OperationalError, psycopg.InterfaceError, pymysql.MySQLError)


class Undone(Exception):
    """Rolls a transaction back."""


class Mysql(pymysql.Connection):  # type: ignore[misc]  # has no types
    def execute(self, sql: str) -> Any:
        cursor = self.cursor()
        cursor.execute(sql)
        return cursor


class AsyncMysql(aiomysql.Connection):  # type: ignore[misc]  # has no types
    async def execute(self, sql: str) -> None:
        async with self.cursor() as cursor:
            await cursor.execute(sql)


URL = os.environ.get("STORM_URL", "")
FILE = URL.removeprefix("sqlite:///") if URL.startswith("sqlite") else None
IS_MYSQL = URL.startswith("mysql")


@contextlib.contextmanager
def transaction() -> Iterator[Connection]:
    """Commits at its end, unless an exception leaves it."""
    if IS_MYSQL:
        with Mysql(**options_of(URL)) as client:
            client.begin()
            yield client
            client.commit()
        return
    if FILE is None:
        with psycopg.connect(URL) as server:
            yield server
        return
    with contextlib.closing(sqlite3.connect(FILE, isolation_level=None, timeout=10)) as file:
        file.execute("begin immediate")
        try:
            yield file
        except BaseException:
            file.execute("rollback")
            raise
        file.execute("commit")


@contextlib.asynccontextmanager
async def async_transaction() -> AsyncIterator[Connection]:
    if IS_MYSQL:
        options = options_of(URL)
        client = AsyncMysql(db=options.pop("database"), **options)
        await client._connect()
        async with client:  # which ends what was not committed
            await client.begin()
            yield client
            await client.commit()
        return
    if FILE is None:
        async with await psycopg.AsyncConnection.connect(URL) as server:
            yield server
        return
    async with aiosqlite.connect(FILE, isolation_level=None, timeout=10) as file:
        await file.execute("begin immediate")
        try:
            yield file
        except BaseException:
            await file.execute("rollback")
            raise
        await file.execute("commit")


def inserted(connection: Connection, statement: str) -> int:
    """Insert a row, and return its id."""
    if IS_MYSQL:  # MySQL has no RETURNING
        return int(connection.execute(statement).lastrowid)
    return int(connection.execute(f"{statement} returning id").fetchone()[0])


def _inserted(ctx: Context) -> str:
    return f"insert into storm_effect values ({ctx.job.id}, {ctx.job.lease})"


def _endings(ctx: Context) -> tuple[bool, bool]:
    """Whether the transaction is rolled back, and whether the handler raises in the end."""
    chance = chance_of(ctx.job)
    return (False, False) if CALM else (chance.random() < 0.15, chance.random() < 0.15)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
def effect(ctx: Context, more: int = 0) -> None:
    rolls_back, raises = _endings(ctx)
    with noted(ctx.job), contextlib.suppress(Undone):
        if more:
            ctx.continue_with(effect, more=more - 1)
        with transaction() as connection:
            connection.execute(_inserted(ctx))
            ctx.complete(more, connection=connection)
            if rolls_back:
                raise Undone
    if raises:
        raise LookupError("after the commit")


effect.on_success(followed)


@jobs.task(max_attempts=MAX_ATTEMPTS, retry=AGAIN)
async def effect_async(ctx: Context) -> None:
    rolls_back, raises = _endings(ctx)
    with noted(ctx.job), contextlib.suppress(Undone):
        async with async_transaction() as connection:
            await connection.execute(_inserted(ctx))
            await ctx.acomplete("x" * round(10_000 * lasts(chance_of(ctx.job))), connection=connection)
            if rolls_back:
                raise Undone
    if raises:
        raise LookupError("after the commit")
