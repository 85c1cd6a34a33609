"""What only one driver or framework has. The other modules test what all connections have in common."""

from __future__ import annotations

import asyncio
import functools
import gc
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg import ClientCursor, ServerCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row, dict_row, namedtuple_row, scalar_row, tuple_row
from sqlalchemy import orm
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from rowcall import InvalidOption, Job, Rowcall, SchemaMismatch, StoreUnavailable
from rowcall.app import queue_of
from rowcall.domain.errors import DataRefused
from rowcall.operations.enqueue import enqueue
from rowcall.store.new_job import NewJob
from rowcall.task import Enqueuer
from rowcall.testing.postgres_database import database_of
from rowcall.testing.process import PythonProcess
from tests.connected import Connection, connected
from tests.drivers.caller import test_connection
from tests.drivers.caller.callers.base import Caller, Kind
from tests.drivers.caller.callers.kinds import BY_NAME, KINDS
from tests.drivers.caller.callers.psycopg_callers import Something
from tests.drivers.caller.callers.sqlalchemy_callers import url_for
from tests.drivers.caller.queue_site import Case, Site
from tests.drivers.caller.test_kinds import refusal
from tests.pgbouncer import PgBouncer


@pytest.fixture
def on_sqlite(sqlite_sites: tuple[Site, Site]) -> Case:
    return Case(BY_NAME["sqlite3-legacy"], *sqlite_sites)


@pytest.fixture
def on_psycopg(postgresql_sites: tuple[Site, Site]) -> Case:
    return Case(BY_NAME["psycopg"], *postgresql_sites)


@pytest.fixture
def mine(on_psycopg: Case) -> Iterator[Connection]:
    """As psycopg returns it: a transaction begins with the first statement."""
    with connected(on_psycopg.site.database, autocommit=False) as connection:
        yield connection


def send(case: Case, connection: object, **options: Any) -> Enqueuer[[str], Any]:
    return case.site.send.using(connection=connection, queue=case.queue, **options)


# --- modes: each of them, however few kinds of connections the other tests run on -------------------

MODES = [
    kind for kind in KINDS if kind.name.startswith("sqlite3") or kind.name in ("psycopg-autocommit", "psycopg-pool")
]


@pytest.mark.parametrize(
    "check",
    [
        test_connection.test_commit,
        test_connection.test_rollback,
        test_connection.test_rollback_of_nothing_but_the_enqueue,
        test_connection.test_savepoint_rollback,
        functools.partial(test_connection.test_refused, refused=test_connection.wrong_arguments),
    ],
    ids=["commit", "rollback", "first statement", "savepoint", "refused"],
)
@pytest.mark.parametrize("kind", MODES, ids=lambda kind: kind.name)
def test_every_mode(request: pytest.FixtureRequest, kind: Kind, check: Callable[[Case], None]) -> None:
    check(Case(kind, *request.getfixturevalue(f"{kind.database}_sites")))


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_values_that_only_the_table_refuses(request: pytest.FixtureRequest, database: str) -> None:
    case = Case(
        BY_NAME["sqlite3-legacy" if database == "sqlite" else "psycopg"], *request.getfixturevalue(f"{database}_sites")
    )
    queue = queue_of(case.jobs)

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        with pytest.raises(DataRefused, match=r"(app\.db|the caller's connection) refuses the values"):
            queue.run(enqueue(queue, NewJob(type="task", queue="q" * 300), "{}", mine.connection))
        await mine.rollback()

    case.run(scenario)


# --- sqlite3 ----------------------------------------------------------------------------------------


