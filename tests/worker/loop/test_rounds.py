"""Rounds: what a worker takes, in which order, and what it leaves alone."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.store.jobs.claim import round_of_work
from rowcall.store.sqlite.dialect import catalogue
from rowcall.store.statement import Plan, Row, Statement
from rowcall.testing import FakeClock, eventually
from tests.worker.support import all_ended, ended, some_heartbeats


class Transactions:
    """What the loops of this process do in their transactions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rounds: list[list[str]] = []  # the statements of each round of a worker's loop
        write, read, execute = SqliteConnection.write, SqliteConnection.read, SqliteConnection.execute
        current = threading.local()

        def noted_write(connection: SqliteConnection, plan: Plan[object], **options: bool) -> object:
            current.statements = []
            if getattr(plan, "__name__", "") == round_of_work.__name__:
                self.rounds.append(current.statements)
            return write(connection, plan, **options)

        def noted_read(connection: SqliteConnection, plan: Plan[object], **options: bool) -> object:
            current.statements = []
            return read(connection, plan, **options)

        def noted_execute(connection: SqliteConnection, statement: Statement[object]) -> list[Row]:
            getattr(current, "statements", []).append(statement.sql)
            return execute(connection, statement)

        monkeypatch.setattr(SqliteConnection, "write", noted_write)
        monkeypatch.setattr(SqliteConnection, "read", noted_read)
        monkeypatch.setattr(SqliteConnection, "execute", noted_execute)


def test_one_transaction_settles_and_stages_and_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    with Rowcall(tmp_path / "queue.db", clock=clock) as jobs:

        @jobs.task
        async def let_time_pass() -> None:
            clock.advance(60)

        let_time_pass.enqueue()
        let_time_pass.using(delay=30).enqueue()
        transactions = Transactions(monkeypatch)
        assert jobs.drain().succeeded == 2

    def does_all(statements: list[str]) -> bool:
        texts = catalogue("rowcall_").texts()
        return {texts[name] for name in ("settle_successes", "stage", "mark_claimed_alike")} <= set(statements)

    assert len([one for one in transactions.rounds if does_all(one)]) == 1


