"""Rowcall runs a statement or two on a caller's connection, and changes none of its settings."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import tuple_row
from psycopg.types.json import set_json_loads

from rowcall import InvalidArguments, InvalidOption
from tests.drivers.caller.callers.asyncpg_callers import Asyncpg
from tests.drivers.caller.callers.base import Caller, Kind
from tests.drivers.caller.callers.django_callers import Django
from tests.drivers.caller.callers.kinds import (
    ASYNC_DRIVERS,
    ASYNC_HANDLES,
    BY_NAME,
    HANDLES,
    KINDS,
    OF_SQLALCHEMY,
    SYNC_DRIVERS,
    sqlalchemy_kind,
)
from tests.drivers.caller.callers.mysql_callers import Mysql, MysqlAsync
from tests.drivers.caller.callers.psycopg_callers import (
    Psycopg,
    PsycopgAsync,
    PsycopgAsyncInPipeline,
    PsycopgInPipeline,
)
from tests.drivers.caller.callers.sqlalchemy_callers import Alchemy, AlchemyAsync, execute_of
from tests.drivers.caller.callers.sqlite_callers import Aiosqlite, Sqlite3
from tests.drivers.caller.queue_site import Case, Site, act, case_of

PRAGMAS = (
    "foreign_keys",
    "synchronous",
    "busy_timeout",
    "cache_size",
    "recursive_triggers",
    "query_only",
    "defer_foreign_keys",
    "case_sensitive_like",
    "temp_store",
    "read_uncommitted",
    "journal_mode",
    "locking_mode",
)


# what MariaDB and MySQL list among their settings
NO_SETTINGS = (
    *("timestamp", "last_insert_id", "identity", "insert_id", "in_transaction", "warning_count", "error_count"),
    *("last_gtid", "rand_seed1", "rand_seed2", "pseudo_thread_id", "gtid_current_pos", "statement_id"),
)


@pytest.fixture(params=OF_SQLALCHEMY, ids=lambda kind: kind.name)
def of_sqlalchemy(request: pytest.FixtureRequest) -> Case:
    return case_of(request, request.param)


# --- whose transaction it is ----------------------------------------------------------------------


async def use_in_every_way(case: Case, mine: Caller) -> None:
    await mine.enqueue(case.send(mine), "a")
    await mine.enqueue_many(case.send(mine), [{"to": "b"}, {"to": "c"}])
    with pytest.raises(InvalidArguments):
        await mine.enqueue(case.send(mine), 5)
    with pytest.raises(InvalidOption):
        await mine.enqueue(case.elsewhere.send.using(connection=mine.connection), "a")
    await mine.enqueue(case.send(mine), "d")
    await mine.enqueue(case.send(mine, key=case.queue), "e")


def test_the_transaction_stays_open_and_the_same(case: Case) -> None:
    which = "select txid_current()" if case.kind.database == "postgresql" else "select 1"

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        before = await mine.execute(which)
        await use_in_every_way(case, mine)
        assert await mine.execute(which) == before
        assert await mine.execute(f"select count(*) from mine where note = '{case.queue}'") == [(1,)]
        assert case.notes == 0
        await mine.commit()

    case.run(scenario)
    assert case.notes == 1
    assert case.sent_to == ["a", "b", "c", "d", "e"]


def test_sqlalchemy_is_not_asked_to_end_anything(of_sqlalchemy: Case) -> None:
    case = of_sqlalchemy

    async def scenario(mine: Caller) -> None:
        assert isinstance(mine, Alchemy | AlchemyAsync)
        engine = mine.engine if isinstance(mine.engine, sqlalchemy.Engine) else mine.engine.sync_engine
        seen: list[str] = []

        def listen(name: str) -> None:
            sqlalchemy.event.listen(engine, name, lambda *arguments: seen.append(name))

        for name in ("commit", "rollback", "savepoint", "rollback_savepoint", "release_savepoint", "begin_twophase"):
            listen(name)
        await mine.begin()
        await mine.execute(case.note)
        await use_in_every_way(case, mine)
        assert seen == []
        await mine.commit()
        assert seen == ["commit"]

    case.run(scenario)


AT_ONCE = [
    kind
    for kind in KINDS
    if kind.name in ("sqlite3-none", "sqlite3-autocommit-on", "aiosqlite-none")
    or kind.name.startswith(("psycopg-autocommit", "psycopg-async-autocommit", "asyncpg", "django"))
] + [
    sqlalchemy_kind(driver, name, isolation_level="AUTOCOMMIT")
    for drivers, handles in ((SYNC_DRIVERS, HANDLES), (ASYNC_DRIVERS, ASYNC_HANDLES))
    for driver in drivers
    for name in handles
]


@pytest.fixture(params=AT_ONCE, ids=lambda kind: kind.name)
def autocommitting(request: pytest.FixtureRequest) -> Case:
    return case_of(request, request.param)


def test_without_a_transaction_the_job_is_there_at_once(autocommitting: Case) -> None:
    case = autocommitting

    async def scenario(mine: Caller) -> None:
        job = await mine.enqueue(case.send(mine), "a")
        assert case.written == [job]
        many = await mine.enqueue_many(case.send(mine), [{"to": "b"}, {"to": "c"}])
        assert case.written == [job, *many]

    case.run(scenario)
    assert case.sent_to == ["a", "b", "c"]


def test_what_takes_several_statements_is_refused_where_each_commits_by_itself(autocommitting: Case) -> None:
    """Two of them could have one key, and a crash in between leaves half of it."""
    case = autocommitting

    async def scenario(mine: Caller) -> None:
        first = await mine.enqueue(case.send(mine), "first")
        for options in ({"key": "k"}, {"after": [first]}):
            with pytest.raises(InvalidOption, match=r"connection has no transaction open.* begin a transaction first"):
                await mine.enqueue(case.send(mine, **options), "refused")
        with pytest.raises(InvalidOption, match=r"connection has no transaction open.* begin a transaction first"):
            await act(case, mine, "cancel", first)
        assert await act(case, mine, "get", first) == first
        if case.kind.database == "sqlite":
            assert await mine.execute("pragma defer_foreign_keys") == [(0,)]
        await mine.enqueue(case.send(mine), "last")

    case.run(scenario)
    assert case.sent_to == ["first", "last"]


# --- how much is run on it ------------------------------------------------------------------------


def listen_for_statements(mine: Caller) -> list[str]:
    """All that is run from now on, by the words of the framework itself."""
    seen: list[str] = []
    connection: Any = mine.connection
    if isinstance(mine, Alchemy | AlchemyAsync):
        engine = mine.engine if isinstance(mine.engine, sqlalchemy.Engine) else mine.engine.sync_engine

        def note(connection: object, cursor: object, statement: str, *others: object) -> None:
            seen.append(statement)

        sqlalchemy.event.listen(engine, "before_cursor_execute", note)
    elif isinstance(mine, Django):

        def passed_on(execute: Any, sql: str, *others: Any) -> Any:
            seen.append(sql)
            return execute(sql, *others)

        mine.wrapper.execute_wrappers.append(passed_on)
    else:
        assert isinstance(mine, Asyncpg)
        connection.add_query_logger(lambda record: seen.append(record.query))
    return seen


THAT_TELL = [
    kind
    for kind in KINDS
    if kind.database == "postgresql" and kind.name.startswith(("sqlalchemy", "django", "asyncpg"))
]


@pytest.mark.parametrize("kind", THAT_TELL, ids=lambda kind: kind.name)
def test_one_statement_is_run_on_a_connection_that_is_known(request: pytest.FixtureRequest, kind: Kind) -> None:
    """Where it leads is asked once: else each enqueue would be two round trips."""
    case = case_of(request, kind)

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.enqueue(case.send(mine), "first")
        seen = listen_for_statements(mine)
        await mine.enqueue(case.send(mine), "a")
        await mine.enqueue_many(case.send(mine), [{"to": "b"}, {"to": "c"}])
        if mine.is_async:
            await asyncio.sleep(0)  # asyncpg's logger has its turn
        assert len(seen) == 2
        assert all("rowcall_job" in statement for statement in seen)
        await mine.commit()

    case.run(scenario)
    assert case.sent_to == ["first", "a", "b", "c"]


# --- its settings ---------------------------------------------------------------------------------


async def settings_of(case: Case, mine: Caller) -> list[object]:
    if case.kind.database == "postgresql":
        told = "select coalesce(current_setting('rowcall.notifies', true), '')"
        # plpgsql's own come with the first trigger that runs
        listed = "select name, setting from pg_settings where name not like 'plpgsql.%' order by name"
        return [await mine.execute(listed), await mine.execute(told)]
    if case.kind.database == "mysql":
        return [row for row in await mine.execute("show session variables") if row[0] not in NO_SETTINGS]
    return [await mine.execute(f"pragma {name}") for name in PRAGMAS]


def test_settings_of_the_database_stay(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        before = await settings_of(case, mine)
        await use_in_every_way(case, mine)
        within = await settings_of(case, mine)
        await mine.commit()
        await mine.begin()
        after = await settings_of(case, mine)
        await mine.rollback()
        assert before == within == after

    case.run(scenario)


def test_settings_of_sqlite3_stay(sqlite_sites: tuple[Site, Site]) -> None:
    case = Case(BY_NAME["sqlite3-legacy"], *sqlite_sites)

    async def scenario(mine: Caller) -> None:
        connection: Any = mine.connection
        connection.row_factory = sqlite3.Row
        connection.text_factory = bytes
        job = await mine.enqueue(case.send(mine, tags=["ä"], expires_in=60), "ä")
        await mine.enqueue_many(case.send(mine), [{"to": "b"}])
        assert connection.row_factory is sqlite3.Row
        assert connection.text_factory is bytes
        assert connection.isolation_level == ""
        assert connection.in_transaction
        await mine.commit()
        assert case.written[0] == job

    case.run(scenario)


@pytest.mark.parametrize("name", ["psycopg", "psycopg-async"])
def test_settings_of_psycopg_stay(postgresql_sites: tuple[Site, Site], name: str) -> None:
    class Shouting(psycopg.adapt.Loader):
        def load(self, data: Any) -> str:
            return f"{bytes(data).decode()}!"

    class Whispering(psycopg.adapt.Dumper):
        oid = psycopg.adapters.types["text"].oid

        def dump(self, value: object) -> bytes:
            return b"hush"

    case = Case(BY_NAME[name], *postgresql_sites)

    def look_at(connection: Any) -> list[object]:
        names = ("autocommit", "isolation_level", "read_only", "deferrable", "row_factory", "cursor_factory")
        more = ("prepare_threshold", "prepared_max", "server_cursor_factory")
        return [getattr(connection, setting) for setting in (*names, *more)]

    async def scenario(mine: Caller) -> None:
        connection: Any = mine.connection
        connection.prepare_threshold = 3
        connection.prepared_max = 7
        connection.row_factory = psycopg.rows.dict_row
        set_json_loads(lambda data: "nothing", connection)
        for kind in ("int2", "int4", "int8", "text", "bool", "json", "jsonb", "timestamptz", "numeric", "oid"):
            connection.adapters.register_loader(kind, Shouting)
        for written in (int, str, float):
            connection.adapters.register_dumper(written, Whispering)
        before = look_at(connection)
        job = await mine.enqueue(case.send(mine, priority=3, timeout=1.5), "a")
        await mine.enqueue_many(case.send(mine), [{"to": "b"}])
        assert look_at(connection) == before
        assert await mine.execute("select 5, 'a'") == [("5!", "a!")]
        await mine.commit()
        assert case.written[0] == job

    case.run(scenario)


def never_asked(value: object) -> str:
    raise AssertionError(f"a codec of the caller's was asked for {value!r}")


@pytest.mark.parametrize(
    "kind", ["json", "jsonb", "timestamptz", "timestamp", "interval", "numeric", "uuid", "varchar"]
)
def test_codecs_of_asyncpg_are_the_callers_and_stay(postgresql_sites: tuple[Site, Site], kind: str) -> None:
    case = Case(BY_NAME["asyncpg"], *postgresql_sites)

    async def scenario(mine: Caller) -> None:
        connection: Any = mine.connection
        await connection.set_type_codec(kind, schema="pg_catalog", encoder=never_asked, decoder=never_asked)
        await mine.begin()
        job = await mine.enqueue(case.send(mine, priority=3, timeout=1.5, delay=60, tags=["a"]), "a")
        many = await mine.enqueue_many(case.send(mine), [{"to": "b"}, {"to": "c"}])
        await mine.commit()
        assert case.written == [job, *many]
        with pytest.raises(AssertionError):
            await connection.fetch("select $1::" + kind, 1)

    case.run(scenario)


@pytest.mark.parametrize("kind", ["int4", "int8", "text", "float8"])
def test_codecs_for_types_that_rowcall_needs_are_refused(postgresql_sites: tuple[Site, Site], kind: str) -> None:
    case = Case(BY_NAME["asyncpg"], *postgresql_sites)

    async def scenario(mine: Caller) -> None:
        connection: Any = mine.connection
        await connection.set_type_codec(kind, schema="pg_catalog", encoder=lambda _: "mine", decoder=lambda _: "mine")
        await mine.begin()
        await mine.execute(case.note)
        with pytest.raises(InvalidOption, match=r"connection:? "):
            await mine.enqueue(case.send(mine, timeout=1.5), "a")
        await mine.commit()

    case.run(scenario)
    assert case.notes == 1
    assert case.written == []


# --- its pending results --------------------------------------------------------------------------


async def rows_around_an_enqueue(case: Case, mine: Caller, rows: AsyncIterator[int]) -> None:
    """Continue with a cursor that was half read."""
    first = [await anext(rows), await anext(rows)]
    if case.kind.database != "mysql" or isinstance(mine, Django):  # Django's cursors read all there
        await use_in_every_way(case, mine)
    else:  # its protocol sends the rows of one statement after those of the other
        with pytest.raises(InvalidOption, match="half read"):
            await mine.enqueue(case.send(mine), "a")
    assert first + [row async for row in rows] == [1, 2, 3, 4, 5, 6]


ONE_TO_SIX = {
    "postgresql": "select * from generate_series(1, 6)",
    "sqlite": "select value from json_each('[1, 2, 3, 4, 5, 6]')",
    "mysql": "select value from json_table('[1, 2, 3, 4, 5, 6]', '$[*]' columns (value int path '$')) as given",
}


async def open_cursor(case: Case, mine: Caller) -> AsyncGenerator[int, None]:
    """Rows that the driver has not fetched yet, where it can leave them."""
    sql = ONE_TO_SIX[case.kind.database]
    connection: Any = mine.connection
    if isinstance(mine, Sqlite3):
        for row in connection.execute(sql):
            yield row[0]
    elif isinstance(mine, Aiosqlite):
        async with connection.execute(sql) as cursor:
            async for row in cursor:
                yield row[0]
    elif isinstance(mine, PsycopgInPipeline):  # it has no cursors on the server, but results that were not fetched yet
        with connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(sql)
            yield 1
            yield 2
            for row in cursor.fetchall()[2:]:
                yield row[0]
    elif isinstance(mine, PsycopgAsyncInPipeline):
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(sql)
            yield 1
            yield 2
            for row in (await cursor.fetchall())[2:]:
                yield row[0]
    elif isinstance(mine, Psycopg):
        with connection.cursor("mine", row_factory=tuple_row) as cursor:
            cursor.itersize = 1
            for row in cursor.execute(sql):
                yield row[0]
    elif isinstance(mine, PsycopgAsync):
        async with connection.cursor("mine", row_factory=tuple_row) as cursor:
            cursor.itersize = 1
            async for row in await cursor.execute(sql):
                yield row[0]
    elif isinstance(mine, Asyncpg):
        async for row in connection.cursor(sql, prefetch=1):
            yield row[0]
    elif isinstance(mine, MysqlAsync):
        async with connection.cursor(mine.cursor_class("SSCursor")) as cursor:
            await cursor.execute(sql)
            while found := await cursor.fetchmany(1):
                yield found[0][0]
    elif isinstance(mine, Mysql):
        with connection.cursor(mine.cursor_class("SSCursor")) as cursor:
            cursor.execute(sql)
            while found := cursor.fetchmany(1):
                yield found[0][0]
    elif isinstance(mine, Alchemy):
        statement = sqlalchemy.text(sql).execution_options(stream_results=True, max_row_buffer=1)
        for row in execute_of(connection)(statement):
            yield row[0]
    elif isinstance(mine, AlchemyAsync):
        async for row in await connection.stream(sqlalchemy.text(sql).execution_options(max_row_buffer=1)):
            yield row[0]
    elif isinstance(mine, Django):
        with mine.wrapper.chunked_cursor() as cursor:
            cursor.execute(sql)
            while found := cursor.fetchmany(1):
                yield found[0][0]


async def refused_next_to_a_cursor(case: Case, mine: Caller) -> None:
    """mysqlclient does not say that a cursor is half read before another statement has ended it."""
    rows = open_cursor(case, mine)
    assert await anext(rows) == 1
    with pytest.raises(InvalidOption, match="half read"):
        await mine.enqueue(case.send(mine), "a")
    with contextlib.suppress(Exception):  # the rest of the rows is lost
        await rows.aclose()


def test_a_cursor_that_is_half_read_continues(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        if case.kind.needs_mysqlclient:
            await refused_next_to_a_cursor(case, mine)
            return
        async with aclosing(open_cursor(case, mine)) as rows:
            await rows_around_an_enqueue(case, mine, rows)
        if not case.written and case.kind.database == "mysql" and not isinstance(mine, Django):
            await use_in_every_way(case, mine)
        await mine.commit()

    case.run(scenario)
    assert case.sent_to == ([] if case.kind.needs_mysqlclient else ["a", "b", "c", "d", "e"])
