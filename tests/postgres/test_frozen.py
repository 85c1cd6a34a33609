"""A server that is frozen, while the kernel still answers for it: calls give up, and workers continue with another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from rowcall import Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.drivers import patience
from rowcall.drivers.postgres import connection
from rowcall.drivers.postgres.database import PostgresDatabase
from rowcall.operations import results, retention
from rowcall.testing import eventually
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of
from rowcall.wake import postgres_listener
from tests.postgres.support import PostgresSite, ask, frozen
from tests.worker.support import ended

BUSY_SECONDS = 0.5
WAITS_FOR_LOCK = """
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
"""
LISTENS = """
    select from pg_stat_activity
    where datname = current_database() and application_name = 'rowcall'
      and query in ('listen "rowcall_job"', 'show transaction_read_only')
"""
LIMIT = rf"did not reply within {BUSY_SECONDS} s; the connection was dropped"


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SHORTEST_REPLY_SECONDS", BUSY_SECONDS)
    monkeypatch.setattr(connection, "CANCEL_SECONDS", 0.1)
    monkeypatch.setattr(results, "LAST_READ_SECONDS", 0.1)
    monkeypatch.setattr(postgres_listener, "SILENCE_SECONDS", 0.2)


@pytest.fixture
def jobs(site: PostgresSite) -> Rowcall:
    return Rowcall(site.url, busy_timeout=BUSY_SECONDS)


def test_calls_give_up_and_the_next_ones_succeed(jobs: Rowcall, server: PostgresServer) -> None:
    job = jobs.enqueue("note")
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: jobs.enqueue("note"), "may have been written"),
        (lambda: jobs.get(job.id), "Is the server overloaded"),
    ]
    with jobs:
        for call, advice in calls:
            jobs.get(job.id)  # on a connection that is newer than the last silence
            with frozen(server), pytest.raises(StoreUnavailable, match=f"{LIMIT}.*{advice}"):
                call()
            call()
        with frozen(server), pytest.raises(StoreUnavailable, match=f"{LIMIT}.*Nothing was written"):
            jobs.cancel(job)
        jobs.cancel(job)
        jobs.enqueue("note")
        with frozen(server), pytest.raises(StoreUnavailable, match=f"{LIMIT}.*may have been written"):
            asyncio.run(jobs.aenqueue("note"))


def test_a_result_keeps_its_timeout(site: PostgresSite, server: PostgresServer) -> None:
    """The read itself waits far longer for a reply: only the timeout of `result` can end it."""
    with Rowcall(site.url, busy_timeout=60) as jobs:
        job = jobs.enqueue("note")
        with pytest.raises(TimeoutError, match="it is pending"):
            jobs.result(job, timeout=0)
        with frozen(server):
            with pytest.raises(TimeoutError, match=r"not ended within 0\.1 s: the database does not reply"):
                jobs.result(job, timeout=0.1)
            with pytest.raises(TimeoutError, match="the database does not reply"):
                asyncio.run(asyncio.wait_for(jobs.aresult(job, timeout=0.1), 30))


def test_a_statement_that_waits_for_a_lock_is_cancelled(
    jobs: Rowcall, site: PostgresSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CANCEL_SECONDS", 20.0)
    job = jobs.enqueue("note")
    with jobs, psycopg.connect(site.url) as other:
        other.execute("select from rowcall_job for update")
        with pytest.raises(StoreUnavailable, match=f"{LIMIT}.*Nothing was written"):
            jobs.cancel(job)
        eventually(lambda: not ask(site.url, WAITS_FOR_LOCK), message="the end of the statement on the server")


def test_pruning_and_the_like_wait_as_long_as_it_takes(jobs: Rowcall, site: PostgresSite) -> None:
    jobs.enqueue("note")
    with jobs, ThreadPoolExecutor() as thread, psycopg.connect(site.url) as other:
        other.execute("lock table rowcall_job")
        clearing = thread.submit(clear, jobs)
        eventually(lambda: ask(site.url, WAITS_FOR_LOCK))
        limit = thread.submit(jobs.enqueue, "note")
        assert isinstance(limit.exception(), StoreUnavailable)
        assert not clearing.done()
        other.commit()
        clearing.result()
        assert jobs.stats().total == 0


def test_many_rows_take_longer_than_one(jobs: Rowcall, site: PostgresSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "ROWS_IN_TIME", 1)
    rows = [{"number": number} for number in range(100)]

    @jobs.task
    def note(number: int) -> None: ...

    async def enqueue_in_block() -> None:
        async with jobs.transaction():
            await note.aenqueue_many(rows)

    note.enqueue(0)
    with jobs, ThreadPoolExecutor() as threads, psycopg.connect(site.url) as other:
        other.execute("lock table rowcall_job")
        calls: list[Callable[[], object]] = [
            lambda: note.enqueue_many(rows),
            lambda: note.using(key=lambda number: f"{number}").enqueue_many(rows),
            lambda: asyncio.run(enqueue_in_block()),
        ]
        many = [threads.submit(call) for call in calls]
        eventually(lambda: len(ask(site.url, WAITS_FOR_LOCK)) == len(calls))
        with pytest.raises(StoreUnavailable, match=LIMIT):
            note.enqueue(0)
        other.commit()
        for call in many:
            call.result()


def clear(jobs: Rowcall) -> None:
    queue_of(jobs).run(retention.clear(queue_of(jobs)))


def test_after_a_silence_no_older_connection_is_used(jobs: Rowcall, server: PostgresServer) -> None:
    """Otherwise each idle connection to that server would cost a call its whole limit."""
    with jobs, ThreadPoolExecutor() as threads:
        wait(threads.submit(jobs.stats) for _ in range(4))
        with frozen(server), pytest.raises(StoreUnavailable, match=LIMIT):
            jobs.get(1)
        before = time.monotonic()
        assert jobs.stats().total == 0
        pool = database_of_queue(jobs)._pool
        assert pool is not None
        assert all(raw.opened_at > before for raw in pool._pool)


def database_of_queue(jobs: Rowcall) -> PostgresDatabase:
    database = queue_of(jobs).database
    assert isinstance(database, PostgresDatabase)
    return database


@pytest.mark.slow
def test_a_worker_continues_on_the_promoted_standby(server: PostgresServer, postgres_url: str, twin: str) -> None:
    """Its URL names both. The frozen server still accepts connections, and its listener hears no end of it."""
    name, first = database_of(postgres_url), conninfo_to_dict(twin)
    standby = conninfo_to_dict(postgres_url)
    hosts = f"127.0.0.1:{first['port']},{standby['host']}:{standby['port']}"
    ran: list[str] = []
    with Rowcall(f"postgresql://postgres@{hosts}/{name}", busy_timeout=BUSY_SECONDS) as jobs:
        jobs.migrate()

        @jobs.task
        def note(text: str) -> None:
            ran.append(text)

        with jobs.worker(lease=60):
            assert ended(jobs, note.enqueue("before")).status == "succeeded"
            with frozen(server), Rowcall(postgres_url) as elsewhere:
                job = elsewhere.enqueue("note", {"text": "after"})
                assert ended(elsewhere, job).status == "succeeded"
                eventually(lambda: ask(postgres_url, LISTENS), message="notifications from the other server")
    assert ran == ["before", "after"]