def test_jobs_that_finish_together_are_settled_in_groups(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    @jobs.task
    async def nothing() -> None: ...

    nothing.enqueue_many([{}] * 1000)
    transactions = Transactions(monkeypatch)
    assert jobs.drain(concurrency=10).succeeded == 1000
    assert 0 < len(transactions.rounds) < 300


class Crowd:
    """Handlers that stay until they are let go, and are counted by kind meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.here: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.most_at_once = 0
        self.go = threading.Event()

    def enter(self, kind: str) -> None:
        with self._lock:
            self.here[kind] += 1
            self.most[kind] = max(self.most[kind], self.here[kind])
            self.most_at_once = max(self.most_at_once, self.here.total())

    def leave(self, kind: str) -> None:
        with self._lock:
            self.here[kind] -= 1


def declare_crowd(jobs: Rowcall, crowd: Crowd) -> None:
    @jobs.task
    def in_thread(kind: str) -> None:
        crowd.enter(kind)
        crowd.go.wait()
        crowd.leave(kind)

    @jobs.task
    async def on_loop(kind: str) -> None:
        crowd.enter(kind)
        while not crowd.go.is_set():
            await asyncio.sleep(0.001)
        crowd.leave(kind)


@pytest.mark.parametrize("tasks", [["in_thread"], ["on_loop"], ["in_thread", "on_loop"]])
def test_no_more_run_at_once_than_the_concurrency(jobs: Rowcall, tasks: list[str]) -> None:
    crowd = Crowd()
    declare_crowd(jobs, crowd)
    for number in range(30):
        jobs.enqueue(tasks[number % len(tasks)], {"kind": "one"})
    with jobs.worker(concurrency=4, lease=0.5):
        eventually(lambda: crowd.here.total() == 4)
        some_heartbeats(jobs, 2)
        assert crowd.here.total() == 4
        assert jobs.stats().by_status["running"] == 4
        crowd.go.set()
        all_ended(jobs)
    assert crowd.most_at_once == 4


@pytest.mark.parametrize("task", ["in_thread", "on_loop"])
def test_a_queue_keeps_to_its_limit(jobs: Rowcall, task: str) -> None:
    crowd = Crowd()
    declare_crowd(jobs, crowd)
    for queue in ("mail", "default", "unserved"):
        for _ in range(8):
            jobs.enqueue(task, {"kind": queue}, queue=queue)
    with jobs.worker(concurrency=6, queues="mail=2,default", lease=0.5):
        eventually(lambda: crowd.here == {"mail": 2, "default": 4})
        some_heartbeats(jobs, 2)
        assert crowd.here == {"mail": 2, "default": 4}
        crowd.go.set()
        eventually(lambda: jobs.stats().by_status["succeeded"] == 16)
    assert crowd.most["mail"] == 2
    assert jobs.stats().by_queue["unserved"]["pending"] == 8


def test_the_limit_of_a_queue_holds_for_buffered_jobs_too(jobs: Rowcall) -> None:
    crowd = Crowd()
    crowd.go.set()
    declare_crowd(jobs, crowd)
    for _ in range(400):
        jobs.enqueue("on_loop", {"kind": "mail"}, queue="mail")
    jobs.drain(concurrency=20, queues={"mail": 3})
    assert crowd.most_at_once <= 3
    assert jobs.stats().by_status["succeeded"] == 400


def test_queues_take_turns(jobs: Rowcall) -> None:
    order: list[str] = []

    @jobs.task
    async def from_queue(name: str) -> None:
        order.append(name)

    from_queue.using(queue="flood", priority=100).enqueue_many([{"name": "flood"}] * 2000)
    from_queue.using(queue="brook").enqueue_many([{"name": "brook"}] * 20)
    jobs.drain(concurrency=2)
    last_of_the_few = max(position for position, name in enumerate(order) if name == "brook")
    assert last_of_the_few < 1000
    assert len(order) == 2020


def test_a_flood_that_comes_later_does_not_starve_the_others(jobs: Rowcall) -> None:
    """With one slot, and no buffer, each queue has its turn in every other round."""
    order: list[str] = []

    @jobs.task
    def from_queue(name: str) -> None:
        order.append(name)
        threading.Event().wait(0.002)

    from_queue.using(queue="flood").enqueue_many([{"name": "flood"}] * 60)
    from_queue.using(queue="brook").enqueue_many([{"name": "brook"}] * 6)
    jobs.drain(concurrency=1)
    assert order[:40].count("brook") == 6


def test_higher_priority_runs_first_and_then_the_older(jobs: Rowcall) -> None:
    order: list[tuple[int, int]] = []

    @jobs.task
    def one(priority: int, number: int) -> None:
        order.append((-priority, number))

    @jobs.task
    async def other(priority: int, number: int) -> None:
        order.append((-priority, number))

    for number, priority in enumerate([0, 5, -3, 5, 100, 0, -3, 100, 7]):
        jobs.enqueue(["one", "other"][number % 2], {"priority": priority, "number": number}, priority=priority)
    jobs.drain(concurrency=1)
    assert len(order) == 9
    assert order == sorted(order)


def test_an_unknown_task_is_left_for_workers_that_know_it(
    jobs: Rowcall, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    @jobs.task
    def known(name: str) -> None:
        ran.append(name)

    strangers = [jobs.enqueue("stranger", {"name": str(number)}, priority=10) for number in range(50)]
    behind = known.enqueue("behind")
    with caplog.at_level(logging.WARNING, "rowcall"), jobs.worker(concurrency=2, lease=0.5):
        ended(jobs, behind)
        later = known.enqueue("later")
        strangers.append(jobs.enqueue("stranger", {"name": "late"}))
        ended(jobs, later)
        some_heartbeats(jobs)
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "'stranger'" in warnings[0]
    for job in strangers:
        left = jobs.get(job.id)
        assert (left.status, left.attempt, left.worker, left.error_code) == ("pending", 0, None, None)
    with Rowcall(tmp_path / "queue.db") as others:

        @others.task(name="stranger")
        def no_stranger_here(name: str) -> None:
            ran.append(name)

        assert others.drain(concurrency=1).succeeded == 51
    assert ran == ["behind", "later", *map(str, range(50)), "late"]


def test_an_unknown_task_costs_no_busy_loop(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    @jobs.task
    def known() -> None: ...

    for _ in range(20):
        jobs.enqueue("stranger")
    done = known.enqueue()
    transactions = Transactions(monkeypatch)
    with jobs.worker(lease=0.5):
        ended(jobs, done)
        rounds = len(transactions.rounds)
        assert rounds > 0
        some_heartbeats(jobs, 10)
        assert len(transactions.rounds) - rounds <= 1


@pytest.mark.parametrize("paused", [{"queue": "mail"}, {"task": "known"}], ids=str)
def test_what_is_paused_costs_no_busy_loop(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch, paused: dict[str, str]
) -> None:
    """Neither by itself, nor when others commit beside it."""

    @jobs.task(queue="mail")
    def known() -> None: ...

    jobs.pause(**paused)
    known.enqueue_many([{}] * 20)
    transactions = Transactions(monkeypatch)
    with jobs.worker(lease=0.5):
        some_heartbeats(jobs, 3)
        rounds = len(transactions.rounds)
        some_heartbeats(jobs, 10)  # each is a commit that the loop looks at
        assert len(transactions.rounds) - rounds <= 1
        assert jobs.stats().by_status["pending"] == 20
        jobs.resume(**paused)
        eventually(lambda: jobs.stats().by_status["succeeded"] == 20)


def test_a_full_queue_of_last_attempts_behind_a_slow_job_costs_no_busy_loop(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such jobs are never buffered; the loop must not go round and round to find that out."""
    go = threading.Event()

    @jobs.task
    async def quick() -> None: ...

    @jobs.task(max_attempts=1)
    def slow() -> None:
        go.wait()

    quick.using(priority=10).enqueue_many([{}] * 2000)
    slow.enqueue_many([{}] * 3)
    transactions = Transactions(monkeypatch)
    with jobs.worker(concurrency=1, lease=0.5):
        eventually(lambda: jobs.stats().by_status["succeeded"] == 2000)
        some_heartbeats(jobs, 3)
        rounds = len(transactions.rounds)
        assert rounds > 0
        some_heartbeats(jobs, 10)
        assert len(transactions.rounds) - rounds <= 1
        assert jobs.stats().by_status["pending"] == 2
        go.set()
        all_ended(jobs)


def test_a_job_that_needs_a_slot_behind_an_open_batch_costs_no_busy_loop(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    @jobs.task
    async def quick() -> None: ...

    @jobs.task(batch=2, batch_wait=600)
    def pair(items: list[str]) -> None:
        ran.extend(items)

    @jobs.task(max_attempts=1)
    def last() -> None:
        ran.append("last")

    quick.using(priority=10).enqueue_many([{}] * 1000)
    pair.using(priority=5).enqueue("one")
    last.enqueue()
    transactions = Transactions(monkeypatch)
    with jobs.worker(concurrency=1, lease=0.5):
        eventually(lambda: jobs.stats().by_status["succeeded"] == 1000)
        some_heartbeats(jobs, 3)
        rounds = len(transactions.rounds)
        some_heartbeats(jobs, 10)
        assert len(transactions.rounds) - rounds <= 1
        assert ran == []
        pair.enqueue("two")
        all_ended(jobs)
    assert ran == ["one", "two", "last"]


def test_tasks_may_be_declared_while_the_worker_runs(jobs: Rowcall) -> None:
    waiting = jobs.enqueue("newcomer")
    with jobs.worker(lease=0.5):

        @jobs.task
        def newcomer() -> str:
            return "here"

        other = newcomer.enqueue()
        assert ended(jobs, other).result == "here"
        assert ended(jobs, waiting).result == "here"
