"""The traps of callers' connections: each is shown where possible, and each cure has a test that fails without it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from rowcall import Context, Rowcall, StoreUnavailable
from rowcall.task import Task
from rowcall.testing import eventually
from tests.connected import connected
from tests.drivers.caller.callers.base import Caller, Kind
from tests.drivers.caller.callers.django_callers import Django
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.callers.sqlalchemy_callers import url_for
from tests.drivers.caller.queue_site import Case, Site
from tests.drivers.caller.test_adapter import settings_of
from tests.drivers.caller.test_same_database import OF_EACH_DRIVER


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def jobs(path: Path) -> Iterator[Rowcall]:
    with Rowcall(path) as jobs:
        jobs.migrate()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("create table mine (id integer)")
        yield jobs


@pytest.fixture
def send(jobs: Rowcall) -> Task[[str], None]:
    @jobs.task
    def send(to: str) -> None: ...

    return send


# --- the first statement on a default sqlite3 connection --------------------------------------------


@pytest.mark.parametrize(
    "statements",
    [
        ["with given (id) as (select 1) insert into mine select id from given"],
        ["savepoint ours", "insert into mine values (1)", "release ours"],
    ],
    ids=["WITH … INSERT", "SAVEPOINT … RELEASE"],
)
def test_the_trap_some_first_statements_commit_at_once(jobs: Rowcall, path: Path, statements: list[str]) -> None:
    """sqlite3 begins a transaction before a plain INSERT, UPDATE or DELETE only."""
    with closing(sqlite3.connect(path)) as mine:
        for statement in statements:
            mine.execute(statement)
        mine.rollback()
        assert mine.execute("select count(*) from mine").fetchone() == (1,)


OPTIONS: list[dict[str, Any]] = [{}, {"delay": 1}, {"tags": ["a"], "expires_in": 60}, {"timeout": 1.5}]


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "delay", "tags", "timeout"])
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_the_first_statement_of_an_enqueue_begins_a_transaction(
    jobs: Rowcall, send: Task[[str], None], path: Path, many: bool, options: dict[str, Any]
) -> None:
    """The cure: the first statement is a plain INSERT, and there are no savepoints."""
    with closing(sqlite3.connect(path)) as mine:
        enqueuer = send.using(connection=mine, **options)
        _ = enqueuer.enqueue_many([{"to": "a"}, {"to": "b"}]) if many else enqueuer.enqueue("a")
        assert mine.in_transaction
        mine.rollback()
    assert jobs.stats().total == 0


def test_the_first_statement_of_a_completion_begins_a_transaction(jobs: Rowcall, path: Path) -> None:
    """The cure: it is a plain UPDATE."""
    seen: list[bool] = []

    @jobs.task(max_attempts=1)
    def work(ctx: Context) -> None:
        with closing(sqlite3.connect(path)) as mine:
            ctx.complete("done", connection=mine)
            seen.append(mine.in_transaction)
            mine.rollback()

    job = work.enqueue()
    jobs.drain()
    assert seen == [True]
    assert jobs.get(job.id).status == "failed"


# --- the driver's connection under SQLAlchemy's -----------------------------------------------------


def test_the_trap_the_driver_under_sqlalchemy_is_in_no_transaction(
    postgresql_sites: tuple[Site, Site],
) -> None:
    """asyncpg commits what is run on it before SQLAlchemy's first statement."""
    case = Case(BY_NAME["sqlalchemy-asyncpg-async-connection"], *postgresql_sites)

    async def scenario() -> None:
        engine = create_async_engine(url_for(case.site.database, "asyncpg"), poolclass=NullPool)
        async with engine.connect() as connection:
            raw = await connection.get_raw_connection()
            driver: Any = raw.driver_connection
            await driver.execute(case.note)
            await connection.rollback()
        await engine.dispose()

    asyncio.run(scenario())
    assert case.notes == 1


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("name", ["async-connection", "async-session"])
def test_an_enqueue_is_the_first_statement_of_sqlalchemys_transaction(
    postgresql_sites: tuple[Site, Site], name: str, begun: bool
) -> None:
    """The cure: all goes through `exec_driver_sql` of SQLAlchemy's own connection."""
    case = Case(BY_NAME[f"sqlalchemy-asyncpg-{name}"], *postgresql_sites)

    async def scenario(mine: Caller) -> None:
        if begun:
            await mine.begin()
        await mine.enqueue(case.send(mine), "a")
        await mine.rollback()

    case.run(scenario)
    assert case.written == []


