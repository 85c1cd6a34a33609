"""Rounds: what a worker does in one transaction."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from rowcall import Cancel, Rowcall
from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.store.claims.round import round_of_work
from rowcall.store.sqlite.dialect import catalogue
from rowcall.store.statement import Plan, Row, Statement
from rowcall.testing import FakeClock, eventually
from rowcall.worker import settling
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.pace import MOST_BUFFERED
from rowcall.worker.pacing import sqlite
from tests.worker.support import all_ended, ended


class Transactions:
    """What the loops of this process do in their transactions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rounds: list[list[str]] = []  # the statements of each round of a worker's loop
        write, read, execute = SqliteConnection.write, SqliteConnection.read, SqliteConnection.execute
        current = threading.local()

        def noted_write(connection: SqliteConnection, plan: Plan[object], **options: bool) -> object:
            current.statements = []
            if _is_round(plan):
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


def _is_round(plan: object) -> bool:
    """Return whether it is a round, also within plans that do something before or after it."""
    if getattr(plan, "__name__", "") == round_of_work.__name__:
        return True
    frame = getattr(plan, "gi_frame", None)
    return frame is not None and _is_round(frame.f_locals.get("plan"))


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
        return {texts[name] for name in ("settle_successes", "stage", "claim_rows")} <= set(statements)

    assert len([one for one in transactions.rounds if does_all(one)]) == 1


def test_jobs_that_finish_together_are_settled_in_groups(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    @jobs.task
    async def nothing() -> None: ...

    nothing.enqueue_many([{}] * 1000)
    transactions = Transactions(monkeypatch)
    assert jobs.drain(concurrency=10).succeeded == 1000
    assert 0 < len(transactions.rounds) < 300


def test_handlers_that_never_wait_run_while_the_last_ones_are_settled(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    start, execute = Dispatcher.start_accepted, SqliteConnection.execute
    settle = catalogue("rowcall_").texts()["settle_successes"]

    def noted_start(dispatcher: Dispatcher, portion: int = MOST_BUFFERED) -> None:
        if dispatcher.waits_to_start:
            calls.append("start")
        start(dispatcher, portion)

    def noted_execute(connection: SqliteConnection, statement: Statement[object]) -> list[Row]:
        if statement.sql == settle:
            calls.append("settle")
        return execute(connection, statement)

    monkeypatch.setattr(Dispatcher, "start_accepted", noted_start)
    monkeypatch.setattr(SqliteConnection, "execute", noted_execute)

    @jobs.task
    async def nothing() -> None: ...

    nothing.enqueue_many([{}] * 10_000)
    assert jobs.drain().succeeded == 10_000
    assert ("start", "settle") in pairwise(calls)


@pytest.fixture
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "PORTION", 20)
    monkeypatch.setattr(settling, "LEAST_GROUP", 5)


@pytest.mark.usefixtures("small_portions")
@pytest.mark.parametrize("concurrency", [1, 7])
def test_portions_keep_to_the_slots_and_to_the_order(jobs: Rowcall, concurrency: int) -> None:
    at_once, most, order = 0, 0, []

    @jobs.task
    async def count(number: int) -> None:
        nonlocal at_once, most
        order.append(number)
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    count.enqueue_many([{"number": number} for number in range(5000)])
    assert jobs.drain(concurrency=concurrency).succeeded == 5000
    assert most == concurrency
    furthest = max(abs(number - place) for place, number in enumerate(order))
    # with several slots, one thread may start the last jobs of a portion while another starts the next portion
    assert furthest < 2 * concurrency + (sqlite.PORTION if concurrency > 1 else 0)


@pytest.mark.usefixtures("small_portions")
def test_a_drain_runs_the_last_portion_after_jobs_that_were_cancelled(jobs: Rowcall) -> None:
    """Nothing but successes starts the next portion while it is settled."""

    @jobs.task
    async def give_up(early: bool) -> None:
        if not early:
            raise Cancel("later")

    give_up.enqueue_many([{"early": number < 3000} for number in range(3500)])
    summary = jobs.drain()
    assert (summary.succeeded, summary.cancelled) == (3000, 500)


@pytest.mark.usefixtures("small_portions")
def test_handlers_start_while_the_database_is_out_of_reach(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    write, is_out = SqliteConnection.write, threading.Event()
    ran: list[int] = []

    def write_or_fail(connection: SqliteConnection, plan: Plan[object], **options: bool) -> object:
        if is_out.is_set() and threading.current_thread().name == "rowcall-loop":
            raise StoreUnavailable("the disk is full", "Make room")
        return write(connection, plan, **options)

    monkeypatch.setattr(SqliteConnection, "write", write_or_fail)

    @jobs.task
    async def note(number: int) -> None:
        ran.append(number)
        if len(ran) == 3000:
            is_out.set()

    note.enqueue_many([{"number": number} for number in range(6000)])
    with jobs.worker():
        assert is_out.wait(30)
        eventually(lambda: len(ran) + jobs.stats().by_status["pending"] == 6000, message="the start of what is claimed")
        is_out.clear()
        all_ended(jobs)
    assert len(ran) == 6000


def test_tasks_may_be_declared_while_the_worker_runs(jobs: Rowcall) -> None:
    waiting = jobs.enqueue("newcomer")
    with jobs.worker(lease=0.5):

        @jobs.task
        def newcomer() -> str:
            return "here"

        other = newcomer.enqueue()
        assert ended(jobs, other).result == "here"
        assert ended(jobs, waiting).result == "here"
