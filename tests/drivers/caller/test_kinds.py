"""What is not a connection, or not one for this call, is refused in words that say what to do."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import orm
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from rowcall import InvalidOption, Rowcall
from rowcall.testing.process import PythonProcess
from tests.drivers.caller.callers.base import Caller
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.callers.sqlalchemy_callers import url_for
from tests.drivers.caller.queue_site import Case, Site

EVERY_KIND = (
    "sqlite3.Connection",
    "aiosqlite.Connection",
    "psycopg.Connection",
    "AsyncConnection",
    "asyncpg.Connection",
    "SQLAlchemy's Connection",
    "Session",
    "AsyncSession",
    "Django's connection",
    "alias",
)


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest) -> Site:
    here: Site = request.getfixturevalue(f"{request.param}_sites")[0]
    return here


def refusal(site: Site, connection: object, *, sync_only: bool = False) -> str:
    """What is said of it: to all methods the same."""
    calls: list[Callable[[], object]] = [
        lambda: site.send.using(connection=connection).enqueue("a"),
        lambda: site.send.using(connection=connection).enqueue_many([{"to": "a"}]),
        lambda: site.jobs.enqueue("send", {"to": "a"}, connection=connection),
    ]
    if not sync_only:
        calls += [
            lambda: asyncio.run(site.send.using(connection=connection).aenqueue("a")),
            lambda: asyncio.run(site.send.using(connection=connection).aenqueue_many([{"to": "a"}])),
            lambda: asyncio.run(site.jobs.aenqueue("send", {"to": "a"}, connection=connection)),
        ]
    said = set()
    for call in calls:
        with pytest.raises(InvalidOption) as caught:
            call()
        assert caught.value.option == "connection"
        said.add(caught.value.problem)
    (one,) = said
    return one


# --- no connection at all -------------------------------------------------------------------------


@pytest.mark.parametrize("what", [5, object(), {}, Path("app.db"), sqlite3.connect, psycopg.Connection, Rowcall, []])
def test_the_error_for_anything_else_names_every_kind(site: Site, what: object) -> None:
    said = refusal(site, what)
    for kind in EVERY_KIND:
        assert kind in said
    assert said.endswith(f"got {type(what).__module__}.{type(what).__name__}")


def test_cursors_are_no_connections(site: Site) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        assert refusal(site, connection.cursor()).endswith("got sqlite3.Cursor")


def test_cursors_of_psycopg_are_none_either(postgresql_sites: tuple[Site, Site]) -> None:
    site = postgresql_sites[0]
    with closing(psycopg.connect(site.database)) as connection:
        for near in (connection.cursor(), connection.info, connection.pgconn, connection.transaction()):
            assert EVERY_KIND[0] in refusal(site, near)


def test_the_error_for_pools_and_engines_asks_for_a_connection(postgresql_sites: tuple[Site, Site]) -> None:
    site = postgresql_sites[0]
    engine = sqlalchemy.create_engine(url_for(site.database, "psycopg"))
    async_engine = create_async_engine(url_for(site.database, "asyncpg"))

    async def pools_that_want_a_loop() -> list[object]:
        return [AsyncConnectionPool(site.database, open=False), asyncpg.create_pool(site.database)]

    makers: list[object] = [
        *asyncio.run(pools_that_want_a_loop()),
        ConnectionPool(site.database, open=False),
        engine,
        engine.pool,
        async_engine,
        orm.sessionmaker(engine),
        async_sessionmaker(async_engine),
    ]
    for maker in makers:
        said = refusal(site, maker)
        assert f"{type(maker).__module__}.{type(maker).__name__}" in said
        assert "pass one of" in said


# --- the other method -----------------------------------------------------------------------------


def test_the_other_method_is_named(case: Case) -> None:
    """Sync connections with async methods, and the other way round; nothing is run on them."""

    async def with_the_wrong_methods(mine: Caller) -> None:
        send = case.send(mine)
        if mine.is_async:
            calls: list[Any] = [lambda: send.enqueue("a"), lambda: send.enqueue_many([{"to": "a"}])]
            calls.append(lambda: case.jobs.enqueue("send", {"to": "a"}, connection=mine.connection))
            for call in calls:
                with pytest.raises(InvalidOption, match=r"connection is async: .*aenqueue"):
                    call()
        else:
            coroutines = [send.aenqueue("a"), send.aenqueue_many([{"to": "a"}])]
            coroutines.append(case.jobs.aenqueue("send", {"to": "a"}, connection=mine.connection))
            for coroutine in coroutines:
                # Django says itself that it does not go with an event loop
                with pytest.raises(InvalidOption, match=r"connection:? (is not async: .*enqueue|.*sync_to_async)"):
                    asyncio.run(coroutine)
        assert await mine.execute("select 1") == [(1,)]

    case.run(with_the_wrong_methods)
    assert case.written == []


# --- Django ---------------------------------------------------------------------------------------


def test_the_error_for_an_unknown_alias_of_django_names_the_known_ones(sqlite_sites: tuple[Site, Site]) -> None:
    case = Case(BY_NAME["django-sqlite-alias"], *sqlite_sites)

    async def scenario(mine: Caller) -> None:
        said = refusal(case.site, "nothing")
        assert "'nothing' is not an alias" in said
        assert "default" in said
        assert "other" in said
        assert "secret" not in refusal(case.site, "postgresql://me:secret@host/database")

    case.run(scenario)


PROGRAM = """
import sqlite3, sys
from rowcall import InvalidOption, Rowcall
with Rowcall(sys.argv[1]) as jobs:
    for text in ("default", "postgresql://me:secret@host/database"):
        try:
            jobs.enqueue("task", connection=text)
        except InvalidOption as error:
            print(error)