def test_a_transaction_on_a_file_without_tables_must_migrate_first(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    with Rowcall(path, busy_timeout=0.2) as jobs, closing(sqlite3.connect(path, isolation_level=None)) as mine:
        mine.execute("create table mine (id integer)")
        mine.execute("begin immediate")
        mine.execute("insert into mine values (1)")
        with pytest.raises((StoreUnavailable, SchemaMismatch), match="migrate"):
            jobs.enqueue("task", connection=mine)
        mine.execute("commit")
        jobs.migrate()
        mine.execute("begin immediate")
        jobs.enqueue("task", connection=mine)
        mine.execute("commit")
        assert jobs.stats().total == 1


def test_a_connection_of_sqlite3_is_not_kept_alive(on_sqlite: Case) -> None:
    class OfMine(sqlite3.Connection):
        """A plain one cannot be referred to weakly."""

    mine = sqlite3.connect(on_sqlite.site.database, factory=OfMine)
    send(on_sqlite, mine).enqueue("a")
    mine.commit()
    gone = weakref.ref(mine)
    mine.close()
    del mine
    gc.collect()
    assert gone() is None


def test_a_new_connection_at_the_same_address_is_checked_again(tmp_path: Path) -> None:
    """Identities come again: the second connection is very often where the first one was."""
    with Rowcall(tmp_path / "mine.db") as mine, Rowcall(tmp_path / "other.db") as other:
        for queue in (mine, other):
            queue.migrate()
        for _ in range(20):
            connection = sqlite3.connect(tmp_path / "mine.db")
            for _ in range(3):
                mine.enqueue("first", connection=connection)
            connection.close()
            del connection
            gc.collect()
            with (
                closing(sqlite3.connect(tmp_path / "other.db")) as connection,
                pytest.raises(InvalidOption, match=r"other\.db, but this queue is in"),
            ):
                mine.enqueue("second", connection=connection)
        assert mine.stats().total == other.stats().total == 0


def test_methods_of_a_subclass_are_not_called(on_sqlite: Case) -> None:
    """Whose `execute` may do anything."""

    class OfMine(sqlite3.Connection):
        def execute(self, *arguments: object) -> sqlite3.Cursor:
            raise AssertionError(arguments)

    with closing(sqlite3.connect(on_sqlite.site.database, factory=OfMine)) as mine:
        for to in ("a", "b"):
            send(on_sqlite, mine).enqueue(to)
        mine.commit()
    assert on_sqlite.sent_to == ["a", "b"]


@pytest.mark.parametrize("level", [None, "IMMEDIATE"], ids=["autocommit", "transaction"])
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_threads_that_share_one_connection_get_their_own_ids(
    on_sqlite: Case, level: Literal["IMMEDIATE"] | None, many: bool
) -> None:
    at_once = threading.Barrier(2)

    def enqueue(mine: sqlite3.Connection, name: str) -> list[Job]:
        at_once.wait()
        using = send(on_sqlite, mine)
        if many:
            rows = [{"to": f"{name} {number}"} for number in range(40)]
            return [job for row in rows for job in using.enqueue_many([row, row])]
        return [using.enqueue(f"{name} {number}") for number in range(40)]

    database = on_sqlite.site.database
    with closing(sqlite3.connect(database, check_same_thread=False, isolation_level=level)) as connection:
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(enqueue, connection, name) for name in ("a", "b")]
        written = [job for future in both for job in future.result()]
        connection.commit()
    assert len({job.id for job in written}) == len(written)
    assert [on_sqlite.jobs.get(job.id).payload for job in written] == [job.payload for job in written]


def test_errors_on_a_connection_that_was_used_before(tmp_path: Path) -> None:
    with (
        Rowcall(tmp_path / "app.db") as jobs,
        closing(sqlite3.connect(tmp_path / "app.db", timeout=0)) as connection,
        closing(sqlite3.connect(tmp_path / "app.db", timeout=0)) as other,
    ):
        for _ in range(2):
            jobs.enqueue("first", connection=connection)
        connection.commit()
        other.execute("begin immediate")
        with pytest.raises(StoreUnavailable, match="locked"):
            jobs.enqueue("second", connection=connection)
        other.rollback()
        assert jobs.enqueue("third", connection=connection).id == 3
        connection.close()
        with pytest.raises(InvalidOption, match="closed"):
            jobs.enqueue("fourth", connection=connection)


# --- psycopg ----------------------------------------------------------------------------------------


