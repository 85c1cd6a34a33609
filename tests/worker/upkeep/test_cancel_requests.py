"""How a worker learns what it is to cancel, and what it does then."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing

import pytest

from rowcall import Context, Rowcall
from rowcall.app import queue_of
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import CancelRequested, Lost
from rowcall.operations.effects import Write
from rowcall.queue import Operation
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import claim_by_hand
from rowcall.store.queries.claims import Fence
from rowcall.store.queries.control import INTERRUPTED
from rowcall.store.statement import Plan, Query
from rowcall.testing import eventually
from rowcall.worker.attempt import Attempt, CommonFacts, Stop
from rowcall.worker.completion import Completion
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.registrar import Identity
from rowcall.worker.upkeep import cancel_requests
from tests.worker.support import Site, ended, some_heartbeats


@pytest.fixture
def asked(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the checks for cancel requests, by the ids of their jobs."""
    ids: list[int] = []
    ask = queue_of(jobs).dialect.ask

    def noted(query: Query[object], *values: Sequence[Fence]) -> Plan[list[object]]:
        if query is INTERRUPTED:
            ids.extend(fence.job_id for fence in values[0])
        return ask(query, *values)

    monkeypatch.setattr(queue_of(jobs).dialect, "ask", noted)
    monkeypatch.setattr(cancel_requests, "CANCEL_CHECK_SECONDS", 0.02)
    return ids


def test_nothing_is_asked_while_nothing_runs(jobs: Rowcall, asked: list[int]) -> None:
    let_go = threading.Event()

    @jobs.task
    def held() -> None:
        assert let_go.wait(30)

    with jobs.worker(lease=0.5):
        some_heartbeats(jobs, 3)
        assert asked == []
        job = held.enqueue()
        eventually(lambda: len(asked) > 3)
        assert set(asked) == {job.id}
        let_go.set()
        ended(jobs, job)
        some_heartbeats(jobs, 2)
        so_far = len(asked)
        some_heartbeats(jobs, 3)
        assert len(asked) == so_far


@pytest.mark.parametrize(
    ("because", "move"), [(CancelRequested("enough"), Move.CANCEL), (Lost(), Move.RECOVER)], ids=["asked", "ended"]
)
def test_a_buffered_attempt_never_starts(jobs: Rowcall, because: Stop, move: Move) -> None:
    let_go, began = threading.Event(), []

    @jobs.task(queue="one")
    def held(number: int) -> None:
        began.append(number)
        assert let_go.wait(30)

    for number in (1, 2):
        held.enqueue(number)
    claim = queue_of(jobs).run(
        Write(lambda: claim_by_hand(queue_of(jobs).dialect, Demand(worker="me", slots=2, lease_ms=60_000)))
    )
    first, second = (
        Attempt(
            ready,
            queue_of(jobs).declared.tasks["held"],
            CommonFacts(Identity("me", None), claim.work.now_ms, queue_of(jobs).clock, Completion(queue_of(jobs))),
            buffered=buffered,
        )
        for ready, buffered in zip(claim.started, (False, True), strict=True)
    )
    woken = threading.Event()
    dispatcher = Dispatcher(1, woken.set, queue_of(jobs).clock, None, limited_queues=True)
    dispatcher.accept([first], [second])
    dispatcher.start_accepted()
    dispatcher.cancel(second, because)
    assert woken.is_set()
    assert (dispatcher.buffered, dispatcher.in_flight("one")) == (0, 1)
    assert dispatcher.pop_ended() == [second]
    assert second.transition is not None
    assert (second.transition.move, second.stopped_because) == (move, because)
    let_go.set()
    eventually(lambda: dispatcher.has_ended)
    assert (dispatcher.pop_ended(), began) == ([first], [1])
    dispatcher.close()