# --- a read before the write, on SQLite -------------------------------------------------------------


@pytest.mark.parametrize("name", ["sqlite3-none", "aiosqlite-none", "django-sqlite-alias", "django-sqlite-proxy"])
def test_the_error_for_an_outdated_read_says_what_to_do(sqlite_sites: tuple[Site, Site], name: str) -> None:
    """Rowcall cannot cure that. It raises an error with advice, at once, and the transaction can still read."""
    case = Case(BY_NAME[name], *sqlite_sites)

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute("select count(*) from mine")
        case.site.send.using(queue=case.queue).enqueue("in between")
        for advice in ("BEGIN IMMEDIATE", "transaction_mode"):
            with pytest.raises(StoreUnavailable, match=advice):
                await mine.enqueue(case.send(mine), "a")
        assert await mine.execute("select 1") == [(1,)]
        await mine.rollback()
        await mine.begin()
        await mine.enqueue(case.send(mine), "b")
        await mine.commit()

    case.run(scenario)
    assert case.sent_to == ["in between", "b"]


def test_the_advice_helps(sqlite_sites: tuple[Site, Site]) -> None:
    case = Case(BY_NAME["django-sqlite-alias"], *sqlite_sites)

    async def scenario(mine: Caller) -> None:
        assert isinstance(mine, Django)
        mine.wrapper.settings_dict["OPTIONS"]["transaction_mode"] = "IMMEDIATE"
        mine.wrapper.close()
        await mine.begin()
        await mine.execute("select count(*) from mine")
        await mine.enqueue(case.send(mine), "a")
        await mine.commit()

    case.run(scenario)
    assert case.sent_to == ["a"]


# --- stricter isolation on PostgreSQL ---------------------------------------------------------------


def test_the_trap_conflicts_that_cannot_be_seen_abort_the_transaction(postgresql_sites: tuple[Site, Site]) -> None:
    """At REPEATABLE READ, even ON CONFLICT DO NOTHING."""
    site = postgresql_sites[0]
    site.execute("create table if not exists unique_note (note text primary key)")
    with connected(site.database, autocommit=False) as mine:
        mine.isolation_level = IsolationLevel.REPEATABLE_READ
        mine.execute("select 1 from unique_note")
        site.execute("insert into unique_note values ('a')")
        with pytest.raises(psycopg.errors.SerializationFailure):
            mine.execute("insert into unique_note values ('a') on conflict do nothing")
    site.execute("drop table unique_note")


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_enqueues_in_a_transaction_of_a_stricter_isolation(
    postgresql_sites: tuple[Site, Site], level: IsolationLevel
) -> None:
    """The cure: an enqueue conflicts with nothing, whatever was committed since the snapshot was taken."""
    case = Case(BY_NAME["psycopg"], *postgresql_sites)
    site = case.site
    with connected(site.database, autocommit=False) as mine:
        mine.isolation_level = level
        mine.execute("select count(*) from rowcall_job, rowcall_worker, rowcall_job_tag")
        with site.jobs.worker(queues=["nothing"]):
            for _ in range(3):
                site.send.using(queue=case.queue, tags=["a"]).enqueue("others")
                site.send.using(connection=mine, queue=case.queue, tags=["a"]).enqueue("mine")
                site.send.using(connection=mine, queue=case.queue).enqueue_many([{"to": "mine"}])
            eventually(lambda: site.jobs.workers())
        mine.commit()
    assert sorted(map(str, case.sent_to)) == ["mine"] * 6 + ["others"] * 3