assert "django" not in sys.modules
"""


def test_an_alias_without_django(tmp_path: Path) -> None:
    with PythonProcess("-c", PROGRAM, f"sqlite:///{tmp_path}/app.db") as process:
        assert process.wait() == 0, process.output
        lines = process.output.splitlines()
    assert len(lines) == 2
    assert "Django is not loaded" in lines[0]
    assert "secret" not in lines[1]


def test_the_error_for_django_in_async_code_says_what_to_do(sqlite_sites: tuple[Site, Site]) -> None:
    case = Case(BY_NAME["django-sqlite-wrapper"], *sqlite_sites)

    async def scenario(mine: Caller) -> None:
        async def beside_a_loop() -> None:
            with pytest.raises(InvalidOption, match="async"):
                case.send(mine).enqueue("a")
            with pytest.raises(InvalidOption, match="async"):
                await case.send(mine).aenqueue("a")

        asyncio.run(beside_a_loop())

    case.run(scenario)


# --- SQLAlchemy -----------------------------------------------------------------------------------


class OtherDriver(SQLiteDialect_pysqlite):
    driver = "other"
    supports_statement_cache = True


class OtherDatabase(SQLiteDialect_pysqlite):
    name = "otherdb"
    supports_statement_cache = True


registry.register("sqlite.other", __name__, "OtherDriver")
registry.register("otherdb.other", __name__, "OtherDatabase")


@pytest.mark.parametrize("dialect", ["sqlite+other", "otherdb+other"])
def test_unknown_drivers_of_sqlalchemy(sqlite_sites: tuple[Site, Site], dialect: str) -> None:
    site = sqlite_sites[0]
    engine = sqlalchemy.create_engine(sqlalchemy.URL.create(dialect, database=site.database))
    with engine.connect() as connection, orm.Session(engine) as session:
        for given in (connection, session):
            assert dialect.partition("+")[0] in refusal(site, given, sync_only=True)
        assert connection.exec_driver_sql("select 1").all() == [(1,)]
    engine.dispose()


def test_a_driver_connection_out_of_sqlalchemys_pool(postgresql_sites: tuple[Site, Site]) -> None:
    """It is in no transaction of SQLAlchemy's."""
    site = postgresql_sites[0]
    engine = sqlalchemy.create_engine(url_for(site.database, "psycopg"))
    with closing(engine.raw_connection()) as raw:
        assert "SQLAlchemy's Connection" in refusal(site, raw)
    engine.dispose()


def test_a_session_that_leads_nowhere(site: Site) -> None:
    with orm.Session() as session:
        assert "not bound" in refusal(site, session)


def test_a_transaction_of_sqlalchemy_that_is_over(postgresql_sites: tuple[Site, Site]) -> None:
    site = postgresql_sites[0]
    engine = sqlalchemy.create_engine(url_for(site.database, "psycopg"))
    with engine.connect() as connection, connection.begin() as transaction:
        transaction.rollback()
        with pytest.raises(InvalidOption, match="closed transaction"):
            site.send.using(connection=connection).enqueue("a")
    engine.dispose()


def test_a_session_that_must_be_rolled_back_first(sqlite_sites: tuple[Site, Site]) -> None:
    site = sqlite_sites[0]
    engine = sqlalchemy.create_engine(url_for(site.database, "pysqlite"))
    base = orm.declarative_base()

    class Mine(base):  # type: ignore[misc, valid-type]
        __tablename__ = "mine"
        id = sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)
        nothing = sqlalchemy.Column(sqlalchemy.Text)

    with orm.Session(engine) as session:
        session.begin()
        session.add(Mine(id=1, nothing="there is no such column"))
        with pytest.raises(sqlalchemy.exc.OperationalError):
            session.flush()
        with pytest.raises(InvalidOption, match="rolled back"):
            site.send.using(connection=session).enqueue("a")
    engine.dispose()


def test_within_run_sync(postgresql_sites: tuple[Site, Site]) -> None:
    """Sync code of SQLAlchemy's that runs on an async connection calls the sync method."""
    case = Case(BY_NAME["sqlalchemy-asyncpg-async-session"], *postgresql_sites)

    async def scenario(mine: Caller) -> None:
        session: Any = mine.connection
        job = await session.run_sync(
            lambda inner: case.site.send.using(connection=inner, queue=case.queue).enqueue("a")
        )
        with pytest.raises(InvalidOption, match=r"connection:? "):
            case.site.send.using(connection=session.sync_session).enqueue("a")
        assert case.written == []
        await mine.commit()
        assert case.written == [job]

    case.run(scenario)
