"""No handler begins while the worker's lease may be over."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.base.clock import SystemClock
from rowcall.domain.outcome import Released
from rowcall.operations.effects import Write
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import claim_by_hand
from rowcall.testing import FakeClock, eventually
from rowcall.testing.process import PythonProcess
from rowcall.worker.attempt import Attempt, CommonFacts
from rowcall.worker.completion import Completion
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.registrar import Identity, Lease
from tests.worker.support import claimed


def test_it_is_renewed_from_when_the_heartbeat_was_sent() -> None:
    clock = FakeClock(monotonic=100)
    lease = Lease(15, clock)
    assert lease.may_be_over
    lease.renew(95)
    assert not lease.may_be_over
    lease.renew(90)  # an earlier one whose reply came later
    clock.advance(10)
    assert not lease.may_be_over
    clock.advance(0.001)
    assert lease.may_be_over


def test_the_clock_continues_while_the_machine_is_suspended() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= SystemClock().monotonic() <= time.clock_gettime(time.CLOCK_BOOTTIME)


@pytest.mark.parametrize("kind", ["sync", "async", "batch"])
def test_an_attempt_does_not_start_when_the_lease_may_be_over(jobs: Rowcall, kind: str) -> None:
    called: list[object] = []

    @jobs.task(name="sync")
    def in_thread() -> None:
        called.append(1)

    @jobs.task(name="async")
    async def on_loop() -> None:
        called.append(1)

    @jobs.task(name="batch", batch=2)
    def together(items: list[int]) -> None:
        called.append(items)

    made = [jobs.enqueue(kind, {"item": 1} if kind == "batch" else {}, max_attempts=1) for _ in range(2)]
    claim = queue_of(jobs).run(Write(lambda: claim_by_hand(queue_of(jobs).dialect, Demand(worker="w", slots=2))))
    lease = Lease(15, queue_of(jobs).clock)  # never renewed
    first, second = (
        Attempt(
            ready,
            queue_of(jobs).declared.tasks[kind],
            CommonFacts(
                Identity("w", None), claim.work.now_ms, queue_of(jobs).clock, Completion(queue_of(jobs)), lease=lease
            ),
        )
        for ready in claim.started
    )
    dispatcher = Dispatcher(1, lambda: None, queue_of(jobs).clock, None, tasks=queue_of(jobs).declared.tasks)
    if kind == "batch":
        dispatcher.accept([first], [], [second])
        dispatcher.start_accepted()
    else:
        dispatcher.accept([first], [second])
        dispatcher.start_accepted()
    eventually(lambda: not (dispatcher.busy or dispatcher.buffered))
    attempts = dispatcher.pop_ended()
    assert {attempt.ready.id for attempt in attempts} == {job.id for job in made}
    for attempt in attempts:
        assert attempt.transition is not None
        assert (attempt.transition.move, attempt.transition.attempt_recorded) == ("release", False)
        assert attempt.started_at == 0
    assert called == []
    dispatcher.close()


def test_an_attempt_that_was_stopped_before_its_thread_started_it_is_not_called(jobs: Rowcall) -> None:
    called: list[int] = []

    @jobs.task
    def late() -> None:
        called.append(1)

    late.enqueue()
    (attempt,) = claimed(jobs, 1)
    attempt.stop(Released())
    dispatcher = Dispatcher(1, lambda: None, queue_of(jobs).clock, None)
    dispatcher.accept([attempt], [])
    dispatcher.start_accepted()
    eventually(lambda: dispatcher.has_ended)
    assert attempt.transition is not None
    assert attempt.transition.move == "release"
    assert called == []
    dispatcher.close()


ABANDON_AND_EXIT = """
import threading
from rowcall import Limit, Rowcall

jobs = Rowcall("sqlite:///app.db")

@jobs.task(limit=Limit("one", concurrency=1), timeout=0.1, max_attempts=1)
def stay():
    threading.Event().wait()

stay.enqueue()
assert jobs.drain(concurrency=1).failed == 1
assert [worker.concurrency for worker in jobs.workers()] == [0]
"""


def test_a_process_that_exits_frees_the_slots_of_handlers_that_it_abandoned(tmp_path: Path) -> None:
    with PythonProcess("-c", ABANDON_AND_EXIT, cwd=str(tmp_path)) as process:
        assert process.wait() == 0, process.output
    with Rowcall(f"sqlite:///{tmp_path}/app.db") as jobs:
        assert jobs.workers() == []
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        assert connection.execute("select * from rowcall_slot").fetchall() == []


def test_others_see_at_once_that_a_worker_is_gone_whose_registration_could_not_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with Rowcall(f"sqlite:///{path}") as jobs, closing(sqlite3.connect(path, isolation_level=None)) as plain:
        jobs.migrate()
        plain.execute("create trigger kept before delete on rowcall_worker begin select raise(abort, 'kept'); end")
        jobs.drain()
        assert len(jobs.workers()) == 1
        plain.execute("drop trigger kept")
        jobs.drain()
        assert jobs.workers() == []
