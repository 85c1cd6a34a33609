"""An app with `moves_to` continues where its queue has moved to; other apps are refused."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Encryption, InvalidOption, MovedTo, Rowcall
from rowcall.app import queue_of
from rowcall.store.dialect import Dialect
from rowcall.store.moves import copying
from rowcall.store.moves.copying import seal
from rowcall.store.moves.state import MoveState
from rowcall.store.statement import Plan
from tests.moving.product import move, move_queue
from tests.support import eventually


@pytest.fixture
def urls(tmp_path: Path) -> tuple[str, str]:
    return f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/new.db"


@pytest.fixture
def jobs(urls: tuple[str, str]) -> Iterator[Rowcall]:
    with Rowcall(urls[0], moves_to=urls[1]) as jobs:
        jobs.task(add)
        yield jobs


def add(a: int, b: int) -> int:
    return a + b


def ids(url: str) -> list[int]:
    with Rowcall(url) as jobs:
        return [job.id for job in jobs.list(order="oldest").jobs]


def test_writes_go_where_the_queue_is(jobs: Rowcall, urls: tuple[str, str]) -> None:
    first, batch = jobs.enqueue("add", {"a": 1, "b": 2}), jobs.batch("import")
    move(*urls)
    second = asyncio.run(jobs.aenqueue("add", {"a": 2, "b": 2}))
    batch.add(jobs.task(name="other")(add).bind(1, 1))
    batch.seal()
    assert ids(urls[0]) == [first.id]
    assert ids(urls[1]) == [first.id, second.id, second.id + 1]
    assert [jobs.drain().succeeded, jobs.result(first), batch.counts().succeeded] == [3, 3, 1]


def test_reads_notice_it_too(jobs: Rowcall, urls: tuple[str, str]) -> None:
    job = jobs.enqueue("add", {"a": 1, "b": 2})
    move(*urls)
    with Rowcall(urls[1]) as there:
        there.cancel(job)
    eventually(lambda: jobs.get(job).status == "cancelled")


def test_a_worker_and_those_who_wait_follow(jobs: Rowcall, urls: tuple[str, str]) -> None:
    jobs.pause("later")
    waits = jobs.enqueue("add", {"a": 1, "b": 2}, queue="later")
    results: list[object] = []
    waiting = threading.Thread(target=lambda: results.append(jobs.result(waits)))
    with jobs.worker():
        assert jobs.result(jobs.enqueue("add", {"a": 1, "b": 1})) == 2
        waiting.start()
        move(*urls)
        assert jobs.result(jobs.enqueue("add", {"a": 2, "b": 2}), timeout=20) == 4
        jobs.resume("later")
        waiting.join(20)
    assert results == [3]
    assert len(ids(urls[1])) == len(ids(urls[0])) + 1


def test_a_reader_of_events_says_what_it_missed_and_continues(jobs: Rowcall, urls: tuple[str, str]) -> None:
    with jobs.events() as events:
        jobs.enqueue("add", {"a": 1, "b": 2})
        assert next(events).event == "ENQUEUED"
        move(*urls)
        jobs.enqueue("add", {"a": 1, "b": 2})
        assert next(events).event == "MISSED"
        job = jobs.enqueue("add", {"a": 1, "b": 2})
        assert next(event for event in events if event.event == "ENQUEUED").job_id == job.id


def test_encrypted_and_large_values_are_read_where_the_queue_is(urls: tuple[str, str]) -> None:
    keys = Encryption(keys=["k" * 43])
    with Rowcall(urls[0], moves_to=urls[1], encrypt=keys, blob_threshold=1024) as jobs:
        job = jobs.enqueue("send", {"text": "x" * 5000})
        with Rowcall(urls[0], encrypt=keys) as source:
            move_queue(source, urls[1])
        other = jobs.enqueue("send", {"text": "short"})
        assert [jobs.get(one).payload["text"] for one in (job, other)] == ["x" * 5000, "short"]
        assert urls[1].removeprefix("sqlite:///") in repr(jobs)


def test_an_app_that_starts_later_finds_it_and_needs_the_old_file_no_more(urls: tuple[str, str]) -> None:
    with Rowcall(urls[0]) as jobs:
        job = jobs.enqueue("add")
    move(*urls)
    for _ in range(2):
        with Rowcall(urls[0], moves_to=urls[1]) as jobs:
            assert [one.id for one in jobs.claim("me", limit=1)] == [job.id]
            jobs.release(jobs.list(status="running").jobs[0])
        for file in Path(urls[0].removeprefix("sqlite:///")).parent.glob("old.db*"):
            if file.is_file():
                file.unlink()
    assert not Path(urls[0].removeprefix("sqlite:///")).exists()


def test_an_app_that_does_not_follow_is_refused(urls: tuple[str, str]) -> None:
    with Rowcall(urls[0]) as jobs:
        job = jobs.enqueue("add")
        move(*urls)
        for refused in (lambda: jobs.enqueue("add"), jobs.drain, jobs.worker().start):
            with pytest.raises(MovedTo) as raised:
                refused()
            assert raised.value.database == urls[0].removeprefix("sqlite:///")
        assert jobs.get(job).status == "pending"


def test_connections_of_callers_and_plain_sql_are_refused(jobs: Rowcall, urls: tuple[str, str]) -> None:
    jobs.enqueue("add", {"a": 1, "b": 2})
    with closing(sqlite3.connect(urls[0].removeprefix("sqlite:///"))) as connection:
        move(*urls)
        with Rowcall(urls[0]) as alone, pytest.raises(MovedTo, match="pass moves_to"):
            alone.enqueue("add", connection=connection)
        with pytest.raises(InvalidOption, match="is open on"):
            jobs.enqueue("add", {"a": 1, "b": 2}, connection=connection)
        with pytest.raises(sqlite3.IntegrityError, match="rowcall: this queue is moving, or has moved"):
            connection.execute("insert into rowcall_job (type) values ('add')")


@pytest.mark.no_tables
def test_a_block_that_is_open_at_the_switch_is_refused_as_a_whole(tmp_path: Path, postgres_url: str) -> None:
    """On a server, a transaction that has not written yet does not keep the move from ending."""
    with Rowcall(postgres_url, moves_to=f"sqlite:///{tmp_path}/new.db") as jobs:
        jobs.migrate()

        def in_block() -> None:
            with jobs.transaction():
                move(postgres_url, f"sqlite:///{tmp_path}/new.db")
                jobs.enqueue("first")

        with pytest.raises(MovedTo):
            in_block()
        assert jobs.list().jobs == []
        assert jobs.enqueue("second") in jobs.list().jobs


@pytest.mark.parametrize("moves_to", ["app.db", 3, "sqlite:///"])
def test_a_wrong_url_is_refused_at_once(moves_to: object) -> None:
    with pytest.raises(InvalidOption, match="moves_to"):
        Rowcall("sqlite:///app.db", moves_to=moves_to)  # type: ignore[arg-type]


@pytest.mark.no_tables
def test_a_call_waits_for_a_switch_whose_statements_commit_one_by_one(
    tmp_path: Path, mysql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        """The process that moves is gone."""

    def dying(dialect: Dialect, before: MoveState, after: MoveState) -> Plan[int]:
        plan = seal(dialect, before, after)
        statement = next(plan)
        while "create trigger rowcall_moved_job_insert" not in statement.sql:
            statement = plan.send((yield statement))
        yield statement
        raise Killed

    seen: list[object] = []

    def looking(dialect: Dialect, before: MoveState, after: MoveState) -> Plan[int]:
        plan = seal(dialect, before, after)
        statement, is_refused = next(plan), False
        while True:
            rows = yield statement
            is_refused |= "create trigger rowcall_moved_job_insert" in statement.sql
            if is_refused:
                assert following is not None
                seen.append(following._where())
            try:
                statement = plan.send(rows)
            except StopIteration as stop:
                return int(stop.value)

    target = f"sqlite:///{tmp_path}/new.db"
    with Rowcall(mysql_url, moves_to=target) as jobs, ThreadPoolExecutor() as pool:
        first = jobs.enqueue("add")
        with monkeypatch.context() as patched:
            patched.setattr(copying, "seal", dying)
            with pytest.raises(Killed):
                move(mysql_url, target)
        following = queue_of(jobs).following
        assert following is not None
        assert following._where() is None, "a call that is refused now has to wait"
        waiting = pool.submit(jobs.enqueue, "add")
        monkeypatch.setattr(copying, "seal", looking)
        move(mysql_url, target)
        assert len(seen) > 5
        assert set(seen) == {None}, "likewise at each statement"
        assert ids(target) == [first.id, waiting.result().id]
        assert jobs.get(first).status == "pending"
