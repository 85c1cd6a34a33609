"""A connection to another database than the queue's is refused, and lives on."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall, StoreUnavailable
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of
from tests.connected import connected
from tests.drivers.caller.callers.base import Caller, Kind
from tests.drivers.caller.callers.django_callers import Django
from tests.drivers.caller.callers.kinds import BY_NAME, KINDS, ON_POSTGRESQL
from tests.drivers.caller.queue_site import Case, Site, case_of


def test_another_kind_of_database(case: Case, request: pytest.FixtureRequest) -> None:
    other = {"sqlite": "postgresql", "postgresql": "sqlite", "mysql": "sqlite"}[case.kind.database]
    far: Site = request.getfixturevalue(f"{other}_sites")[0]

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        with pytest.raises(InvalidOption, match=f"connection leads to {case.kind.database}"):
            await mine.enqueue(far.send.using(connection=mine.connection), "a")
        assert await mine.execute("select 1") == [(1,)]
        await mine.commit()

    case.run(scenario)
    assert case.notes == 1


# --- SQLite ---------------------------------------------------------------------------------------


def test_a_database_in_memory(sqlite_sites: tuple[Site, Site]) -> None:
    site = sqlite_sites[0]
    with closing(sqlite3.connect(":memory:")) as mine, pytest.raises(InvalidOption, match="a database in memory"):
        site.send.using(connection=mine).enqueue("a")


def test_a_queue_in_memory_is_private(sqlite_sites: tuple[Site, Site]) -> None:
    with Rowcall("sqlite:///:memory:") as jobs, closing(sqlite3.connect(":memory:")) as mine:
        for connection in (mine, BY_NAME["sqlite3-legacy"].caller(":memory:")):
            with pytest.raises(InvalidOption, match=r"connection:? "):
                jobs.enqueue("task", connection=connection)


def test_another_file_of_the_same_name(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    with (
        Rowcall(tmp_path / "one" / "app.db") as one,
        Rowcall(tmp_path / "two" / "app.db") as two,
        closing(sqlite3.connect(tmp_path / "two" / "app.db")) as mine,
    ):
        two.migrate()
        with pytest.raises(InvalidOption, match=rf"two/app\.db, but this queue is in {tmp_path}/one/app\.db"):
            one.enqueue("task", connection=mine)
        two.enqueue("task", connection=mine)
        mine.commit()
        assert two.stats().total == 1


def test_the_same_file_by_another_name(sqlite_sites: tuple[Site, Site], tmp_path: Path) -> None:
    case = Case(BY_NAME["sqlite3-legacy"], *sqlite_sites)
    link = tmp_path / "link.db"
    link.symlink_to(case.site.database)
    with closing(sqlite3.connect(link)) as mine:
        job = case.site.send.using(connection=mine, queue=case.queue).enqueue("a")
        mine.commit()
    assert case.written == [job]


# --- PostgreSQL -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_another_server_with_the_same_names(
    postgresql_sites: tuple[Site, Site], private_postgres: PostgresServer
) -> None:
    """The same name of the database, and the same tables in it."""
    site = postgresql_sites[0]
    twin = private_postgres.create_database(database_of(site.database))
    with Rowcall(twin) as jobs, connected(twin, autocommit=False) as mine:
        jobs.migrate()
        mine.execute("create table mine (id int)")
        with pytest.raises(InvalidOption, match="connection leads to another database; this queue is in "):
            site.send.using(connection=mine).enqueue("a")
        jobs.enqueue("task", connection=mine)
        mine.commit()
        assert jobs.stats().total == 1


@pytest.mark.slow
def test_a_server_that_was_restarted_is_the_same(private_postgres: PostgresServer) -> None:
    url = private_postgres.create_database()
    with Rowcall(url) as jobs:
        for _ in range(2):
            with connected(url) as mine:
                jobs.enqueue("task", connection=mine)
            private_postgres.restart()
        assert jobs.stats().total == 2


OF_EACH_DRIVER = [
    *(kind for kind in ON_POSTGRESQL if kind.name in ("psycopg", "psycopg-async", "asyncpg", "asyncpg-pool")),
    *(BY_NAME[f"sqlalchemy-{name}"] for name in ("psycopg-connection", "psycopg2-session", "asyncpg-async-connection")),
    BY_NAME["django-postgresql-alias"],
]


@pytest.fixture(params=OF_EACH_DRIVER, ids=lambda kind: kind.name)
def of_each_driver(request: pytest.FixtureRequest, postgresql_sites: tuple[Site, Site]) -> Case:
    return Case(request.param, *postgresql_sites)


@pytest.mark.parametrize("when", ["from the start", "after the first look"])
def test_a_search_path_that_does_not_lead_to_the_tables_does_not_matter(of_each_driver: Case, when: str) -> None:
    case = of_each_driver

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        if when == "after the first look":
            await mine.enqueue(case.send(mine), "a")
        await mine.execute("set search_path to pg_catalog")
        await mine.enqueue(case.send(mine), "b")
        assert await mine.execute("select 1") == [(1,)]
        await mine.execute("set search_path to public")
        await mine.commit()

    case.run(scenario)
    assert case.notes == 1
    assert case.sent_to[-1] == "b"


@pytest.mark.parametrize("when", ["from the start", "after the first look"])
def test_a_search_path_that_leads_to_tables_of_another_queue(of_each_driver: Case, when: str) -> None:
    """A schema for each tenant, with a queue in each: no job goes to the wrong one."""
    case = of_each_driver
    url = case.site.database + ("&" if "?" in case.site.database else "?") + "options=-csearch_path%3Dtenant"
    case.site.execute("create schema if not exists tenant")
    with Rowcall(url) as tenant:
        tenant.migrate()

        async def scenario(mine: Caller) -> None:
            await mine.begin()
            await mine.execute(case.note)
            if when == "after the first look":
                await mine.enqueue(case.send(mine), "a")
            await mine.execute("set search_path to tenant")
            try:
                await mine.enqueue(case.send(mine), "b")
            except InvalidOption as error:
                assert error.option == "connection"  # noqa: PT017
            assert await mine.execute("select 1") == [(1,)]
            assert await mine.execute(f"select count(*) from tenant.rowcall_job where queue = '{case.queue}'") == [(0,)]
            await mine.execute("set search_path to public")
            await mine.commit()

        case.run(scenario)
        assert tenant.list(queue=case.queue).jobs == []
    assert case.notes == 1


# --- not to be used -------------------------------------------------------------------------------


async def fail_in(mine: Caller) -> None:
    with pytest.raises(Exception, match="division by zero"):
        await mine.execute("select 1 / 0")


@pytest.fixture(params=[kind for kind in KINDS if kind.database == "postgresql"], ids=lambda kind: kind.name)
def on_postgresql(request: pytest.FixtureRequest, postgresql_sites: tuple[Site, Site]) -> Case:
    return Case(request.param, *postgresql_sites)


@pytest.mark.parametrize("known", [False, True], ids=["never used before", "used before"])
def test_a_transaction_that_has_failed_already(on_postgresql: Case, known: bool) -> None:
    case = on_postgresql

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        if known:
            await mine.enqueue(case.send(mine), "undone")
        await fail_in(mine)
        for _ in range(2):
            with pytest.raises(InvalidOption, match=r"^connection is in a transaction that has already failed"):
                await mine.enqueue(case.send(mine), "a")
        await mine.rollback()
        await mine.begin()
        await mine.enqueue(case.send(mine), "b")
        await mine.commit()

    case.run(scenario)
    assert case.sent_to == ["b"]


def test_an_atomic_block_of_django_that_is_to_be_rolled_back(sqlite_sites: tuple[Site, Site]) -> None:
    """Django refuses every query there, and we before it."""
    case = Case(BY_NAME["django-sqlite-alias"], *sqlite_sites)

    async def scenario(mine: Caller) -> None:
        assert isinstance(mine, Django)
        await mine.begin()
        mine.wrapper.set_rollback(True)
        with pytest.raises(InvalidOption, match="leave its atomic block"):
            await mine.enqueue(case.send(mine), "a")
        await mine.rollback()

    case.run(scenario)


CLOSED = [
    kind
    for kind in KINDS
    if kind.name.startswith(("sqlite3", "aiosqlite", "psycopg", "asyncpg"))
    or kind.name.endswith(("-connection", "-async-connection"))
]


@pytest.mark.parametrize("kind", CLOSED, ids=lambda kind: kind.name)
def test_a_closed_connection(request: pytest.FixtureRequest, kind: Kind) -> None:
    case = case_of(request, kind)

    async def scenario() -> None:
        async with kind.opened(case.site.database) as mine:
            pass
        with pytest.raises(InvalidOption, match=r"connection:? .*(closed|no active connection|released)"):
            await mine.enqueue(case.send(mine), "a")

    kind.run(scenario())


def test_a_connection_that_was_cut(of_each_driver: Case) -> None:
    case = of_each_driver

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        ((process,),) = await mine.execute("select pg_backend_pid()")
        case.site.execute(f"select pg_terminate_backend({process}, 20000)")
        with pytest.raises(StoreUnavailable) as caught:
            await mine.enqueue(case.send(mine), "a")
        said.append(str(caught.value))

    said: list[str] = []
    with contextlib.suppress(Exception):  # what is cut cannot be closed in good order
        case.run(scenario)
    assert len(said) == 1
    assert "the connection was lost" in said[0]
    assert case.written == []


def test_a_connection_of_another_thread(sqlite_sites: tuple[Site, Site]) -> None:
    caught: list[str] = []

    def use(site: Site, connection: object) -> None:
        with pytest.raises(InvalidOption) as error:
            site.send.using(connection=connection).enqueue("a")
        caught.append(str(error.value))

    for name in ("sqlite3-legacy", "django-sqlite-wrapper"):
        case = Case(BY_NAME[name], *sqlite_sites)

        async def scenario(mine: Caller, case: Case = case) -> None:
            await mine.execute("select 1")
            thread = threading.Thread(target=use, args=(case.site, mine.connection))
            thread.start()
            thread.join(20)

        case.run(scenario)
    assert len(caught) == 2
    assert all("thread" in said for said in caught)
