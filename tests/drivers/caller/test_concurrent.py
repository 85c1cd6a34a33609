"""Callers' connections among others: many threads and tasks, poolers, schemas, sessions within other transactions."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest
import sqlalchemy
from psycopg import sql
from sqlalchemy import orm

from rowcall import Rowcall
from rowcall.testing import eventually
from rowcall.testing.postgres_database import database_of
from tests.connected import connected
from tests.drivers.caller.callers.base import Caller
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.callers.psycopg_callers import Psycopg
from tests.drivers.caller.callers.sqlalchemy_callers import url_for
from tests.drivers.caller.queue_site import Case, Site
from tests.drivers.caller.test_same_database import OF_EACH_DRIVER
from tests.pgbouncer import PgBouncer


@pytest.fixture(params=OF_EACH_DRIVER, ids=lambda kind: kind.name)
def of_each_driver(request: pytest.FixtureRequest, postgresql_sites: tuple[Site, Site]) -> Case:
    return Case(request.param, *postgresql_sites)


# --- many at once ---------------------------------------------------------------------------------


@pytest.mark.concurrency
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_many_threads_begin_with_their_connections(request: pytest.FixtureRequest, database: str) -> None:
    """Each has its own; all of them meet a queue that was never used before."""
    kind = BY_NAME["sqlite3-immediate" if database == "sqlite" else "psycopg"]
    case = Case(kind, *request.getfixturevalue(f"{database}_sites"))
    errors: list[BaseException] = []
    at_once = threading.Barrier(8)

    def enqueue(jobs: Rowcall, number: int) -> None:
        async def scenario(mine: Caller) -> None:
            at_once.wait(20)
            for round_number in range(10):
                await mine.begin()
                await mine.enqueue_by_name(jobs, "send", {"to": f"{number}-{round_number}"}, case.queue)
                await (mine.commit() if round_number % 2 else mine.rollback())

        try:
            case.run(scenario)
        except BaseException as error:
            errors.append(error)

    with Rowcall(case.site.url) as jobs:
        threads = [threading.Thread(target=enqueue, args=(jobs, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert errors == []
    assert sorted(map(str, case.sent_to)) == sorted(f"{n}-{r}" for n in range(8) for r in (1, 3, 5, 7, 9))


def test_many_tasks_begin_with_connections_of_a_pool(postgresql_sites: tuple[Site, Site]) -> None:
    case = Case(BY_NAME["asyncpg-pool"], *postgresql_sites)

    async def enqueue(jobs: Rowcall, pool: Any, number: int) -> None:
        async with pool.acquire() as connection:
            with contextlib.suppress(ZeroDivisionError):
                async with connection.transaction():
                    await jobs.aenqueue("send", {"to": str(number)}, queue=case.queue, connection=connection)
                    if number % 2:
                        raise ZeroDivisionError

    async def scenario() -> None:
        async with asyncpg.create_pool(case.site.database, min_size=1, max_size=5) as pool:
            with Rowcall(case.site.url) as jobs:
                await asyncio.gather(*(enqueue(jobs, pool, number) for number in range(40)))

    asyncio.run(scenario())
    assert sorted(int(str(to)) for to in case.sent_to) == list(range(0, 40, 2))


# --- poolers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["psycopg", "sqlalchemy-psycopg2-session", "django-postgresql-alias"])
def test_behind_a_pooler(postgresql_sites: tuple[Site, Site], pgbouncer: PgBouncer, name: str) -> None:
    """In transaction mode, with the queue's own connections past it."""
    case = Case(BY_NAME[name], *postgresql_sites)
    database = pgbouncer.url(database_of(case.site.database))

    async def scenario() -> None:
        async with case.kind.opened(database) as mine:
            if isinstance(mine, Psycopg):
                mine.connection.prepare_threshold = None
            for number in range(8):
                await mine.begin()
                await mine.enqueue(case.send(mine), str(number))
                await (mine.commit() if number % 2 else mine.rollback())

    case.kind.run(scenario())
    assert case.sent_to == ["1", "3", "5", "7"]


# --- schemas --------------------------------------------------------------------------------------


