"""Enqueueing inside the caller's own transaction, on the caller's own sqlite3 connection."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sqlite3
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from rowcall import InvalidArguments, InvalidOption, Job, Rowcall, SchemaMismatch, StoreUnavailable
from rowcall.app import queue_of
from rowcall.operations.enqueue import enqueue
from rowcall.store.new_job import NewJob
from rowcall.task import Task

Isolation = Literal["DEFERRED", "IMMEDIATE", "EXCLUSIVE"] | None
OPENS_BY_ITSELF = cast(list[Isolation], ["", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
ALL_LEVELS: list[Isolation] = [None, *OPENS_BY_ITSELF]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def jobs(path: Path) -> Iterator[Rowcall]:
    with Rowcall(path, busy_timeout=0.2) as jobs:
        jobs.migrate()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("create table mine (id integer primary key, note text)")
        yield jobs


@pytest.fixture
def send(jobs: Rowcall) -> Task[[str], None]:
    @jobs.task
    def send(to: str) -> None: ...

    return send


def connect(path: Path, level: Isolation = None) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=level, timeout=1)


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_the_job_appears_with_the_commit(jobs: Rowcall, send: Task[[str], None], path: Path, level: Isolation) -> None:
    with closing(connect(path, level)) as mine:
        if level is None:
            mine.execute("begin")
        mine.execute("insert into mine (note) values ('order')")
        job = send.using(connection=mine).enqueue("a")
        assert mine.in_transaction
        assert jobs.list().jobs == []
        mine.commit()
        assert jobs.get(job.id) == job
        assert mine.execute("select note from mine").fetchall() == [("order",)]


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_the_job_goes_with_the_rollback(jobs: Rowcall, send: Task[[str], None], path: Path, level: Isolation) -> None:
    with closing(connect(path, level)) as mine:
        if level is None:
            mine.execute("begin immediate")
        mine.execute("insert into mine (note) values ('order')")
        send.using(connection=mine).enqueue("a")
        send.using(connection=mine).enqueue_many([{"to": "b"}, {"to": "c"}])
        mine.rollback()
        assert not mine.in_transaction
        assert mine.execute("select count(*) from mine").fetchone() == (0,)
    assert jobs.list().jobs == []


def test_without_a_transaction_an_autocommitting_connection_commits_at_once(
    jobs: Rowcall, send: Task[[str], None], path: Path
) -> None:
    with closing(connect(path, None)) as mine:
        job = send.using(connection=mine).enqueue("a")
        assert not mine.in_transaction
        assert jobs.get(job.id) == job
        many = send.using(connection=mine).enqueue_many([{"to": "b"}, {"to": "c"}])
        assert not mine.in_transaction
        assert [jobs.get(job.id) for job in many] == many


@pytest.mark.parametrize("level", OPENS_BY_ITSELF)
def test_a_connection_that_opens_transactions_by_itself_does_so_for_an_enqueue_too(
    jobs: Rowcall, send: Task[[str], None], path: Path, level: Isolation
) -> None:
    with closing(connect(path, level)) as mine:
        enqueuer = send.using(connection=mine)
        calls: list[Callable[[], object]] = [
            lambda: enqueuer.enqueue("a"),
            lambda: enqueuer.enqueue_many([{"to": "a"}]),
        ]
        for enqueue in calls:
            assert not mine.in_transaction
            enqueue()
            assert mine.in_transaction
            mine.rollback()
    assert jobs.list().jobs == []


def test_with_a_savepoint(jobs: Rowcall, send: Task[[str], None], path: Path) -> None:
    with closing(connect(path, None)) as mine:
        mine.execute("begin")
        kept = send.using(connection=mine).enqueue("kept")
        mine.execute("savepoint inner")
        send.using(connection=mine).enqueue("undone")
        mine.execute("rollback to inner")
        again = send.using(connection=mine).enqueue("again")
        mine.execute("release inner")
        mine.execute("commit")
    assert [job.payload for job in jobs.list().jobs] == [{"to": "again"}, {"to": "kept"}]
    assert {job.id for job in jobs.list().jobs} == {kept.id, again.id}


def test_with_sqlite3s_own_context_manager(jobs: Rowcall, send: Task[[str], None], path: Path) -> None:
    with closing(sqlite3.connect(path)) as mine:
        with mine:
            mine.execute("insert into mine (note) values ('order')")
            send.using(connection=mine).enqueue("a")
        with contextlib.suppress(ZeroDivisionError), mine:
            send.using(connection=mine).enqueue("b")
            raise ZeroDivisionError
    assert [job.payload for job in jobs.list().jobs] == [{"to": "a"}]


def test_by_name_too(jobs: Rowcall, path: Path) -> None:
    with closing(connect(path, None)) as mine:
        mine.execute("begin")
        job = jobs.enqueue("elsewhere", {"a": 1}, connection=mine, priority=3)
        mine.execute("commit")
    assert jobs.get(job.id).payload == {"a": 1}


def test_a_bulk_of_a_thousand(jobs: Rowcall, send: Task[[str], None], path: Path) -> None:
    with closing(sqlite3.connect(path)) as mine:
        written = send.using(connection=mine, tags=["bulk"]).enqueue_many({"to": str(n)} for n in range(1000))
        assert mine.in_transaction
        mine.commit()
    assert [job.payload for job in written] == [{"to": str(n)} for n in range(1000)]
    assert [jobs.get(job.id) for job in written[::100]] == written[::100]
    assert jobs.stats().total == 1000


@pytest.mark.parametrize("row_factory", [None, sqlite3.Row, lambda cursor, row: {"row": row}])
@pytest.mark.parametrize("text_factory", [str, bytes, lambda data: data.decode("latin-1")])
def test_factories_are_the_callers_and_stay(
    jobs: Rowcall,
    send: Task[[str], None],
    path: Path,
    row_factory: Callable[[sqlite3.Cursor, tuple[object, ...]], object] | None,
    text_factory: Callable[[bytes], object],
) -> None:
    with closing(sqlite3.connect(path)) as mine:
        mine.row_factory = row_factory
        mine.text_factory = text_factory
        job = send.using(connection=mine, tags=["a"], expires_in=60).enqueue("ä")
        many = send.using(connection=mine).enqueue_many([{"to": "b"}])
        assert mine.row_factory is row_factory
        assert mine.text_factory is text_factory
        mine.commit()
    assert [jobs.get(job.id), jobs.get(many[0].id)] == [job, *many]


def test_settings_of_the_connection_are_left_alone(send: Task[[str], None], path: Path) -> None:
    settings = ("foreign_keys", "synchronous", "busy_timeout", "cache_size", "recursive_triggers", "query_only")
    with closing(sqlite3.connect(path, timeout=7)) as mine:
        before = [mine.execute(f"pragma {name}").fetchone() for name in settings]
        send.using(connection=mine).enqueue("a")
        mine.commit()
        assert [mine.execute(f"pragma {name}").fetchone() for name in settings] == before
        assert str(mine.isolation_level) == ""


def refused(mine: sqlite3.Connection, send: Task[[str], None], jobs: Rowcall) -> list[Callable[[], object]]:
    send_on_mine = send.using(connection=mine)
    return [
        lambda: send_on_mine.enqueue(5),  # type: ignore[arg-type]
        lambda: send_on_mine.enqueue("a\0b"),
        lambda: send_on_mine.enqueue_many([{"to": "a"}, {"to": 5}]),
        lambda: send.using(connection=mine, delay=-1).enqueue("a"),
        lambda: jobs.enqueue("x", {"a": object()}, connection=mine),
        lambda: queue_of(jobs).run(enqueue(queue_of(jobs), NewJob(type="", queue="q"), "{}", mine)),
    ]


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_a_refused_call_leaves_the_callers_transaction_as_it_was(
    jobs: Rowcall, send: Task[[str], None], path: Path, level: Isolation
) -> None:
    with closing(connect(path, level)) as mine:
        mine.execute("begin" if level is None else "insert into mine (note) values ('first')")
        for call in refused(mine, send, jobs):
            with pytest.raises((InvalidArguments, InvalidOption, StoreUnavailable)):
                call()
            assert mine.execute("select 1").fetchone() == (1,)
            assert mine.in_transaction
        mine.execute("insert into mine (note) values ('after')")
        job = send.using(connection=mine).enqueue("good")
        mine.commit()
        assert mine.execute("select count(*) from mine where note = 'after'").fetchone() == (1,)
    assert jobs.list().jobs == [job]


def test_a_connection_to_another_file_is_refused(send: Task[[str], None], path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other, closing(sqlite3.connect(":memory:")) as memory:
        with pytest.raises(InvalidOption, match=r"other\.db") as caught:
            send.using(connection=other).enqueue("a")
        assert caught.value.option == "connection"
        assert f"this queue is in {path}" in str(caught.value)
        with pytest.raises(InvalidOption, match="a database in memory"):
            send.using(connection=memory).enqueue("a")
        assert other.execute("select 1").fetchone() == (1,)


def test_the_same_file_by_another_name_is_accepted(
    jobs: Rowcall, send: Task[[str], None], path: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with closing(sqlite3.connect(link)) as mine:
        job = send.using(connection=mine).enqueue("a")
        mine.commit()
    assert jobs.get(job.id) == job


@pytest.mark.parametrize("connection", ["app.db", 5, object(), Path("app.db")])
def test_another_kind_of_object_is_refused(send: Task[[str], None], connection: object) -> None:
    with pytest.raises(
        InvalidOption,  # the last where some test of this process has imported Django
        match=r"connection:? (must be one of sqlite3\.Connection, .*; got \w+\.\w+|.* alias|.*ImproperlyConfigured)",
    ):
        send.using(connection=connection).enqueue("a")


def test_a_cursor_is_no_connection(send: Task[[str], None], path: Path) -> None:
    with closing(sqlite3.connect(path)) as mine, pytest.raises(InvalidOption, match=r"got sqlite3\.Cursor"):
        send.using(connection=mine.cursor()).enqueue("a")


def test_a_closed_connection_is_refused(send: Task[[str], None], path: Path) -> None:
    mine = sqlite3.connect(path)
    mine.close()
    with pytest.raises(InvalidOption, match=r"connection cannot be used: .*closed"):
        send.using(connection=mine).enqueue("a")


def test_a_connection_of_another_thread_is_refused(send: Task[[str], None], path: Path) -> None:
    caught: list[BaseException] = []
    with closing(sqlite3.connect(path)) as mine:

        def use() -> None:
            try:
                send.using(connection=mine).enqueue("a")
            except InvalidOption as error:
                caught.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join(20)
    assert "thread" in str(caught[0])


def test_async_code_must_call_the_sync_method(jobs: Rowcall, send: Task[[str], None], path: Path) -> None:
    with closing(sqlite3.connect(path)) as mine:
        calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
            lambda: send.using(connection=mine).aenqueue("a"),
            lambda: send.using(connection=mine).aenqueue_many([{"to": "a"}]),
            lambda: jobs.aenqueue("send", {"to": "a"}, connection=mine),
        ]
        for call in calls:
            with pytest.raises(InvalidOption, match="not async: call the method without an a"):
                asyncio.run(call())
    assert jobs.list().jobs == []


def test_a_write_after_an_outdated_read_says_what_to_do(jobs: Rowcall, send: Task[[str], None], path: Path) -> None:
    with closing(connect(path, None)) as mine:
        mine.execute("begin")
        mine.execute("select * from mine").fetchall()
        jobs.enqueue("meanwhile")
        with pytest.raises(StoreUnavailable, match="BEGIN IMMEDIATE"):
            send.using(connection=mine).enqueue("a")
        assert mine.execute("select 1").fetchone() == (1,)
        mine.execute("rollback")
        mine.execute("begin immediate")
        send.using(connection=mine).enqueue("a")
        mine.execute("commit")
    assert [job.type for job in jobs.list().jobs] == ["send", "meanwhile"]


def test_a_transaction_on_a_file_without_tables_must_migrate_first(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    with Rowcall(path, busy_timeout=0.2) as jobs, closing(connect(path, None)) as mine:
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


def test_the_callers_connection_is_not_kept_alive(send: Task[[str], None], path: Path) -> None:
    class Connection(sqlite3.Connection):
        """A plain one cannot be referred to weakly."""

    mine = sqlite3.connect(path, factory=Connection)
    send.using(connection=mine).enqueue("a")
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


def test_an_open_cursor_of_the_caller_continues(send: Task[[str], None], path: Path) -> None:
    with closing(sqlite3.connect(path)) as mine:
        mine.executemany("insert into mine (note) values (?)", [("a",), ("b",)])
        rows = mine.execute("select note from mine order by id")
        assert rows.fetchone() == ("a",)
        send.using(connection=mine).enqueue("a")
        assert rows.fetchall() == [("b",)]


def test_methods_of_a_subclass_are_not_called(send: Task[[str], None], path: Path) -> None:
    """Whose `execute` may do anything."""

    class Connection(sqlite3.Connection):
        def execute(self, *arguments: object) -> sqlite3.Cursor:
            raise AssertionError(arguments)

    with closing(sqlite3.connect(path, factory=Connection)) as mine:
        for _ in range(2):
            send.using(connection=mine).enqueue("a")
        mine.commit()


@pytest.mark.parametrize("level", [None, "IMMEDIATE"], ids=["autocommit", "transaction"])
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_threads_that_share_one_connection_get_their_own_ids(
    jobs: Rowcall, path: Path, level: Isolation, many: bool
) -> None:
    @jobs.task
    def numbered(name: str, number: int) -> None: ...

    at_once = threading.Barrier(2)

    def enqueue(mine: sqlite3.Connection, name: str) -> list[Job]:
        at_once.wait()
        using = numbered.using(connection=mine)
        if many:
            rows = [{"name": name, "number": number} for number in range(40)]
            return [job for row in rows for job in using.enqueue_many([row, row])]
        return [using.enqueue(name, number) for number in range(40)]

    with closing(sqlite3.connect(path, check_same_thread=False, isolation_level=level)) as connection:
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(enqueue, connection, name) for name in ("a", "b")]
        written = [job for future in both for job in future.result()]
        connection.commit()
    assert len({job.id for job in written}) == len(written)
    assert [jobs.get(job.id).payload for job in written] == [job.payload for job in written]


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