# --- settings that are the caller's -----------------------------------------------------------------

PRAGMAS = [
    "foreign_keys = on",
    "foreign_keys = off",
    "recursive_triggers = on",
    "reverse_unordered_selects = on",
    "count_changes = on",
    "full_column_names = on",
    "case_sensitive_like = on",
    "ignore_check_constraints = on",
    "automatic_index = off",
    "defer_foreign_keys = on",
    "cache_size = 1",
    "encoding = 'UTF-16'",
]


@pytest.mark.parametrize("pragma", PRAGMAS)
def test_settings_of_sqlite_are_not_relied_on(jobs: Rowcall, send: Task[[str], None], path: Path, pragma: str) -> None:
    """The cure: tags by a trigger, ids in the order given, times and statuses by the statement itself."""
    with closing(sqlite3.connect(path)) as mine:
        mine.execute(f"pragma {pragma}")
        one = send.using(connection=mine, tags=["t"]).enqueue("one")
        many = send.using(connection=mine, tags=["t"]).enqueue_many([{"to": str(n)} for n in range(20)])
        mine.commit()
    assert jobs.list(tag="t", limit=100).jobs[::-1] == [one, *many]


def test_row_and_text_factories_of_sqlite_are_not_relied_on(jobs: Rowcall, send: Task[[str], None], path: Path) -> None:
    """The cure: a cursor without a row factory, and texts whatever the text factory makes of them."""
    with closing(sqlite3.connect(path, detect_types=sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES)) as mine:
        for row_factory in (sqlite3.Row, lambda cursor, row: {"row": row}, lambda cursor, row: None):
            for text_factory in (bytes, bytearray, lambda data: data.decode("latin-1")):
                mine.row_factory, mine.text_factory = row_factory, text_factory
                one = send.using(connection=mine, tags=["ä"]).enqueue("ä")
                many = send.using(connection=mine).enqueue_many([{"to": "ä"}])
                mine.commit()
                assert [jobs.get(one.id), jobs.get(many[0].id)] == [one, *many]


def test_an_app_that_does_not_trust_its_schema(jobs: Rowcall, path: Path) -> None:
    """The cure: no CHECK of Rowcall calls a function that old versions of SQLite do not trust."""
    with closing(sqlite3.connect(path)) as mine:
        mine.execute("pragma trusted_schema = off")
        mine.execute("insert into mine values (1)")
        assert mine.execute("select * from mine").fetchall() == [(1,)]


SETTINGS = {
    "timezone": "Australia/Adelaide",
    "datestyle": "German",
    "intervalstyle": "postgres_verbose",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
    "default_transaction_isolation": "serializable",
    "quote_all_identifiers": "on",
    "statement_timeout": "17s",
    "lock_timeout": "18s",
    "application_name": "mine",
    "search_path": '"$user", public, pg_temp',
}


@pytest.mark.parametrize("kind", OF_EACH_DRIVER, ids=lambda kind: kind.name)
def test_settings_of_postgresql_are_not_relied_on_and_stay(postgresql_sites: tuple[Site, Site], kind: Kind) -> None:
    """The cure: numbers and texts alone go over the wire, and every one of them is cast."""
    case = Case(kind, *postgresql_sites)

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        for name, value in SETTINGS.items():
            await mine.execute(f"select set_config('{name}', '{value}', false)")
        await mine.commit()
        await mine.begin()
        before = await settings_of(case, mine)
        one = await mine.enqueue(case.send(mine, tags=["ä"], timeout=1.25, expires_in=60, delay=60), "a\\b'c\"ä%s$1")
        many = await mine.enqueue_many(case.send(mine), [{"to": "d\\e"}, {"to": "%"}])
        assert await settings_of(case, mine) == before
        await mine.commit()
        assert case.written == [one, *many]

    case.run(scenario)