@contextlib.contextmanager
def queue_in(database: str, schema: str) -> Iterator[Rowcall]:
    with connected(database) as connection:
        connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(schema)))
    path = '"' + schema.replace('"', '""') + '"'
    options = quote("-csearch_path=" + path.replace(" ", "\\ "))
    with Rowcall(f"{database}{'&' if '?' in database else '?'}options={options}", table_prefix="other_") as jobs:
        jobs.migrate()
        yield jobs


@pytest.mark.parametrize("schema", ['Odd "one"', "a.b", "sp ace", "tenant$1"])
def test_a_schema_of_any_name(of_each_driver: Case, schema: str) -> None:
    """The queue's URL leads to a schema that the caller's connection does not search."""
    case = of_each_driver
    with queue_in(case.site.database, schema) as jobs:

        async def scenario(mine: Caller) -> None:
            await mine.begin()
            await mine.enqueue_by_name(jobs, "send", {"to": "a"}, case.queue)
            await mine.commit()

        case.run(scenario)
        assert len(jobs.list(queue=case.queue).jobs) == 1
    assert case.written == []


# --- sessions within other transactions -------------------------------------------------------------


def test_a_session_that_joins_the_transaction_of_a_test(postgresql_sites: tuple[Site, Site]) -> None:
    """As SQLAlchemy's own page on test suites has it: what the session commits is undone with the rest."""
    case = Case(BY_NAME["sqlalchemy-psycopg-session"], *postgresql_sites)
    engine = sqlalchemy.create_engine(url_for(case.site.database, "psycopg"))
    with engine.connect() as connection:
        outer = connection.begin()
        with orm.Session(bind=connection, join_transaction_mode="create_savepoint") as session:
            case.site.send.using(connection=session, queue=case.queue).enqueue("a")
            session.commit()
            case.site.send.using(connection=session, queue=case.queue).enqueue("b")
            session.rollback()
        seen = connection.exec_driver_sql(f"select count(*) from rowcall_job where queue = '{case.queue}'").scalar()
        assert seen == 1
        outer.rollback()
    engine.dispose()
    assert case.written == []


def test_hooks_of_a_session(postgresql_sites: tuple[Site, Site]) -> None:
    """Before its commit all is possible."""
    case = Case(BY_NAME["sqlalchemy-psycopg-session"], *postgresql_sites)
    engine = sqlalchemy.create_engine(url_for(case.site.database, "psycopg"))
    with orm.Session(engine) as session:

        def enqueue(session: orm.Session) -> None:
            case.site.send.using(connection=session, queue=case.queue).enqueue("a")

        sqlalchemy.event.listen(session, "before_commit", enqueue)
        session.execute(sqlalchemy.text(case.note))
        session.commit()
    engine.dispose()
    assert case.sent_to == ["a"]
    assert case.notes == 1


# --- times ----------------------------------------------------------------------------------------


def test_times_are_those_of_the_statement(of_each_driver: Case) -> None:
    """In a long transaction PostgreSQL's now() is its beginning: a delay would be over before it began."""
    case = of_each_driver

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        ((began,),) = await mine.execute("select (date_part('epoch', now()) * 1000)::bigint")
        late = "select 1 from (select clock_timestamp() - now() as age) as clock where age > interval '60 ms'"
        while not await mine.execute(late):
            pass
        for options in ({}, {"delay": 30}, {"tags": ["a"]}):
            job = await mine.enqueue(case.send(mine, **options), "a")
            (other,) = await mine.enqueue_many(case.send(mine, **options), [{"to": "a"}])
            for one in (job, other):
                assert one.created_at.timestamp() * 1000 >= began + 50
                assert (one.run_at - one.created_at).total_seconds() == options.get("delay", 0)
        await mine.commit()

    case.run(scenario)


# --- afterwards -----------------------------------------------------------------------------------


def test_the_callers_connection_is_not_kept_alive(main_case: Case) -> None:
    case = main_case
    gone: list[weakref.ref[object]] = []

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.enqueue(case.send(mine), "a")
        await mine.commit()
        with contextlib.suppress(TypeError):  # what cannot be referred to weakly cannot be kept track of
            if not case.kind.name.startswith("django"):  # an alias, and a proxy that is there for good
                gone.append(weakref.ref(mine.connection))

    case.run(scenario)

    def all_gone() -> bool:
        gc.collect()
        return all(reference() is None for reference in gone)

    eventually(all_gone)
