"""When commits notify: only while a worker listens, once per commit, and ours after the commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import IsolationLevel

from rowcall import Job, Rowcall
from rowcall.app import queue_of
from rowcall.drivers.postgres.database import PostgresDatabase
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.statement import Statement, as_is
from rowcall.testing import eventually
from rowcall.testing.postgres_database import database_of
from tests.connected import Connection, connected, database_with_tables, empty
from tests.pgbouncer import PgBouncer
from tests.wake.idle import PLAIN_SQL, Ear, ear

A_WORKER = """
insert into rowcall_worker (name, host, pid, queues, concurrency, version, lease_ms, started_at, heartbeat_at,
  listening)
values (%s, 'host', 1, '', 1, '', 600000, now(), now(), %s)
"""


@pytest.fixture(scope="module")
def shared_url(postgres_server_url: str) -> Iterator[str]:
    with database_with_tables(postgres_server_url) as url:
        yield url


@pytest.fixture
def postgres_url(shared_url: str) -> str:
    """As good as new."""
    empty(shared_url)
    return shared_url


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Rowcall]:
    with Rowcall(postgres_url) as jobs:
        yield jobs


@pytest.fixture
def mine(jobs: Rowcall, postgres_url: str) -> Iterator[Connection]:
    """Another client's connection, which commits at once."""
    with connected(postgres_url) as connection:
        yield connection


@pytest.fixture
def hearing(postgres_url: str) -> Iterator[Ear]:
    with ear(postgres_url) as hearing:
        yield hearing


@pytest.fixture
def worker_listens(mine: Connection) -> None:
    mine.execute(A_WORKER, ["busy", False])
    mine.execute(A_WORKER, ["idle", True])


@pytest.fixture
def no_worker_listens(mine: Connection) -> None:
    mine.execute(A_WORKER, ["busy", False])


# --- plain SQL and callers' connections: the trigger ------------------------------------------------


def test_without_workers_no_commit_notifies(jobs: Rowcall, mine: Connection, hearing: Ear) -> None:
    mine.execute(PLAIN_SQL)
    jobs.enqueue("task", connection=mine)
    assert hearing.heard() == []


@pytest.mark.usefixtures("no_worker_listens")
def test_a_worker_that_does_not_listen_is_not_notified(jobs: Rowcall, mine: Connection, hearing: Ear) -> None:
    mine.execute(PLAIN_SQL)
    jobs.enqueue("task", connection=mine)
    assert hearing.heard() == []


@pytest.mark.usefixtures("worker_listens")
def test_a_worker_that_listens_is_notified(jobs: Rowcall, mine: Connection, hearing: Ear) -> None:
    for _ in range(2):
        mine.execute(PLAIN_SQL)
        assert hearing.heard() == [mine.info.backend_pid]
        jobs.enqueue("task", connection=mine)
        assert hearing.heard() == [mine.info.backend_pid]


@pytest.mark.usefixtures("worker_listens")
def test_a_commit_notifies_once_whatever_is_in_it(jobs: Rowcall, mine: Connection, hearing: Ear) -> None:
    with mine.transaction():
        for _ in range(10):
            mine.execute(PLAIN_SQL)
        mine.execute("insert into rowcall_job (type) select 'task' from generate_series(1, 100)")
        jobs.enqueue("task", connection=mine)
        assert hearing.heard() == []
    assert hearing.heard() == [mine.info.backend_pid]


@pytest.mark.usefixtures("worker_listens")
def test_a_rollback_does_not_notify(jobs: Rowcall, mine: Connection, hearing: Ear) -> None:
    with mine.transaction(force_rollback=True):
        mine.execute(PLAIN_SQL)
    with mine.transaction(), mine.transaction(force_rollback=True):
        jobs.enqueue("task", connection=mine)
    assert hearing.heard() == []


@pytest.mark.usefixtures("worker_listens")
def test_changes_of_existing_jobs_do_not_notify(mine: Connection, hearing: Ear) -> None:
    mine.execute(PLAIN_SQL)
    assert hearing.heard() == [mine.info.backend_pid]
    mine.execute("update rowcall_job set priority = 1")
    mine.execute("delete from rowcall_job")
    assert hearing.heard() == []


@pytest.mark.usefixtures("no_worker_listens")
@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_a_role_that_cannot_see_the_workers_notifies_in_any_case(
    mine: Connection, hearing: Ear, level: IsolationLevel
) -> None:
    mine.isolation_level = level
    with mine.transaction():
        mine.execute(PLAIN_SQL)
    assert hearing.heard() == [mine.info.backend_pid]


@pytest.mark.usefixtures("worker_listens")
def test_sessions_that_notify_by_themselves_are_left_to_it(mine: Connection, hearing: Ear) -> None:
    mine.execute("set rowcall.notifies = 'after_commit'")
    mine.execute(PLAIN_SQL)
    assert hearing.heard() == []
    mine.execute("reset rowcall.notifies")
    mine.execute(PLAIN_SQL)
    assert hearing.heard() == [mine.info.backend_pid]


@pytest.mark.usefixtures("worker_listens")
def test_a_callers_connection_still_notifies_afterwards(jobs: Rowcall, mine: Connection, hearing: Ear) -> None:
    with mine.transaction():
        jobs.enqueue("task", connection=mine)
    with mine.transaction():
        mine.execute(PLAIN_SQL)
    assert hearing.heard() == [mine.info.backend_pid] * 2