def test_after_a_failed_statement_and_a_savepoint(on_psycopg: Case, mine: Connection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), mine.transaction():
        mine.execute("select 1 / 0")
    send(on_psycopg, mine).enqueue("a")
    mine.commit()
    assert on_psycopg.sent_to == ["a"]


@pytest.mark.parametrize(
    "row_factory", [tuple_row, dict_row, namedtuple_row, class_row(Something), scalar_row, lambda cursor: list]
)
@pytest.mark.parametrize("autocommit", [True, False])
def test_rows_may_come_as_anything(on_psycopg: Case, row_factory: Any, autocommit: bool) -> None:
    database = on_psycopg.site.database
    with closing(psycopg.connect(database, autocommit=autocommit, row_factory=row_factory)) as mine:
        job = send(on_psycopg, mine, tags=["a"], expires_in=60).enqueue("ä")
        many = send(on_psycopg, mine).enqueue_many([{"to": "b"}])
        assert mine.row_factory is row_factory
        if not autocommit:
            mine.commit()
    assert on_psycopg.written == [job, *many]


@pytest.mark.parametrize("cursor_factory", [ClientCursor, psycopg.RawCursor])
def test_cursors_may_be_of_any_kind(on_psycopg: Case, mine: Connection, cursor_factory: Any) -> None:
    mine.cursor_factory = cursor_factory
    mine.server_cursor_factory = ServerCursor
    job = send(on_psycopg, mine).enqueue("a % b $1 ä")
    mine.commit()
    assert mine.cursor_factory is cursor_factory
    assert on_psycopg.written == [job]


def test_an_encoding_of_the_callers(on_psycopg: Case, mine: Connection) -> None:
    mine.execute("set client_encoding to latin1")
    job = send(on_psycopg, mine).enqueue("ä")
    with pytest.raises((DataRefused, InvalidOption), match="client_encoding"):
        send(on_psycopg, mine).enqueue("€")
    assert mine.info.transaction_status == TransactionStatus.INTRANS
    mine.commit()
    assert on_psycopg.written == [job]


@pytest.mark.parametrize("autocommit", [True, False])
def test_in_a_pipeline(on_psycopg: Case, autocommit: bool) -> None:
    with connected(on_psycopg.site.database, autocommit=autocommit) as mine:
        with mine.pipeline():
            mine.execute(on_psycopg.note.encode())
            job = send(on_psycopg, mine).enqueue("a")
            many = send(on_psycopg, mine).enqueue_many([{"to": "b"}, {"to": "c"}])
            mine.execute(on_psycopg.note.encode())
        if not autocommit:
            assert on_psycopg.written == []
            mine.commit()
    assert on_psycopg.notes == 2
    assert on_psycopg.written == [job, *many]


def test_in_a_pipeline_that_has_failed(on_psycopg: Case, mine: Connection) -> None:
    def enqueue_after_a_failure() -> None:
        with mine.pipeline():
            mine.execute("select 1 / 0")
            send(on_psycopg, mine).enqueue("a")

    with pytest.raises((StoreUnavailable, psycopg.Error), match="division by zero"):
        enqueue_after_a_failure()
    mine.rollback()
    send(on_psycopg, mine).enqueue("b")
    mine.commit()
    assert on_psycopg.sent_to == ["b"]


def test_a_connection_that_was_cut_is_closed_from_then_on(on_psycopg: Case, mine: Connection) -> None:
    on_psycopg.site.execute(f"select pg_terminate_backend({mine.info.backend_pid}, 20000)")
    with pytest.raises(StoreUnavailable, match="the caller's connection: the connection was lost"):
        send(on_psycopg, mine).enqueue("a")
    with pytest.raises(InvalidOption, match=r"connection:? .*closed"):
        send(on_psycopg, mine).enqueue("a")


def test_a_connection_that_may_only_read(on_psycopg: Case, mine: Connection) -> None:
    mine.read_only = True
    with pytest.raises(StoreUnavailable, match="the caller's connection is read-only"):
        send(on_psycopg, mine).enqueue("a")