def test_what_waits_in_the_buffer_is_asked_about_too(jobs: Rowcall) -> None:
    let_go, began = threading.Event(), []

    @jobs.task
    def held(number: int) -> None:
        began.append(number)
        assert let_go.wait(30)

    for number in (1, 2):
        held.enqueue(number)
    claim = queue_of(jobs).run(
        Write(lambda: claim_by_hand(queue_of(jobs).dialect, Demand(worker="me", slots=1, buffer=1)))
    )
    first, second = (
        Attempt(
            ready,
            queue_of(jobs).declared.tasks["held"],
            CommonFacts(Identity("me", None), claim.work.now_ms, queue_of(jobs).clock, Completion(queue_of(jobs))),
            buffered=buffered,
        )
        for ready, buffered in zip((*claim.started, *claim.buffered), (False, True), strict=True)
    )
    dispatcher = Dispatcher(1, lambda: None, queue_of(jobs).clock, None)
    dispatcher.accept([first], [second])
    dispatcher.start_accepted()
    jobs.complete(jobs.get(second.ready.id))
    cancel_requests.CancelRequests(queue_of(jobs), dispatcher).check()
    assert dispatcher.pop_ended() == [second]
    assert not first.cancelled
    let_go.set()
    eventually(lambda: dispatcher.has_ended)
    assert began == [1]
    dispatcher.close()


def test_a_handler_that_completes_in_autocommit_mode_is_not_stopped(
    site: Site, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease has moved for all to see before the call returns."""
    complete = Completion.complete

    def complete_and_check(*arguments: object) -> Operation[None]:
        yield from complete(*arguments)  # type: ignore[arg-type]
        assert worker._dispatcher is not None
        cancel_requests.CancelRequests(queue_of(jobs), worker._dispatcher).check()

    monkeypatch.setattr(Completion, "complete", complete_and_check)

    @jobs.task
    def completes(ctx: Context) -> None:
        with closing(sqlite3.connect(site.database, isolation_level=None)) as connection:
            ctx.complete("done", connection=connection)
        assert not ctx.cancelled
        site.trace("continued")

    with jobs.worker() as worker:
        job = ended(jobs, completes.enqueue())
        site.wait_for_line("continued")
    assert job.result == "done"


def test_a_handler_that_swallows_it_and_returns_has_succeeded(jobs: Rowcall) -> None:
    began, swallowed, let_go = threading.Event(), threading.Event(), threading.Event()

    @jobs.task
    async def stubborn() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()
        while not let_go.is_set():
            await asyncio.sleep(0.01)
        return "all of it"

    job = stubborn.enqueue()
    with jobs.worker():
        assert began.wait(30)
        jobs.cancel(job.id, "enough")
        assert swallowed.wait(30)
        assert jobs.get(job.id).status == "running"
        let_go.set()
        assert (ended(jobs, job).status, jobs.get(job.id).result) == ("succeeded", "all of it")


def test_a_handler_that_times_out_after_the_request_is_not_retried(jobs: Rowcall) -> None:
    began, let_go = threading.Event(), threading.Event()

    @jobs.task(timeout=0.5)
    def deaf() -> None:
        began.set()
        assert let_go.wait(30)

    job = deaf.enqueue()
    with jobs.worker(concurrency=2):
        assert began.wait(30)
        jobs.cancel(job.id)
        assert ended(jobs, job).error_code == "CANCELLED:BY_HAND"
        let_go.set()


def test_what_is_released_by_a_worker_that_stops_is_cancelled(jobs: Rowcall) -> None:
    began, let_go = threading.Event(), threading.Event()

    @jobs.task
    def deaf() -> None:
        began.set()
        assert let_go.wait(30)

    job = deaf.enqueue()
    worker = jobs.worker()
    worker.start()
    assert began.wait(30)
    jobs.cancel(job.id)
    worker.stop_at_once()
    assert worker.ended.wait(30)
    assert jobs.get(job.id).status == "cancelled"
    let_go.set()


def test_a_failure_before_the_worker_sees_the_request_counts_as_cancelled(
    jobs: Rowcall, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="rowcall")

    @jobs.task
    def fails_at_once(ctx: Context) -> None:
        jobs.cancel(ctx.job.id, "enough")
        raise ValueError("no")

    job = fails_at_once.enqueue()
    summary = jobs.drain()
    assert (summary.cancelled, summary.total) == (1, 1)
    assert jobs.get(job.id).error_detail == "enough"
    assert caplog.messages == [f"job {job.id} (fails_at_once): was cancelled by hand (CANCELLED:BY_HAND: enough)"]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_drain_sees_cancel_requests_too(jobs: Rowcall, concurrency: int) -> None:
    @jobs.task
    def cancels_itself(ctx: Context) -> None:
        jobs.cancel(ctx.job.id)
        eventually(lambda: ctx.cancelled)

    cancels_itself.enqueue()
    assert jobs.drain(concurrency=concurrency).cancelled == 1
