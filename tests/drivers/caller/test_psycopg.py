"""Enqueueing inside the caller's own transaction, on the caller's own psycopg connection."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import ClientCursor, IsolationLevel, ServerCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row, dict_row, namedtuple_row, scalar_row, tuple_row
from psycopg.types.json import set_json_loads
from psycopg_pool import ConnectionPool

from rowcall import InvalidArguments, InvalidOption, Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.domain.errors import DataRefused
from rowcall.operations.enqueue import enqueue
from rowcall.store.new_job import NewJob
from rowcall.task import Task
from rowcall.testing.postgres_database import database_of
from tests.connected import Connection, connected, database_with_tables, empty
from tests.pgbouncer import PgBouncer

Send = Task[[str], None]
LEVELS = [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]


@pytest.fixture(scope="module")
def shared_url(postgres_server_url: str) -> Iterator[str]:
    with database_with_tables(postgres_server_url) as url:
        with connected(url) as connection:
            connection.execute("create table orders (id bigint generated always as identity, note text)")
        yield url


@pytest.fixture
def postgres_url(shared_url: str) -> str:
    """As good as new."""
    empty(shared_url)
    with connected(shared_url) as connection:
        connection.execute("truncate orders")
    return shared_url


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Rowcall]:
    with Rowcall(postgres_url) as jobs:
        yield jobs


@pytest.fixture
def send(jobs: Rowcall) -> Send:
    @jobs.task
    def send(to: str) -> None: ...

    return send


@pytest.fixture
def mine(jobs: Rowcall, postgres_url: str) -> Iterator[Connection]:
    """As psycopg returns it: a transaction begins with the first statement."""
    with connected(postgres_url, autocommit=False) as connection:
        yield connection


@pytest.fixture
def at_once(jobs: Rowcall, postgres_url: str) -> Iterator[Connection]:
    """Commits each statement."""
    with connected(postgres_url) as connection:
        yield connection


def status_of(mine: Connection) -> TransactionStatus:
    return mine.info.transaction_status


def receivers(jobs: Rowcall) -> list[object]:
    return [job.payload["to"] for job in reversed(jobs.list().jobs)]


# --- the caller's transaction ---------------------------------------------------------------------


@pytest.mark.parametrize("level", [None, *LEVELS])
def test_the_job_appears_with_the_commit(
    jobs: Rowcall, send: Send, mine: Connection, level: IsolationLevel | None
) -> None:
    mine.isolation_level = level
    mine.execute("insert into orders (note) values ('order')")
    job = send.using(connection=mine, tags=["a"], priority=3, delay=60, expires_in=90).enqueue("a")
    many = send.using(connection=mine).enqueue_many([{"to": "b"}, {"to": "c"}])
    assert status_of(mine) == TransactionStatus.INTRANS
    assert jobs.list().jobs == []
    mine.commit()
    assert [jobs.get(one.id) for one in (job, *many)] == [job, *many]
    assert mine.execute("select note from orders").fetchall() == [("order",)]


@pytest.mark.parametrize("level", [None, *LEVELS])
def test_the_job_goes_with_the_rollback(
    jobs: Rowcall, send: Send, mine: Connection, level: IsolationLevel | None
) -> None:
    mine.isolation_level = level
    mine.execute("insert into orders (note) values ('order')")
    send.using(connection=mine).enqueue("a")
    send.using(connection=mine).enqueue_many([{"to": "b"}, {"to": "c"}])
    mine.rollback()
    assert jobs.list().jobs == []
    assert mine.execute("select note from orders").fetchall() == []


def test_the_first_statement_begins_the_callers_transaction(jobs: Rowcall, send: Send, mine: Connection) -> None:
    calls: list[Callable[[], object]] = [
        lambda: send.using(connection=mine).enqueue("a"),
        lambda: send.using(connection=mine).enqueue_many([{"to": "a"}]),
    ]
    for call in calls:
        assert status_of(mine) == TransactionStatus.IDLE
        call()
        assert status_of(mine) == TransactionStatus.INTRANS
        mine.rollback()
    assert jobs.list().jobs == []


def test_without_a_transaction_an_autocommitting_connection_commits_at_once(
    jobs: Rowcall, send: Send, at_once: Connection
) -> None:
    job = send.using(connection=at_once).enqueue("a")
    many = send.using(connection=at_once).enqueue_many([{"to": "b"}, {"to": "c"}])
    assert status_of(at_once) == TransactionStatus.IDLE
    assert [jobs.get(one.id) for one in (job, *many)] == [job, *many]


@pytest.mark.parametrize("autocommit", [True, False])
def test_in_blocks_of_transactions(jobs: Rowcall, send: Send, postgres_url: str, autocommit: bool) -> None:
    with connected(postgres_url, autocommit=autocommit) as mine:
        with mine.transaction():
            send.using(connection=mine).enqueue("kept")
            with mine.transaction(force_rollback=True):
                send.using(connection=mine).enqueue("undone")
            with pytest.raises(ZeroDivisionError), mine.transaction():
                send.using(connection=mine).enqueue(str(1 / 0))
            send.using(connection=mine).enqueue("after")
            assert jobs.list().jobs == []
        with mine.transaction(force_rollback=True):
            send.using(connection=mine).enqueue("never")
    assert receivers(jobs) == ["kept", "after"]


def test_with_a_savepoint(jobs: Rowcall, send: Send, mine: Connection) -> None:
    send.using(connection=mine).enqueue("kept")
    mine.execute("savepoint inner_one")
    send.using(connection=mine).enqueue("undone")
    mine.execute("rollback to inner_one")
    send.using(connection=mine).enqueue("again")
    mine.commit()
    assert receivers(jobs) == ["kept", "again"]


def test_after_a_failed_statement_and_a_savepoint(jobs: Rowcall, send: Send, mine: Connection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), mine.transaction():
        mine.execute("select 1 / 0")
    send.using(connection=mine).enqueue("a")
    mine.commit()
    assert receivers(jobs) == ["a"]


def test_by_name_too(jobs: Rowcall, mine: Connection) -> None:
    job = jobs.enqueue("elsewhere", {"a": 1}, connection=mine, priority=3)
    mine.commit()
    assert jobs.get(job.id).payload == {"a": 1}


def test_a_bulk_of_a_thousand(jobs: Rowcall, send: Send, mine: Connection) -> None:
    written = send.using(connection=mine, tags=["bulk"]).enqueue_many({"to": str(n)} for n in range(1000))
    mine.commit()
    assert [job.payload for job in written] == [{"to": str(n)} for n in range(1000)]
    assert [jobs.get(job.id) for job in written[::100]] == written[::100]
    assert jobs.stats().total == 1000


def test_a_connection_of_a_pool(jobs: Rowcall, send: Send, postgres_url: str) -> None:
    with ConnectionPool(postgres_url, min_size=1, max_size=1, open=True) as pool:
        with pool.connection() as mine:
            send.using(connection=mine).enqueue("a")
        with pytest.raises(ZeroDivisionError), pool.connection() as mine:
            send.using(connection=mine).enqueue(str(1 / 0))
    assert receivers(jobs) == ["a"]


# --- the caller's settings ------------------------------------------------------------------------


@dataclass
class Something:
    id: int = 0


@pytest.mark.parametrize(
    "row_factory", [tuple_row, dict_row, namedtuple_row, class_row(Something), scalar_row, lambda cursor: list]
)
@pytest.mark.parametrize("autocommit", [True, False])
def test_rows_may_come_as_anything(
    jobs: Rowcall, send: Send, postgres_url: str, row_factory: Any, autocommit: bool
) -> None:
    with closing(psycopg.connect(postgres_url, autocommit=autocommit, row_factory=row_factory)) as mine:
        job = send.using(connection=mine, tags=["a"], expires_in=60).enqueue("ä")
        many = send.using(connection=mine).enqueue_many([{"to": "b"}])
        assert mine.row_factory is row_factory
        if not autocommit:
            mine.commit()
    assert [jobs.get(job.id), jobs.get(many[0].id)] == [job, *many]


@pytest.mark.parametrize("cursor_factory", [ClientCursor, psycopg.RawCursor])
def test_cursors_may_be_of_any_kind(jobs: Rowcall, send: Send, mine: Connection, cursor_factory: Any) -> None:
    mine.cursor_factory = cursor_factory
    mine.server_cursor_factory = ServerCursor
    job = send.using(connection=mine).enqueue("a % b $1 ä")
    mine.commit()
    assert mine.cursor_factory is cursor_factory
    assert jobs.get(job.id) == job


class Shouting(psycopg.adapt.Loader):
    def load(self, data: bytes | bytearray | memoryview) -> str:
        return f"{bytes(data).decode()}!"


class Silent(psycopg.adapt.Dumper):
    oid = psycopg.adapters.types["text"].oid

    def dump(self, value: object) -> bytes:
        return b""


def test_types_may_be_read_and_written_as_the_caller_likes(jobs: Rowcall, send: Send, mine: Connection) -> None:
    for name in ("int2", "int4", "int8", "text", "bool", "json", "jsonb", "timestamptz", "numeric"):
        mine.adapters.register_loader(name, Shouting)
    for kind in (int, str, float):
        mine.adapters.register_dumper(kind, Silent)
    set_json_loads(lambda data: "nothing", mine)
    job = send.using(connection=mine, priority=3, timeout=1.5).enqueue("a")
    many = send.using(connection=mine).enqueue_many([{"to": "b"}, {"to": "c"}])
    assert mine.execute("select 5").fetchone() == ("5!",)
    mine.commit()
    assert [jobs.get(one.id) for one in (job, *many)] == [job, *many]


SETTINGS = {
    "TimeZone": "Australia/Adelaide",
    "DateStyle": "German",
    "IntervalStyle": "postgres_verbose",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "plan_cache_mode": "force_generic_plan",
    "statement_timeout": "17s",
    "lock_timeout": "18s",
    "application_name": "mine",
    "enable_seqscan": "off",
    "search_path": '"$user", public, pg_temp',
    "rowcall.notifies": "",
}


def settings_of(mine: Connection) -> list[object]:
    return [mine.execute("select current_setting(%s, true)", [name]).fetchone() for name in SETTINGS]


def test_settings_of_the_connection_are_the_callers_and_stay(jobs: Rowcall, send: Send, mine: Connection) -> None:
    for name, value in SETTINGS.items():
        mine.execute("select set_config(%s, %s, false)", [name, value])
    mine.commit()
    before = settings_of(mine), mine.autocommit, mine.isolation_level, mine.prepare_threshold, mine.read_only
    job = send.using(connection=mine, expires_in=60, timeout=1.25).enqueue("a\\b'c")
    many = send.using(connection=mine).enqueue_many([{"to": "d\\e"}])
    after = settings_of(mine), mine.autocommit, mine.isolation_level, mine.prepare_threshold, mine.read_only
    mine.commit()
    assert after == before
    assert settings_of(mine) == before[0]
    assert [jobs.get(job.id), jobs.get(many[0].id)] == [job, *many]


def test_an_encoding_of_the_callers(jobs: Rowcall, send: Send, mine: Connection) -> None:
    mine.execute("set client_encoding to latin1")
    job = send.using(connection=mine).enqueue("ä")
    mine.commit()
    assert jobs.get(job.id) == job


def test_what_the_callers_encoding_cannot_hold(jobs: Rowcall, send: Send, mine: Connection) -> None:
    mine.execute("set client_encoding to latin1")
    with pytest.raises((DataRefused, InvalidOption), match="client_encoding"):
        send.using(connection=mine).enqueue("€")
    assert status_of(mine) == TransactionStatus.INTRANS


@pytest.mark.parametrize("autocommit", [True, False])
def test_in_a_pipeline(jobs: Rowcall, send: Send, postgres_url: str, autocommit: bool) -> None:
    with connected(postgres_url, autocommit=autocommit) as mine:
        with mine.pipeline():
            mine.execute("insert into orders (note) values ('before')")
            job = send.using(connection=mine).enqueue("a")
            many = send.using(connection=mine).enqueue_many([{"to": "b"}, {"to": "c"}])
            mine.execute("insert into orders (note) values ('after')")
        if not autocommit:
            assert jobs.list().jobs == []
            mine.commit()
        assert mine.execute("select note from orders order by id").fetchall() == [("before",), ("after",)]
    assert [jobs.get(one.id) for one in (job, *many)] == [job, *many]


def test_in_a_pipeline_that_has_failed(jobs: Rowcall, send: Send, mine: Connection) -> None:
    def enqueue_after_a_failure() -> None:
        with mine.pipeline():
            mine.execute("select 1 / 0")
            send.using(connection=mine).enqueue("a")

    with pytest.raises((StoreUnavailable, psycopg.Error), match="division by zero"):
        enqueue_after_a_failure()
    mine.rollback()
    send.using(connection=mine).enqueue("b")
    mine.commit()
    assert receivers(jobs) == ["b"]


def test_behind_a_pooler(jobs: Rowcall, send: Send, postgres_url: str, pgbouncer: PgBouncer) -> None:
    with connected(pgbouncer.url(database_of(postgres_url)), autocommit=False) as mine:
        mine.prepare_threshold = None
        for number in range(8):
            send.using(connection=mine).enqueue(str(number))
            mine.commit()
    assert receivers(jobs) == [str(number) for number in range(8)]


# --- refused --------------------------------------------------------------------------------------


def refused(mine: Connection, send: Send, jobs: Rowcall) -> list[Callable[[], object]]:
    send_on_mine = send.using(connection=mine)
    return [
        lambda: send_on_mine.enqueue(5),  # type: ignore[arg-type]
        lambda: send_on_mine.enqueue("a\0b"),
        lambda: send_on_mine.enqueue("\ud800"),
        lambda: send_on_mine.enqueue_many([{"to": "a"}, {"to": 5}]),
        lambda: send.using(connection=mine, delay=-1).enqueue("a"),
        lambda: send.using(connection=mine, priority=2**31).enqueue("a"),
        lambda: send.using(connection=mine, tags=["x" * 5000]).enqueue("a"),
        lambda: jobs.enqueue("x", {"a": object()}, connection=mine),
        lambda: jobs.enqueue("", connection=mine),
        lambda: jobs.enqueue("x" * 500, connection=mine),
    ]


def test_a_refused_call_leaves_the_callers_transaction_as_it_was(jobs: Rowcall, send: Send, mine: Connection) -> None:
    mine.execute("insert into orders (note) values ('first')")
    for call in refused(mine, send, jobs):
        with pytest.raises((InvalidArguments, InvalidOption)):
            call()
        assert status_of(mine) == TransactionStatus.INTRANS
    job = send.using(connection=mine).enqueue("good")
    mine.commit()
    assert mine.execute("select count(*) from orders").fetchone() == (1,)
    assert jobs.list().jobs == [job]


def test_a_transaction_that_has_failed_already(jobs: Rowcall, send: Send, mine: Connection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        mine.execute("select 1 / 0")
    with pytest.raises(InvalidOption, match=r"connection is in a transaction that has already failed; roll it back"):
        send.using(connection=mine).enqueue("a")
    mine.rollback()
    send.using(connection=mine).enqueue("b")
    mine.commit()
    assert receivers(jobs) == ["b"]


def test_a_closed_connection(send: Send, mine: Connection) -> None:
    mine.close()
    with pytest.raises(InvalidOption, match=r"connection:? .*closed"):
        send.using(connection=mine).enqueue("a")


def test_a_connection_that_was_cut(send: Send, mine: Connection, at_once: Connection) -> None:
    at_once.execute("select pg_terminate_backend(%s, 20000)", [mine.info.backend_pid])
    with pytest.raises(StoreUnavailable, match="the caller's connection: the connection was lost"):
        send.using(connection=mine).enqueue("a")
    with pytest.raises(InvalidOption, match=r"connection:? .*closed"):
        send.using(connection=mine).enqueue("a")


@pytest.mark.parametrize("connection", [5, object(), Rowcall, psycopg.connect])
def test_another_kind_of_object_is_refused(send: Send, connection: object) -> None:
    with pytest.raises(InvalidOption, match=r"connection must be .*psycopg\.Connection.* got \w+\.\w+") as caught:
        send.using(connection=connection).enqueue("a")
    assert caught.value.option == "connection"


def test_a_factory_of_connections_is_refused(send: Send, postgres_url: str, mine: Connection) -> None:
    for near in (postgres_url, mine.cursor(), mine.info, mine.pgconn):
        with pytest.raises(InvalidOption, match=r"connection:? "):
            send.using(connection=near).enqueue("a")


def test_a_connection_to_another_kind_of_database_is_refused(send: Send) -> None:
    with closing(sqlite3.connect(":memory:")) as other, pytest.raises(InvalidOption, match=r"connection:? "):
        send.using(connection=other).enqueue("a")


def test_a_connection_that_may_only_read(send: Send, mine: Connection) -> None:
    mine.read_only = True
    with pytest.raises(StoreUnavailable, match="the caller's connection is read-only"):
        send.using(connection=mine).enqueue("a")


def test_a_search_path_that_does_not_lead_to_the_tables_is_of_no_importance(
    jobs: Rowcall, send: Send, mine: Connection
) -> None:
    mine.execute("set search_path to pg_catalog")
    job = send.using(connection=mine).enqueue("a")
    mine.commit()
    assert jobs.get(job.id).payload == {"to": "a"}


def test_a_connection_whose_statements_are_cancelled(send: Send, mine: Connection, at_once: Connection) -> None:
    with at_once.transaction():
        at_once.execute("lock table rowcall_job")
        mine.execute("set local statement_timeout = 10")
        with pytest.raises(StoreUnavailable, match="the caller's connection: the server cancelled the statement"):
            send.using(connection=mine).enqueue("a")


def test_values_that_only_the_table_refuses(jobs: Rowcall, mine: Connection) -> None:
    with pytest.raises(DataRefused, match="the caller's connection refuses the values"):
        queue_of(jobs).run(enqueue(queue_of(jobs), NewJob(type="task", queue="q" * 300), "{}", mine))


def test_async_code_must_call_the_sync_method(jobs: Rowcall, send: Send, mine: Connection) -> None:
    calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
        lambda: send.using(connection=mine).aenqueue("a"),
        lambda: send.using(connection=mine).aenqueue_many([{"to": "a"}]),
        lambda: jobs.aenqueue("send", {"to": "a"}, connection=mine),
    ]
    for call in calls:
        with pytest.raises(InvalidOption, match="not async"):
            asyncio.run(call())
    assert jobs.list().jobs == []


# --- beside ---------------------------------------------------------------------------------------


def test_a_connection_may_be_used_from_another_thread(jobs: Rowcall, send: Send, mine: Connection) -> None:
    thread = threading.Thread(target=lambda: send.using(connection=mine).enqueue("a"))
    thread.start()
    thread.join(20)
    mine.commit()
    assert receivers(jobs) == ["a"]


def test_tables_are_made_beside_an_open_transaction(postgres_url: str) -> None:
    """On Rowcall's own connection: the caller's rollback does not undo them."""
    with connected(postgres_url, autocommit=False) as mine, Rowcall(postgres_url, table_prefix="other_") as jobs:
        mine.execute("insert into orders (note) values ('order')")
        jobs.enqueue("task", connection=mine)
        mine.rollback()
        assert jobs.stats().total == 0
        jobs.enqueue("task", connection=mine)
        mine.commit()
        assert jobs.stats().total == 1


def test_the_callers_connection_is_not_kept_alive(send: Send, postgres_url: str) -> None:
    mine = psycopg.connect(postgres_url)
    send.using(connection=mine).enqueue("a")
    mine.close()
    gone = weakref.ref(mine)
    del mine
    gc.collect()
    assert gone() is None


def test_an_enqueue_costs_one_statement(jobs: Rowcall, send: Send, mine: Connection) -> None:
    """No savepoint, no question: what runs inside the caller's transaction is the insert alone."""
    send.using(connection=mine).enqueue("first")  # a connection is checked at its first use
    seen: list[str] = []
    mine.add_notice_handler(lambda notice: seen.append(str(notice.message_primary)))
    mine.execute("set local client_min_messages = log")
    mine.execute("set local log_statement = 'all'")
    send.using(connection=mine).enqueue("a")
    send.using(connection=mine).enqueue_many([{"to": "b"}, {"to": "c"}])
    mine.execute("set local log_statement = 'none'")
    inserts = [text for text in seen if "insert into public.rowcall_job" in text]
    others = [text for text in seen if "rowcall_job" not in text and "log_statement" not in text]
    assert len(inserts) == 2
    assert others == []
