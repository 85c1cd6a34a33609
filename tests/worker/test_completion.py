"""Completions that a worker has to wait for: transactions left open, time-outs, and others who took the job over."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowcall import Backoff, Context, Job, LeaseLost, Rowcall, current
from rowcall.task import ContextTask
from rowcall.testing import eventually
from rowcall.worker import settling
from rowcall.worker.slots import Throughput
from tests.drivers.caller.test_completion import ROLLED_BACK
from tests.worker.support import comes_to, ended

pytestmark = pytest.mark.concurrency


class Queue:
    """A queue, and connections to it as handlers have them: sync ones, which begin with the first write."""

    def __init__(self, jobs: Rowcall, database: str, connect: Callable[[str], Any]) -> None:
        self.jobs = jobs
        self.database = database
        self._connect = connect
        self.left_open: list[Any] = []
        self.ran: list[str] = []

        @jobs.task
        def note(text: str) -> None:
            self.ran.append(text)

        self.note = note

    def connect(self) -> Any:
        return self._connect(self.database)

    @contextlib.contextmanager
    def connected(self) -> Iterator[Any]:
        with contextlib.closing(self.connect()) as connection:
            yield connection

    def close(self) -> None:
        for connection in self.left_open:
            connection.close()


@pytest.fixture
def on_postgresql(postgres_url: str) -> Iterator[Queue]:
    with Rowcall(postgres_url) as jobs:
        queue = Queue(jobs, postgres_url, psycopg.connect)
        yield queue
        queue.close()


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[Queue]:
    path = tmp_path / "app.db"
    with Rowcall(path, busy_timeout=0.3) as jobs:
        queue = Queue(jobs, str(path), lambda database: sqlite3.connect(database, check_same_thread=False))
        yield queue
        queue.close()


@pytest.fixture(params=["on_sqlite", "on_postgresql"])
def queue(request: pytest.FixtureRequest) -> Queue:
    made: Queue = request.getfixturevalue(request.param)
    return made


def leaving_open(queue: Queue, **options: Any) -> Job:
    """A job whose handler completes it, and returns without a commit or a rollback."""

    def leave_open(ctx: Context) -> None:
        connection = queue.connect()
        ctx.complete("done", connection=connection)
        queue.left_open.append(connection)

    task: ContextTask[[], None] = queue.jobs.task(**options)(leave_open)
    return task.enqueue()


def left_open(queue: Queue) -> Any:
    return eventually(lambda: queue.left_open and queue.left_open[0], message="a handler that has returned")


# --- undecided ------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_left_open_blocks_no_one(on_postgresql: Queue, end: str) -> None:
    queue = on_postgresql
    job = leaving_open(queue, max_attempts=1)
    with queue.jobs.worker(concurrency=1):
        connection = left_open(queue)
        other = queue.note.enqueue("in between")
        assert ended(queue.jobs, other).status == "succeeded"
        assert queue.jobs.get(job.id).status == "running"
        getattr(connection, end)()
        job = ended(queue.jobs, job)
    if end == "commit":
        assert (job.status, job.result) == ("succeeded", "done")
    else:
        assert (job.status, job.error_code) == ("failed", ROLLED_BACK)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_left_open_on_sqlite(on_sqlite: Queue, end: str) -> None:
    """It holds the only write lock: all others wait for it, and then continue."""
    queue = on_sqlite
    job = leaving_open(queue, max_attempts=1)
    other = queue.note.using(delay=0.05).enqueue("afterwards")
    with queue.jobs.worker(concurrency=1):
        connection = left_open(queue)
        assert queue.jobs.get(job.id).status == "running"
        getattr(connection, end)()
        job = ended(queue.jobs, job)
        assert ended(queue.jobs, other).status == "succeeded"
    if end == "commit":
        assert (job.status, job.result) == ("succeeded", "done")
    else:
        assert (job.status, job.error_code) == ("failed", ROLLED_BACK)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "LONGEST_UNDECIDED_SECONDS", 0.1)


@pytest.mark.usefixtures("impatient")
def test_a_transaction_left_open_for_ever_is_logged(on_postgresql: Queue, caplog: pytest.LogCaptureFixture) -> None:
    queue = on_postgresql
    job = leaving_open(queue)
    with queue.jobs.worker():
        left_open(queue)
        eventually(lambda: [line for line in caplog.messages if f"job {job.id}" in line and "transaction" in line])
        said = len(caplog.messages)
        assert ended(queue.jobs, queue.note.enqueue("in between")).status == "succeeded"
        assert len(caplog.messages) == said


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("stop", ["worker", "drain"])
def test_a_transaction_left_open_for_ever_does_not_prevent_a_stop(on_postgresql: Queue, stop: str) -> None:
    queue = on_postgresql
    job = leaving_open(queue)
    if stop == "drain":
        queue.jobs.drain()
    else:
        with queue.jobs.worker(grace=0.1):
            left_open(queue)
    assert queue.jobs.get(job.id).status == "running"
    left_open(queue).commit()
    assert queue.jobs.get(job.id).status == "succeeded"


@pytest.mark.usefixtures("impatient")
def test_rolled_back_after_the_worker_has_gone(on_postgresql: Queue) -> None:
    """Others find the job, as that of any worker that is gone."""
    queue = on_postgresql
    job = leaving_open(queue, max_attempts=2)
    queue.jobs.drain()
    left_open(queue).rollback()
    queue.left_open.pop().close()
    queue.jobs.drain()
    left_open(queue).commit()
    job = ended(queue.jobs, job)
    assert (job.status, job.attempt) == ("succeeded", 2)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_handler_that_continues_after_it_has_completed_blocks_no_one(
    on_postgresql: Queue, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Its row is locked on its own: the loop, which notes of long runs out of the buffer that they began, leaves it."""
    monkeypatch.setattr(settling, "MARK_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(Throughput, "buffer_size", 5)
    queue, gate, first = on_postgresql, threading.Event(), threading.Event()
    completed: list[int] = []

    @queue.jobs.task
    def hold_the_slots() -> None:
        assert first.wait(20)

    @queue.jobs.task(max_attempts=2, retry=Backoff.constant(3600))
    def hold_the_row(ctx: Context) -> None:
        with queue.connected() as connection:
            ctx.complete("done", connection=connection)
            completed.append(ctx.job.id)
            assert gate.wait(20)
            getattr(connection, end)()

    hold_the_slots.enqueue_many([{}, {}])
    job = hold_the_row.enqueue()
    with queue.jobs.worker(concurrency=2):
        comes_to(queue.jobs, job, "running")
        assert queue.jobs.get(job.id).started_at is None  # it waits in the buffer
        first.set()
        eventually(lambda: completed)
        for text in ("one", "two"):
            assert ended(queue.jobs, queue.note.enqueue(text)).status == "succeeded"
        gate.set()
        comes_to(queue.jobs, job, "succeeded" if end == "commit" else "scheduled")
    assert queue.jobs.attempts(job.id)[0].error_code == (None if end == "commit" else ROLLED_BACK)


# --- time-outs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_time_out_after_complete(queue: Queue, end: str) -> None:
    """What was committed is done, late or not; what was not has run out of time."""

    @queue.jobs.task(max_attempts=1, timeout=0.5)
    def dawdle(ctx: Context) -> None:
        with queue.connected() as connection:
            ctx.complete("done", connection=connection)
            eventually(lambda: ctx.cancelled)
            getattr(connection, end)()

    job = dawdle.enqueue()
    with queue.jobs.worker():
        job = ended(queue.jobs, job)
    if end == "commit":
        assert (job.status, job.result) == ("succeeded", "done")
    else:
        assert job.status == "failed"
        assert job.error_code is not None
        assert job.error_code.startswith("TIMEOUT")


def test_a_time_out_cancels_an_async_handler_between_complete_and_commit(on_postgresql: Queue) -> None:
    queue = on_postgresql

    @queue.jobs.task(max_attempts=1, timeout=0.5)
    async def dawdle(ctx: Context) -> None:
        connection = await psycopg.AsyncConnection.connect(queue.database)
        async with connection:  # commits, unless an exception comes by
            await ctx.acomplete("done", connection=connection)
            await connection.execute("select pg_sleep(60)")

    job = dawdle.enqueue()
    with queue.jobs.worker():
        job = ended(queue.jobs, job)
    assert job.status == "failed"
    assert job.error_code is not None
    assert job.error_code.startswith("TIMEOUT")


def test_completing_after_the_time_is_over(on_postgresql: Queue) -> None:
    queue, caught = on_postgresql, []

    @queue.jobs.task(max_attempts=1, timeout=0.5)
    def dawdle(ctx: Context) -> None:
        eventually(lambda: queue.jobs.get(ctx.job.id).status == "failed")
        with queue.connected() as connection:
            try:
                ctx.complete("done", connection=connection)
            except LeaseLost as error:
                caught.append(error)
                raise

    job = dawdle.enqueue()
    with queue.jobs.worker():
        job = ended(queue.jobs, job)
        eventually(lambda: caught)
    assert queue.jobs.get(job.id).result is None


# --- whose job it is ------------------------------------------------------------------------------


def test_recovered_meanwhile_by_another_worker(queue: Queue) -> None:
    """Everybody took the worker for lost, and another did the job: what this one wrote must not stand."""
    ran: list[str] = []

    @queue.jobs.task(max_attempts=3)
    def work(ctx: Context) -> None:
        ran.append(ctx.job.worker or "")
        if len(ran) == 2:
            return
        with queue.connected() as connection:
            connection.execute("delete from rowcall_worker")
            connection.commit()
            assert queue.jobs.drain().succeeded == 1
            try:
                connection.execute("insert into mine values (1)")
                ctx.complete("mine", connection=connection)
                connection.commit()
            except LeaseLost:
                connection.rollback()
                raise

    with queue.connected() as connection:
        queue.jobs.migrate()
        connection.execute("create table mine (id integer)")
        connection.commit()
    job = work.enqueue()
    with queue.jobs.worker(concurrency=1, lease=600):
        eventually(lambda: len(ran) == 2)
        job = ended(queue.jobs, job)
    assert (job.status, job.result, job.attempt) == ("succeeded", None, 2)
    assert len(set(ran)) == 2
    with queue.connected() as connection:
        assert connection.execute("select count(*) from mine").fetchone() == (0,)


def test_from_another_thread_of_the_handlers(on_postgresql: Queue) -> None:
    queue = on_postgresql

    @queue.jobs.task
    def work(ctx: Context) -> None:
        with queue.connected() as connection:
            thread = threading.Thread(target=lambda: ctx.complete("done", connection=connection))
            thread.start()
            thread.join(20)
            connection.commit()

    job = work.enqueue()
    assert queue.jobs.drain().succeeded == 1
    assert queue.jobs.get(job.id).result == "done"


def test_by_the_current_context(queue: Queue) -> None:
    @queue.jobs.task
    def work() -> None:
        with queue.connected() as connection:
            current().complete("done", connection=connection)
            connection.commit()

    job = work.enqueue()
    assert queue.jobs.drain().succeeded == 1
    assert queue.jobs.get(job.id).result == "done"


def test_a_context_that_outlived_its_handler(queue: Queue) -> None:
    contexts: list[Context] = []

    @queue.jobs.task
    def work(ctx: Context) -> str:
        contexts.append(ctx)
        return "returned"

    job = work.enqueue()
    queue.jobs.drain()
    with queue.connected() as connection:
        with pytest.raises(LeaseLost):
            contexts[0].complete("late", connection=connection)
        connection.rollback()
    assert queue.jobs.get(job.id).result == "returned"


def test_completed_without_a_commit_on_a_connection_that_is_dropped(queue: Queue) -> None:
    """The commonest mistake: the connection goes with the handler, and its transaction with the connection."""

    @queue.jobs.task(max_attempts=1)
    def work(ctx: Context) -> None:
        connection = queue.connect()
        ctx.complete("done", connection=connection)
        connection.close()

    job = work.enqueue()
    summary = queue.jobs.drain()
    assert (summary.failed, summary.succeeded) == (1, 0)
    assert queue.jobs.get(job.id).error_code == ROLLED_BACK