@pytest.mark.usefixtures("worker_listens")
def test_only_a_notification_alone_does_not_wait_for_the_disk(jobs: Rowcall, mine: Connection, hearing: Ear) -> None:
    def waits() -> str:
        ((setting,),) = mine.execute("show synchronous_commit").fetchall()
        return str(setting)

    mine.execute("set synchronous_commit = on")
    job = jobs.enqueue("task")
    jobs.cancel(job.id)
    hearing.heard()
    with mine.transaction():
        jobs.retry(job.id, connection=mine)
        assert waits() == "on"
    assert hearing.heard() == [mine.info.backend_pid]
    notification = notification_of(jobs)
    with mine.transaction():
        mine.execute(notification)
        assert waits() == "off"
    assert (waits(), hearing.heard()) == ("on", [mine.info.backend_pid])


def notification_of(jobs: Rowcall) -> bytes:
    dialect = queue_of(jobs).dialect
    assert isinstance(dialect, PostgresDialect)
    return dialect.notification().sql.encode()


# --- our own commits ------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_worker_listens")
def test_our_commits_do_not_notify_workers_that_do_not_listen(jobs: Rowcall, hearing: Ear) -> None:
    jobs.enqueue("task")
    asyncio.run(jobs.aenqueue("task"))
    (claimed, *_) = jobs.claim("by hand")
    jobs.release(claimed)
    assert hearing.heard() == []


@pytest.mark.usefixtures("worker_listens")
def test_our_commits_notify_once(jobs: Rowcall, hearing: Ear) -> None:
    @jobs.task
    def task() -> None: ...

    task.enqueue()
    assert len(hearing.heard()) == 1
    task.enqueue_many([{}] * 100)
    assert len(hearing.heard()) == 1
    asyncio.run(task.aenqueue_many([{}] * 100))
    assert len(hearing.heard()) == 1


@pytest.mark.usefixtures("worker_listens")
def test_enqueues_that_share_a_commit_share_its_notification(jobs: Rowcall, postgres_url: str, hearing: Ear) -> None:
    database = queue_of(jobs).database
    assert isinstance(database, PostgresDatabase)
    enqueued: list[Job] = []

    async def enqueue_all() -> None:
        enqueued.extend(await asyncio.gather(*(jobs.aenqueue("task") for _ in range(100))))

    with connected(postgres_url, autocommit=False) as another:
        another.execute("lock table rowcall_job in share mode")
        enqueueing = threading.Thread(target=lambda: asyncio.run(enqueue_all()))
        enqueueing.start()
        eventually(lambda: 0 < len(database.shared._waiting) < 100)
        another.rollback()
    enqueueing.join(20)
    assert len(enqueued) == 100
    assert 1 <= len(hearing.heard()) <= 10


@pytest.mark.usefixtures("worker_listens")
def test_our_commits_notify_of_jobs_that_can_run_again(jobs: Rowcall, hearing: Ear) -> None:
    job = jobs.enqueue("task", max_attempts=1)
    assert len(hearing.heard()) == 1
    (claimed,) = jobs.claim("by hand")
    assert hearing.heard() == []
    jobs.release(claimed)
    assert len(hearing.heard()) == 1
    (claimed,) = jobs.claim("by hand")
    jobs.fail(claimed, "GONE:AWAY")
    assert hearing.heard() == []
    jobs.retry(job.id)
    assert len(hearing.heard()) == 1
    (claimed,) = jobs.claim("by hand")
    jobs.complete(claimed)
    jobs.delete(job.id)
    assert hearing.heard() == []


def with_notification(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    monkeypatch.setattr(PostgresDialect, "notification", lambda dialect: Statement(sql, (), as_is))


def write_in_every_way(jobs: Rowcall) -> list[Job]:
    @jobs.task
    def task() -> None: ...

    return [task.enqueue(), asyncio.run(task.aenqueue()), *task.enqueue_many([{}, {}])]


@pytest.mark.usefixtures("worker_listens")
def test_our_notification_comes_after_the_commit(
    postgres_url: str, hearing: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside the transaction, so that no commit waits for a notification."""
    is_committed = "select bool_and(pg_xact_status(xmin::text::xid8) = 'committed') from rowcall_job"
    with_notification(monkeypatch, f"select pg_notify('rowcall_job', '') where ({is_committed})")
    with Rowcall(postgres_url) as jobs:
        write_in_every_way(jobs)
    assert len(hearing.heard()) == 3


@pytest.mark.usefixtures("worker_listens")
def test_a_notification_that_fails_does_no_harm(
    postgres_url: str, hearing: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_notification(monkeypatch, "select 1 / 0")
    with Rowcall(postgres_url) as jobs:
        for job in write_in_every_way(jobs):
            assert jobs.get(job.id).status == "pending"
    assert hearing.heard() == []  # and so the transactions themselves said nothing


@pytest.mark.usefixtures("worker_listens")
def test_notifications_are_sent_through_a_pooler(
    postgres_url: str, pgbouncer: PgBouncer, mine: Connection, hearing: Ear
) -> None:
    with Rowcall(pgbouncer.url(database_of(postgres_url))) as jobs:
        jobs.enqueue("task")
        assert hearing.heard()
    with psycopg.connect(pgbouncer.url(database_of(postgres_url)), autocommit=True) as through:
        through.execute(PLAIN_SQL)  # on the same connection to the server: ours left nothing behind on it
        assert len(hearing.heard()) == 1
