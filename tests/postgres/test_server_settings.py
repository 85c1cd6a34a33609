"""What the server's administrator has set: time limits, read-only databases, and how many may connect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rowcall import Job, Rowcall, StoreUnavailable
from rowcall.testing import eventually
from rowcall.testing.postgres import FAST_SETTINGS, PostgresServer
from rowcall.testing.postgres_database import database_of
from tests.postgres.support import OUT_OF_REACH, THERE_AGAIN, PostgresSite, ask, times_said
from tests.worker.support import ended, some_heartbeats

pytestmark = pytest.mark.concurrency

CONNECTIONS = 8
SESSIONS_OF_OURS = """
    select from pg_stat_activity where datname = current_database() and application_name like 'rowcall%'
"""
CANCELLED = r"the server cancelled the statement .*Nothing was written\. If statement_timeout did that, raise it"
NOT_IN_TIME = r"could not get a lock in time .*Nothing was written; call again"


def set_for_database(url: str, setting: str, value: str) -> None:
    """For all who connect from now on."""
    ask(url, f"alter database {database_of(url)} set {setting} = '{value}'")


@contextlib.contextmanager
def locked(url: str, what: str) -> Iterator[None]:
    with psycopg.connect(url) as holder:
        holder.execute(what.encode())
        yield


def lock_row(job: Job) -> str:
    return f"select from rowcall_job where id = {job.id} for update"


LOCK_TABLES = "lock table rowcall_job, rowcall_claim in exclusive mode"  # reads still work


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "said"),
    [("statement_timeout", CANCELLED), ("lock_timeout", NOT_IN_TIME)],
    ids=["statement_timeout", "lock_timeout"],
)
def test_a_lock_that_takes_too_long_is_explained(url: str, setting: str, said: str) -> None:
    with Rowcall(url) as other:
        job = other.enqueue("task", {"number": 1})
    set_for_database(url, setting, "50ms")
    with Rowcall(url) as jobs:

        @jobs.task
        def task(number: int) -> None: ...

        with locked(url, lock_row(job)), pytest.raises(StoreUnavailable, match=said):
            jobs.cancel(job.id)
        with locked(url, LOCK_TABLES):
            for write in (
                lambda: task.enqueue(2),
                lambda: task.enqueue_many([{"number": 3}]),
                lambda: jobs.claim("me"),
            ):
                with pytest.raises(StoreUnavailable, match=said):
                    write()
            assert jobs.get(job.id).status == "pending"
        assert [job.payload for job in jobs.list().jobs] == [{"number": 1}]
        task.enqueue(2)
        assert jobs.drain().succeeded == 2


@pytest.mark.parametrize("setting", ["statement_timeout", "lock_timeout"])
def test_a_worker_waits_for_the_lock_and_continues(site: PostgresSite, jobs: Rowcall, setting: str) -> None:
    set_for_database(site.url, setting, "100ms")
    with site.worker(lease=0.5) as worker:
        job = jobs.enqueue("hold", {"name": "x"}, max_attempts=1)
        site.wait_for_line("start x")
        with locked(site.url, LOCK_TABLES):
            site.open("x")
            site.wait_for_line("end x")
            some_heartbeats(jobs, 10)
            assert jobs.get(job.id).status == "running"
        assert ended(jobs, job).attempt == 1
        assert ended(jobs, jobs.enqueue("note", {"text": "afterwards"})).status == "succeeded"
        assert times_said(worker, OUT_OF_REACH) <= 1, worker.output


def test_sessions_that_are_cut_for_being_idle(url: str, tmp_path: Path) -> None:
    set_for_database(url, "idle_in_transaction_session_timeout", "20ms")
    set_for_database(url, "idle_session_timeout", "300ms")
    site = PostgresSite(tmp_path, url)
    with site.jobs as jobs, site.worker(lease=1):
        for number in range(3):
            some_heartbeats(jobs, 1)
            assert ended(jobs, jobs.enqueue("note", {"text": str(number)})).attempt == 1
    assert site.lines == ["note 0", "note 1", "note 2"]


# --- a database that can only be read ----------------------------------------------------------


def test_a_read_only_database_says_so(url: str) -> None:
    with Rowcall(url) as jobs:
        job = jobs.enqueue("task")
    set_for_database(url, "default_transaction_read_only", "on")
    with Rowcall(url) as jobs:
        assert jobs.get(job.id) == job
        for write in (lambda: jobs.enqueue("task"), lambda: jobs.claim("me"), jobs.drain):
            with pytest.raises(StoreUnavailable, match=r"is read-only .*Is it a standby\? Connect to the primary"):
                write()


def test_an_empty_read_only_database_says_so(url: str) -> None:
    set_for_database(url, "default_transaction_read_only", "on")
    with Rowcall(url) as jobs, pytest.raises(StoreUnavailable, match="is read-only"):
        jobs.enqueue("task")


@pytest.mark.crash
def test_a_worker_continues_when_it_can_be_written_again(
    site: PostgresSite, jobs: Rowcall, server: PostgresServer
) -> None:
    job = jobs.enqueue("hold", {"name": "x"}, max_attempts=1)
    with site.worker(lease=1) as worker:
        site.wait_for_line("start x")
        set_for_database(site.url, "default_transaction_read_only", "on")
        server.terminate_connections(database_of(site.url))
        worker.wait_for(OUT_OF_REACH)
        eventually(lambda: ask(site.url, SESSIONS_OF_OURS), message="a session that can only read")
        site.open("x")
        site.wait_for_line("end x")
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"alter database {database_of(site.url)} reset default_transaction_read_only".encode())
        worker.wait_for(THERE_AGAIN)
        assert ended(jobs, job).attempt == 1


# --- how many may connect ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_server() -> Iterator[PostgresServer]:
    settings = {**FAST_SETTINGS, "max_connections": str(CONNECTIONS), "superuser_reserved_connections": "2"}
    with PostgresServer(settings=settings, in_memory=True) as server:
        ask(server.url(), "create role ann login; create role few login connection limit 0")
        yield server


def as_role(url: str, role: str) -> str:
    return url.replace("postgres@", f"{role}@")


@contextlib.contextmanager
def full(server: PostgresServer) -> Iterator[None]:
    """Every connection that the server has is somebody's."""
    with contextlib.ExitStack() as held:
        for _ in range(CONNECTIONS):
            held.enter_context(psycopg.connect(server.url()))
        yield


@pytest.mark.parametrize("role", ["postgres", "ann"])
def test_a_server_without_room_for_more_says_so(small_server: PostgresServer, role: str) -> None:
    url = small_server.create_database()
    ask(url, "grant all on schema public to ann")
    with Rowcall(as_role(url, role)) as jobs:
        with full(small_server), pytest.raises(StoreUnavailable, match="Raise max_connections, lower pool_size"):
            jobs.enqueue("task")
        eventually(lambda: len(ask(small_server.url(), "select from pg_stat_activity where datname is not null")) == 1)
        assert jobs.enqueue("task").id == 1
    small_server.drop_database(database_of(url))


def test_a_role_that_may_have_no_more_connections_says_so(small_server: PostgresServer) -> None:
    with (
        Rowcall(as_role(small_server.url(), "few")) as jobs,
        pytest.raises(StoreUnavailable, match=r'too many connections for role "few".*Raise .*lower pool_size'),
    ):
        jobs.stats()
