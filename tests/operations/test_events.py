"""Readers of events on a server: rows that are committed late, and transactions that were rolled back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from rowcall import Job, Rowcall
from rowcall.app import queue_of
from rowcall.operations import events as reading
from rowcall.operations import results
from rowcall.operations.events import stream
from rowcall.operations.results import end_waiter
from rowcall.store.results import readers
from rowcall.store.results.readers import Reader
from rowcall.testing import eventually
from tests.connected import Connection, connected

NEVER = 30.0
INSERT = "insert into rowcall_job (type) values ('late') returning id"


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Rowcall]:
    with Rowcall(postgres_url) as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture
def other(jobs: Rowcall, postgres_url: str) -> Iterator[Connection]:
    with connected(postgres_url, autocommit=False) as connection:
        yield connection


def inserted(connection: Connection) -> int:
    [(job_id,)] = connection.execute(INSERT).fetchall()
    assert isinstance(job_id, int)
    return job_id


def claimed_by_hand(jobs: Rowcall) -> Job:
    job = jobs.dequeue("me")
    assert job is not None
    return job


@pytest.mark.parametrize("began", ["before", "after"])
def test_a_transaction_that_commits_late(jobs: Rowcall, other: Connection, began: str) -> None:
    late = 0
    if began == "before":
        late = inserted(other)
        jobs.enqueue("first")
    with jobs.events() as events:
        if began == "after":
            late = inserted(other)
        soon = jobs.enqueue("soon")
        assert next(events).job_id == soon.id > late
        other.commit()
        assert next(events).job_id == late
        last = jobs.enqueue("last")
        assert next(events).job_id == last.id


def test_a_gap_is_forgotten_once_its_transaction_was_rolled_back(
    jobs: Rowcall, other: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "GAP_SETTLES_MS", 0)
    with jobs.events() as events:
        reader = events._stream._reader
        assert isinstance(reader, Reader)
        inserted(other)
        jobs.enqueue("soon")
        next(events)
        assert len(reader._gaps) == 1
        other.rollback()

        def is_forgotten() -> bool:
            jobs.enqueue("more")
            next(events)
            return reader._gaps == []

        eventually(is_forgotten)  # transactions of other tests on this server count, too


def test_a_job_that_was_committed_late_and_deleted_unread_is_missed(jobs: Rowcall, other: Connection) -> None:
    with jobs.events(kind="ENQUEUED") as events:
        late = inserted(other)
        soon = jobs.enqueue("soon")
        assert next(events).job_id == soon.id > late
        other.commit()
        jobs.delete(late)
        assert next(events).event == "MISSED"


def test_an_event_that_was_committed_late_and_deleted_with_others_is_missed(jobs: Rowcall, other: Connection) -> None:
    late, soon = jobs.enqueue("late", delay=60), jobs.enqueue("soon", delay=60)
    with jobs.events() as events:
        jobs.set_priority(late, 7, connection=other)
        jobs.set_priority(soon, 7)
        assert next(events).job_id == soon.id
        other.commit()
        assert jobs.delete(status="scheduled", queue="default") == 2
        assert next(events).event == "MISSED"


def test_a_deletion_that_is_committed_late_is_not_a_miss(jobs: Rowcall, other: Connection) -> None:
    with jobs.events() as events:
        job = jobs.enqueue("soon")
        other.execute(f"delete from rowcall_job where id = {job.id}")
        assert next(events).job_id == job.id
        other.commit()
        last = jobs.enqueue("last")
        assert next(events).job_id == last.id


def test_emptying_the_table_is_a_miss(jobs: Rowcall, other: Connection) -> None:
    with jobs.events() as events:
        for _ in range(3):
            job = jobs.enqueue("any")
            assert next(events).job_id == job.id
        other.execute("truncate rowcall_job restart identity cascade")
        other.commit()
        assert next(events).event == "MISSED"
        job = jobs.enqueue("any")
        assert next(events).job_id == job.id == 1


def test_the_job_of_a_late_completion(jobs: Rowcall, other: Connection) -> None:
    first, second = jobs.enqueue("by hand"), jobs.enqueue("by hand")
    claimed = jobs.claim("me", limit=2)
    with jobs.events(kind="SUCCEEDED") as events:
        jobs.complete(claimed[0], connection=other)
        jobs.complete(claimed[1])
        assert next(events).job_id == second.id
        other.commit()
        assert next(events).job_id == first.id


def test_a_reader_is_notified(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch, postgres_url: str) -> None:
    @jobs.task
    def quick() -> None: ...

    with Rowcall(postgres_url) as elsewhere, jobs.events(kind=["ENQUEUED", "SUCCEEDED"]) as events:
        elsewhere.enqueue("quick")
        assert next(events).event == "ENQUEUED"
        monkeypatch.setattr(reading, "FIRST_CHECK_SECONDS", NEVER)
        monkeypatch.setattr(reading, "LAST_CHECK_SECONDS", NEVER)
        events._stream._pause = NEVER
        with connected(postgres_url) as plain:
            plain.execute(INSERT)
        assert next(events).event == "ENQUEUED"
        elsewhere.enqueue("quick")
        assert next(events).event == "ENQUEUED"
        jobs.drain()
        assert next(events).event == "SUCCEEDED"


def test_a_reader_of_one_job_is_announced_once_and_notified(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    for module in (reading, results):
        monkeypatch.setattr(module, "FIRST_CHECK_SECONDS", NEVER)
        monkeypatch.setattr(module, "LAST_CHECK_SECONDS", NEVER)
    job = jobs.enqueue("by hand")
    waiter = end_waiter(queue_of(jobs))
    actions: list[Callable[[Rowcall], object]] = [
        lambda other: other.fail(claimed_by_hand(other), "A:B"),
        lambda other: other.cancel(job),
    ]
    with Rowcall(postgres_url) as elsewhere, connected(postgres_url) as server, ThreadPoolExecutor(1) as others:

        def announced() -> list[tuple[object, ...]]:
            return server.execute(f"select xmin::text from rowcall_waiter where job_id = {job.id}").fetchall()

        with jobs.events(id=job, kind=["RETRY_SCHEDULED", "CANCELLED"]) as events:
            rows = []
            for act in actions:
                event = others.submit(next, events)
                eventually(lambda: announced() and waiter._changes, message="a reader that waits")
                rows += announced()
                act(elsewhere)
                event.result(NEVER)
            waker = waiter._waker
        assert rows == [rows[0]] * 2
        monkeypatch.setattr(results, "LINGER_SECONDS", 0.0)
        assert waker is not None
        waker.wake()
        eventually(lambda: announced() == [], message="no announcement")


def test_closing_a_stream_that_was_never_connected(jobs: Rowcall) -> None:
    queue = queue_of(jobs)
    unused = stream(queue, None, None, None, None)
    queue.run(unused.close())
    assert queue.run(unused.next()) is None


def test_a_reader_survives_cut_connections(jobs: Rowcall, postgres_url: str) -> None:
    with jobs.events(kind="ENQUEUED") as events, connected(postgres_url) as server:
        jobs.enqueue("first")
        next(events)
        server.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        [(job_id,)] = server.execute(INSERT).fetchall()
        assert next(events).job_id == job_id
        server.execute("truncate rowcall_waiter")  # as after a crash of the server
        assert next(events).event == "MISSED"