def test_a_connection_whose_statements_are_cancelled(on_psycopg: Case, mine: Connection) -> None:
    with connected(on_psycopg.site.database, autocommit=False) as other:
        other.execute("lock table rowcall_job")
        mine.execute("set local statement_timeout = 10")
        with pytest.raises(StoreUnavailable, match="the caller's connection: the server cancelled the statement"):
            send(on_psycopg, mine).enqueue("a")


def test_a_connection_of_psycopg_may_be_used_from_another_thread(on_psycopg: Case, mine: Connection) -> None:
    thread = threading.Thread(target=lambda: send(on_psycopg, mine).enqueue("a"))
    thread.start()
    thread.join(20)
    mine.commit()
    assert on_psycopg.sent_to == ["a"]


def test_tables_are_made_next_to_an_open_transaction(on_psycopg: Case, mine: Connection) -> None:
    """On Rowcall's own connection: the caller's rollback does not undo them."""
    with Rowcall(on_psycopg.site.database, table_prefix="other_") as jobs:
        mine.execute(on_psycopg.note.encode())
        jobs.enqueue("task", connection=mine)
        mine.rollback()
        assert jobs.stats().total == 0
        jobs.enqueue("task", connection=mine)
        mine.commit()
        assert jobs.stats().total == 1


def test_an_enqueue_costs_one_statement(on_psycopg: Case, mine: Connection) -> None:
    """No savepoint, no question: what runs inside the caller's transaction is the insert alone."""
    send(on_psycopg, mine).enqueue("first")  # a connection is checked at its first use
    seen: list[str] = []
    mine.add_notice_handler(lambda notice: seen.append(str(notice.message_primary)))
    mine.execute("set local client_min_messages = log")
    mine.execute("set local log_statement = 'all'")
    send(on_psycopg, mine).enqueue("a")
    send(on_psycopg, mine).enqueue_many([{"to": "b"}, {"to": "c"}])
    mine.execute("set local log_statement = 'none'")
    inserts = [text for text in seen if "insert into public.rowcall_job" in text]
    others = [text for text in seen if "rowcall_job" not in text and "log_statement" not in text]
    assert len(inserts) == 2
    assert others == []


# --- asyncpg ----------------------------------------------------------------------------------------


def test_asyncpg_behind_a_pooler(postgresql_sites: tuple[Site, Site], pgbouncer: PgBouncer) -> None:
    case = Case(BY_NAME["asyncpg"], *postgresql_sites)

    async def scenario() -> None:
        database = pgbouncer.url(database_of(case.site.database))
        connection = await asyncpg.connect(database, statement_cache_size=0)
        for number in range(8):
            transaction = connection.transaction()
            await transaction.start()
            await case.site.send.using(connection=connection, queue=case.queue).aenqueue(str(number))
            await (transaction.commit() if number % 2 else transaction.rollback())
        await connection.close()

    asyncio.run(scenario())
    assert case.sent_to == ["1", "3", "5", "7"]


def test_numbers_that_asyncpg_returns_as_text_since(postgresql_sites: tuple[Site, Site]) -> None:
    case = Case(BY_NAME["asyncpg"], *postgresql_sites)

    async def scenario(mine: Caller) -> None:
        connection: Any = mine.connection
        await mine.begin()
        await mine.enqueue(case.send(mine), "known")
        await connection.set_type_codec("int8", schema="pg_catalog", encoder=str, decoder=str)
        job = await mine.enqueue(case.send(mine), "after")
        await mine.commit()
        assert case.written[1] == job

    case.run(scenario)


# --- Django -----------------------------------------------------------------------------------------


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
        async def next_to_a_loop() -> None:
            with pytest.raises(InvalidOption, match="async"):
                case.send(mine).enqueue("a")
            with pytest.raises(InvalidOption, match="async"):
                await case.send(mine).aenqueue("a")

        asyncio.run(next_to_a_loop())

    case.run(scenario)


# --- SQLAlchemy -------------------------------------------------------------------------------------


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
