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
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from rowcall import InvalidOption, Rowcall
from tests.drivers.caller.callers.base import Caller
from tests.drivers.caller.callers.sqlalchemy_callers import url_for
from tests.drivers.caller.queue_site import Case, Site

EVERY_KIND = (
    "sqlite3.Connection",
    "aiosqlite.Connection",
    "psycopg.Connection",
    "AsyncConnection",
    "asyncpg.Connection",
    "PyMySQL",
    "mysqlclient",
    "aiomysql",
    "asyncmy",
    "SQLAlchemy's Connection",
    "Session",
    "AsyncSession",
    "Django's connection",
    "alias",
)


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
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


# --- SQLAlchemy -----------------------------------------------------------------------------------


def test_a_session_that_leads_nowhere(site: Site) -> None:
    with orm.Session() as session:
        assert "not bound" in refusal(site, session)
