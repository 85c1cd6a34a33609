"""A commit from any connection wakes an idle worker on PostgreSQL. No poll finds a job here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import IsolationLevel

from rowcall import Backoff, Job, Rowcall
from rowcall.drivers.postgres.database import PostgresDatabase
from rowcall.testing import eventually
from rowcall.testing.process import ForkedProcess
from rowcall.wake.waiter_and_file_watch import Wakeup
from rowcall.worker import slots
from rowcall.worker.pacing import postgres_waiter
from rowcall.worker.upkeep import recovery
from tests.connected import connected, database_with_tables, empty
from tests.wake.idle import PLAIN_SQL, Idle, ear
from tests.worker.support import comes_to, ended

pytestmark = pytest.mark.concurrency

ENQUEUE_IN_A_PROCESS = """
import sys
from rowcall import Rowcall
with Rowcall(sys.argv[1]) as jobs:
    jobs.enqueue("note", {"text": "x"})
"""
STRICTER = [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]


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
def waiting(jobs: Rowcall, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Idle:
    """Its worker is not started yet."""
    idle = Idle(jobs, postgres_url)
    idle.watch(monkeypatch)
    return idle


@pytest.fixture
def idle(waiting: Idle) -> Iterator[Idle]:
    with waiting.worker():
        waiting.settle()
        yield waiting


# --- who commits -----------------------------------------------------------------------------


def by_enqueue(idle: Idle) -> None:
    idle.note.enqueue("x")


def by_enqueue_many(idle: Idle) -> None:
    idle.note.enqueue_many([{"text": "x"}])


def by_aenqueue(idle: Idle) -> None:
    asyncio.run(idle.note.aenqueue("x"))


def by_another_process(idle: Idle) -> None:
    with ForkedProcess("-c", ENQUEUE_IN_A_PROCESS, idle.url) as process:
        assert process.wait() == 0, process.output


def on_a_callers_connection(idle: Idle) -> None:
    with connected(idle.url) as mine:
        idle.note.using(connection=mine).enqueue("x")


def in_a_callers_transaction(idle: Idle) -> None:
    with connected(idle.url, autocommit=False) as mine:
        idle.note.using(connection=mine).enqueue("x")
        assert idle.ran == []
        mine.commit()


def many_in_a_callers_transaction(idle: Idle) -> None:
    with connected(idle.url, autocommit=False) as mine:
        idle.note.using(connection=mine).enqueue_many([{"text": "x"}])
        mine.commit()


def by_plain_sql(idle: Idle) -> None:
    with connected(idle.url) as mine:
        mine.execute(PLAIN_SQL)


def by_plain_sql_in_a_longer_transaction(idle: Idle) -> None:
    with connected(idle.url, autocommit=False) as mine:
        mine.execute("create temporary table orders (id int)")
        mine.execute(PLAIN_SQL)
        mine.execute("insert into orders values (1)")
        mine.commit()


def by_a_savepoint(idle: Idle) -> None:
    with connected(idle.url) as mine, mine.transaction():
        with mine.transaction():
            mine.execute(PLAIN_SQL)
        with mine.transaction() as inner:
            mine.execute(PLAIN_SQL)
            raise psycopg.Rollback(inner)


def by_copy(idle: Idle) -> None:
    copied = "copy rowcall_job (type, payload) from stdin"
    with connected(idle.url) as mine, mine.cursor() as cursor, cursor.copy(copied) as copy:
        copy.write_row(("note", '{"text": "x"}'))


def with_another_search_path(idle: Idle) -> None:
    with connected(idle.url) as mine:
        mine.execute("set search_path to pg_catalog")
        mine.execute(PLAIN_SQL.replace(b"rowcall_job", b"public.rowcall_job"))


@pytest.mark.parametrize(
    "commit",
    [
        by_enqueue,
        by_enqueue_many,
        by_aenqueue,
        by_another_process,
        on_a_callers_connection,
        in_a_callers_transaction,
        many_in_a_callers_transaction,
        by_plain_sql,
        by_plain_sql_in_a_longer_transaction,
        by_a_savepoint,
        by_copy,
        with_another_search_path,
    ],
)
def test_a_commit_wakes_an_idle_worker(idle: Idle, commit: Callable[[Idle], None]) -> None:
    commit(idle)
    idle.has_run("x")


def test_what_is_rolled_back_never_runs(idle: Idle) -> None:
    with connected(idle.url, autocommit=False) as mine:
        idle.note.using(connection=mine).enqueue("rolled back")
        mine.rollback()
        idle.note.using(connection=mine).enqueue("x")
        mine.commit()
    idle.has_run("x")


def test_it_is_woken_again_and_again(idle: Idle) -> None:
    for times in range(1, 6):
        by_plain_sql(idle)
        idle.has_run(*["x"] * times)


def test_every_worker_is_woken(waiting: Idle) -> None:
    gate = threading.Event()

    @waiting.jobs.task
    def hold() -> None:
        assert gate.wait(20)

    with waiting.worker(concurrency=1), waiting.worker(concurrency=1), waiting.worker(concurrency=1):
        eventually(lambda: waiting.listening == [True] * 3)
        made = [hold.enqueue() for _ in range(3)]
        names = {comes_to(waiting.jobs, job, "running").worker for job in made}
        gate.set()
        assert len(names) == 3
        for job in made:
            ended(waiting.jobs, job)


@pytest.mark.parametrize("queue", ["mail", 'a "quoted" näme', "50%"])
def test_a_worker_of_some_queues_is_notified_of_those(waiting: Idle, queue: str) -> None:
    with waiting.worker(queues=["other", queue]), ear(waiting.url) as hearing:
        waiting.settle()
        waiting.note.enqueue("elsewhere")
        asyncio.run(waiting.note.using(queue="ma").aenqueue("elsewhere"))
        waiting.note.using(queue="others").enqueue_many([{"text": "elsewhere"}] * 3)
        assert hearing.heard() == []
        waiting.note.using(queue=queue).enqueue("x")
        waiting.has_run("x")
        asyncio.run(waiting.note.using(queue=queue).aenqueue("y"))
        waiting.has_run("x", "y")
        waiting.note.using(queue=queue).enqueue_many([{"text": "z"}])
        waiting.has_run("x", "y", "z")
        with connected(waiting.url) as mine:
            mine.execute(
                "insert into rowcall_job (type, queue, payload) values ('note', %s, %s)", [queue, '{"text": "p"}']
            )
        waiting.has_run("x", "y", "z", "p")


@pytest.mark.parametrize("prefix", ["_", "mine_"])
def test_queues_of_one_database_have_a_channel_each(
    postgres_url: str, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    with Rowcall(postgres_url, table_prefix=prefix) as other, ear(postgres_url) as theirs:
        idle = Idle(other, postgres_url)
        idle.watch(monkeypatch)
        with idle.worker():
            eventually(lambda: idle.waits and Wakeup.NOTIFIED in idle.wakeups)
            with connected(postgres_url) as mine:
                mine.execute(PLAIN_SQL.replace(b"rowcall_", prefix.encode()))
            idle.has_run("x")
            idle.note.enqueue("y")
            idle.has_run("x", "y")
            assert theirs.heard() == []


# --- snapshots and transactions that are older than the worker's rest ----------------------------


@pytest.mark.parametrize("level", STRICTER)
def test_a_transaction_that_began_before_the_worker_went_idle(waiting: Idle, level: IsolationLevel) -> None:
    """Its snapshot says that no worker listens."""
    with connected(waiting.url, autocommit=False) as mine:
        mine.isolation_level = level
        assert mine.execute("select count(*) from rowcall_worker").fetchone() == (0,)
        with waiting.worker():
            waiting.settle()
            mine.execute(PLAIN_SQL)
            mine.commit()
            waiting.has_run("x")


@pytest.mark.parametrize("level", STRICTER)
def test_a_callers_transaction_that_began_before_the_worker_went_idle(waiting: Idle, level: IsolationLevel) -> None:
    with connected(waiting.url, autocommit=False) as mine:
        mine.isolation_level = level
        mine.execute("select 1 from rowcall_worker")
        with waiting.worker():
            waiting.settle()
            waiting.note.using(connection=mine).enqueue("x")
            mine.commit()
            waiting.has_run("x")


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_transaction_that_notified_no_worker_because_no_worker_listened_yet(waiting: Idle, ends: str) -> None:
    with connected(waiting.url, autocommit=False) as mine, ear(waiting.url) as hearing:
        mine.execute(PLAIN_SQL)
        with waiting.worker():
            waiting.settle_in_doubt()
            assert waiting.ran == []
            getattr(mine, ends)()
            eventually(lambda: not waiting.in_doubt)
            if ends == "commit":
                waiting.has_run("x")
            waiting.settle()
        assert hearing.heard() == []
    assert waiting.ran == (["x"] if ends == "commit" else [])


def test_several_such_transactions_end_one_by_one(waiting: Idle) -> None:
    with (
        connected(waiting.url, autocommit=False) as one,
        connected(waiting.url, autocommit=False) as two,
        connected(waiting.url, autocommit=False) as three,
    ):
        for mine in (one, two, three):
            mine.execute(PLAIN_SQL)
        with waiting.worker():
            waiting.settle_in_doubt(3)
            for times, mine in enumerate((two, three, one), start=1):
                mine.commit()
                waiting.has_run(*["x"] * times)
            waiting.settle()


def test_a_transaction_that_begins_while_another_is_in_doubt_notifies(waiting: Idle) -> None:
    with connected(waiting.url, autocommit=False) as old, connected(waiting.url) as young:
        old.execute(PLAIN_SQL)
        with waiting.worker():
            waiting.settle_in_doubt()
            young.execute(PLAIN_SQL)
            waiting.has_run("x")
            old.commit()
            waiting.has_run("x", "x")


# --- a busy worker -------------------------------------------------------------------------------


class Busy:
    """A worker with one slot and two jobs for it, the second of which it holds: it no longer listens."""

    def __init__(self, idle: Idle) -> None:
        self._idle = idle
        self._gates = [threading.Event(), threading.Event()]

        @idle.jobs.task
        def hold(number: int) -> None:
            assert self._gates[number].wait(20)

        self._hold = hold

    def begin(self) -> None:
        held = [self._hold.enqueue(number) for number in range(2)]
        comes_to(self._idle.jobs, held[0], "running")
        self._gates[0].set()
        comes_to(self._idle.jobs, held[1], "running")
        eventually(lambda: self._idle.listening == [False], message="a worker that is busy")

    def end(self) -> None:
        self._gates[1].set()


@pytest.fixture
def busy(waiting: Idle, monkeypatch: pytest.MonkeyPatch) -> Iterator[Busy]:
    """Busy at once, not after 50 ms; and no buffer, which is room that it would listen for."""
    monkeypatch.setattr(postgres_waiter, "BUSY_SECONDS", -1.0)
    monkeypatch.setattr(slots, "MOST_BUFFERED", 0)
    with waiting.worker(concurrency=1):
        waiting.settle()
        busy = Busy(waiting)
        busy.begin()
        yield busy
        busy.end()


def test_a_busy_worker_is_not_notified_and_an_idle_one_is(waiting: Idle, busy: Busy) -> None:
    with ear(waiting.url) as hearing:
        by_plain_sql(waiting)
        by_enqueue(waiting)
        assert hearing.heard() == []
        busy.end()
        eventually(lambda: waiting.ran == ["x", "x"])
        waiting.settle()
        by_plain_sql(waiting)
        waiting.has_run("x", "x", "x")
        assert len(hearing.heard()) == 1


@pytest.mark.parametrize("by_caller", [True, False])
def test_a_transaction_that_wrote_while_the_worker_was_busy(waiting: Idle, busy: Busy, by_caller: bool) -> None:
    with connected(waiting.url, autocommit=False) as mine, ear(waiting.url) as hearing:
        if by_caller:
            waiting.note.using(connection=mine).enqueue("x")
        else:
            mine.execute(PLAIN_SQL)
        busy.end()
        waiting.settle_in_doubt()
        mine.commit()
        waiting.has_run("x")
        assert hearing.heard() == []


# --- what was there before ------------------------------------------------------------------------


def failed_job(idle: Idle) -> Job:
    job = idle.note.using(max_attempts=1).enqueue("x")
    (claimed,) = idle.jobs.claim("by hand")
    idle.jobs.fail(claimed, "GONE:AWAY")
    return job


def test_retry_wakes_it(waiting: Idle) -> None:
    job = failed_job(waiting)
    with waiting.worker():
        waiting.settle()
        waiting.jobs.retry(job.id)
        waiting.has_run("x")


def test_release_wakes_it(waiting: Idle) -> None:
    waiting.note.enqueue("x")
    (claimed,) = waiting.jobs.claim("by hand")
    with waiting.worker():
        waiting.settle()
        waiting.jobs.release(claimed)
        waiting.has_run("x")


def test_a_failed_attempt_with_another_to_come_wakes_it(waiting: Idle) -> None:
    waiting.note.using(retry=Backoff.constant(0)).enqueue("x")
    (claimed,) = waiting.jobs.claim("by hand")
    with waiting.worker():
        waiting.settle()
        waiting.jobs.fail(claimed, "GONE:AWAY")
        waiting.has_run("x")


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PostgresDatabase, "survey_seconds", 0.02)
    monkeypatch.setattr(recovery, "RECOVERY_CHECK_SECONDS", 0.02)


@pytest.mark.usefixtures("watchful")
def test_a_recovered_job_wakes_it(waiting: Idle) -> None:
    waiting.note.enqueue("x")
    waiting.jobs.claim("by hand", lease=600)
    with waiting.worker():
        waiting.settle()
        with connected(waiting.url) as mine:
            mine.execute("update rowcall_claim set lease_until = now() - interval '1 second'")
        waiting.has_run("x")


@pytest.mark.usefixtures("watchful")
def test_a_job_of_a_worker_that_is_gone_wakes_it(waiting: Idle) -> None:
    waiting.note.enqueue("x")
    waiting.jobs.claim("by hand", lease=600)
    with waiting.worker():
        waiting.settle()
        with connected(waiting.url) as mine:
            mine.execute("update rowcall_claim set lease_until = null, worker = 'nobody'")
        waiting.has_run("x")


def test_an_earlier_job_than_it_knew_of(idle: Idle) -> None:
    """It receives a notification, and then waits no longer than that job does."""
    idle.note.using(delay=3600).enqueue("late")
    idle.settle()
    job = idle.note.using(delay=0.05).enqueue("early")
    assert ended(idle.jobs, job).status == "succeeded"
    assert idle.ran == ["early"]


# --- the row that says whether it listens ---------------------------------------------------------


def test_a_worker_that_was_declared_lost_listens_again(waiting: Idle) -> None:
    with waiting.worker(lease=1) as worker:
        waiting.settle()
        former = worker.name
        with connected(waiting.url) as mine:
            mine.execute("delete from rowcall_worker")
        eventually(lambda: worker.name != former)
        waiting.settle()
        by_plain_sql(waiting)
        waiting.has_run("x")


def test_a_worker_that_ends_leaves_no_row(waiting: Idle) -> None:
    with waiting.worker():
        waiting.settle()
    assert waiting.listening == []


def test_a_drain_does_not_listen_for_long(waiting: Idle) -> None:
    waiting.note.enqueue("x")
    assert waiting.jobs.drain().succeeded == 1
    assert waiting.listening == []
    with ear(waiting.url) as hearing:
        waiting.note.enqueue("y")
        assert hearing.heard() == []
