"""A caller that waits for the end of a job is notified. These tests turn the polling off that would hide a miss."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowcall import Context, Job, JobCancelled, JobFailed, JobNotFound, Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.base.effects import drive
from rowcall.domain.outcome import SUCCESS, Succeeded
from rowcall.operations import results as waiting
from rowcall.operations.effects import Read, Write
from rowcall.operations.results import end_waiter
from rowcall.operations.retention import clean_up
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import round_of_work
from rowcall.store.ends.attempts import Ended
from rowcall.store.queries.claims import Fence
from rowcall.store.queries.results import REGISTER_WAITER
from rowcall.store.results.readers import ends
from rowcall.store.statement import Row, Statement
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from rowcall.wake.waiter_and_file_watch import Wakeup
from tests.conformance.worker_parts import StoreWorker
from tests.connected import connected

LONG = 20.0
WAITERS = "select job_id from rowcall_waiter order by job_id"


@dataclass
class Report:
    lines: int
    path: Path


class Opaque:
    """Has no JSON form."""


@pytest.mark.parametrize(
    ("annotation", "value", "found"),
    [
        (Path, Path("a.csv"), Path("a.csv")),
        (datetime, datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
        (bytes, b"a\xff", b"a\xff"),
        (Report, Report(3, Path("a.csv")), Report(3, Path("a.csv"))),
        (list[Report], [Report(3, Path("a.csv"))], [Report(3, Path("a.csv"))]),
        (tuple[int, str], (1, "a"), (1, "a")),
        (dict[int, float], {1: 0.5}, {1: 0.5}),
        (Decimal, Decimal("1.10"), Decimal("1.10")),
        (Report | None, None, None),
        (int, None, None),
        (None, {"sent": 1}, {"sent": 1}),
        (object, (1, 2), [1, 2]),
        (Any, (1, 2), [1, 2]),
        (Opaque, {"a": 1}, {"a": 1}),
        (Path | str, Path("a.csv"), "a.csv"),
        (inspect.Signature.empty, (1, 2), [1, 2]),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_result_has_the_type_of_the_annotation(
    tmp_path: Path, annotation: object, value: object, found: object, is_async: bool
) -> None:
    def work() -> object:
        return value

    async def work_async() -> object:
        return value

    handler = work_async if is_async else work
    handler.__annotations__ = {} if annotation is inspect.Signature.empty else {"return": annotation}
    with Rowcall(tmp_path / "app.db") as jobs, Rowcall(tmp_path / "app.db") as stranger:
        job = jobs.task(name="work")(handler).enqueue()
        jobs.drain()
        for result in (jobs.result(job), jobs.result(job.id), asyncio.run(jobs.aresult(job))):
            assert (result, type(result)) == (found, type(found))
        assert stranger.result(job) == jobs.get(job).result


def test_a_result_that_does_not_fit_the_annotation_is_returned_as_it_is_stored(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs, Rowcall(tmp_path / "app.db") as other:

        @jobs.task
        def count() -> int: ...  # type: ignore[empty-body]

        job, chain = count.enqueue(), jobs.start_chain([count.bind()])
        for waiting in (job.id, chain.id):  # by hand without the declaration, or by an older version of the task
            other.complete(waiting, "many")
        stored: object = jobs.result(job)
        assert stored == "many"
        assert jobs.get(job).result == "many"
        assert jobs.result(chain) == "many"  # without a static type


@pytest.fixture(autouse=True)
def no_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "FIRST_CHECK_SECONDS", 600.0)
    monkeypatch.setattr(waiting, "LAST_CHECK_SECONDS", 600.0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'app.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def jobs(url: str, clock: FakeClock) -> Iterator[Rowcall]:
    """The queue that ends jobs."""
    with Rowcall(url, clock=clock) as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture
def elsewhere(url: str, jobs: Rowcall) -> Iterator[Rowcall]:
    """The queue that waits."""
    with Rowcall(url) as elsewhere:
        yield elsewhere


@pytest.fixture
def others() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as others:
        yield others


@pytest.fixture
def wait_for(elsewhere: Rowcall, others: ThreadPoolExecutor) -> Callable[[Job], Future[object]]:
    def wait(job: Job) -> Future[object]:
        """A waiter that has read for the last time before it is notified."""
        looked = threading.Event()
        read = queue_of(elsewhere).database.read

        def noted(plan: object, **options: bool) -> object:
            found = read(plan, **options)  # type: ignore[arg-type,var-annotated]
            if threading.current_thread().name == "rowcall-results":
                looked.set()
            return found

        queue_of(elsewhere).database.read = noted  # type: ignore[method-assign,assignment]
        waiting = others.submit(elsewhere.result, job, timeout=LONG)
        assert looked.wait(LONG)
        if queue_of(elsewhere).config.server is not None:
            room = queue_of(elsewhere).backend.end_waiter
            assert room is not None
            eventually(lambda: is_listening(elsewhere), message="a listener")
        return waiting

    return wait


def is_listening(jobs: Rowcall) -> bool:
    server = queue_of(jobs).config.server
    assert server is not None
    with connected(server.url) as connection:
        asked = "select from pg_stat_activity where datname = current_database() and query like 'listen%ended%'"
        return bool(connection.execute(asked).fetchall())


def claimed(jobs: Rowcall) -> Job:
    job = jobs.dequeue("hand")
    assert job is not None
    return job


def by_a_worker(jobs: Rowcall) -> None:
    worker = StoreWorker(jobs, "w")
    assert worker.settle(worker.start_one(), Succeeded('"done"'))


def lost_for_good(jobs: Rowcall) -> None:
    assert jobs.dequeue("hand", lease=10) is not None
    clock = queue_of(jobs).clock
    assert isinstance(clock, FakeClock)
    clock.advance(11)
    assert jobs.dequeue("another") is None


def expired(jobs: Rowcall) -> None:
    clock = queue_of(jobs).clock
    assert isinstance(clock, FakeClock)
    clock.advance(601)
    assert jobs.dequeue("hand") is None


def on_a_callers_connection(jobs: Rowcall) -> None:
    def opened() -> sqlite3.Connection | psycopg.Connection[tuple[object, ...]]:
        config = queue_of(jobs).config
        return sqlite3.connect(config.path) if config.server is None else psycopg.connect(config.server.url)

    @jobs.task(name="send")
    def send(ctx: Context) -> None:
        with closing(opened()) as connection:
            ctx.complete("done", connection=connection)
            connection.commit()

    assert jobs.drain(concurrency=1).succeeded == 1


ENDS: dict[str, tuple[Callable[[Rowcall], object], object]] = {
    "by a worker": (by_a_worker, "done"),
    "by hand": (lambda jobs: jobs.complete(claimed(jobs), "done"), "done"),
    "failed": (lambda jobs: jobs.fail(claimed(jobs), "A:B"), JobFailed),
    "lost for good": (lost_for_good, JobFailed),
    "cancelled": (lambda jobs: jobs.cancel(1), JobCancelled),
    "expired": (expired, JobCancelled),
    "deleted": (lambda jobs: jobs.delete(1), JobNotFound),
    "on a caller's connection": (on_a_callers_connection, "done"),
}


@pytest.mark.parametrize("end", ENDS)
def test_every_way_to_end_notifies(jobs: Rowcall, wait_for: Callable[[Job], Future[object]], end: str) -> None:
    waiting = wait_for(jobs.enqueue("send", max_attempts=1, expires_in=600))
    act, expected = ENDS[end]
    act(jobs)
    if isinstance(expected, type):
        with pytest.raises(expected):
            waiting.result(LONG)
    else:
        assert waiting.result(LONG) == expected


class Arrivals:
    """New callers end every wait, before its time is over and before any notification."""

    def __init__(self) -> None:
        self.has_checked = threading.Event()

    def wait(self, seconds: float) -> Wakeup:
        self.has_checked.set()
        return Wakeup.WOKEN

    def note_wakeup(self, *, useful: bool) -> None:
        pass


class TestWhileOthersKeepArriving:
    @pytest.fixture(autouse=True)
    def arrivals(self, monkeypatch: pytest.MonkeyPatch) -> Arrivals:
        arrivals = Arrivals()
        monkeypatch.setattr(waiting, "waiter_for_ends", lambda *_: nullcontext(arrivals))
        return arrivals

    def test_who_comes_just_after_the_others_were_notified_is_notified(
        self, jobs: Rowcall, elsewhere: Rowcall, arrivals: Arrivals
    ) -> None:
        job = jobs.enqueue("send")
        room = end_waiter(queue_of(elsewhere))
        late: Future[Future[None]] = Future()
        with ExitStack() as waits:
            with room.waiting(job.id) as notified:
                notified.add_done_callback(lambda _: late.set_result(waits.enter_context(room.waiting(job.id))))
                assert arrivals.has_checked.wait(LONG)
                jobs.cancel(job)
                room._payloads.append(str(job.id))
                notified.result(LONG)
            late.result(LONG).result(LONG)

    def test_all_jobs_are_checked_when_it_is_time(
        self, jobs: Rowcall, elsewhere: Rowcall, arrivals: Arrivals, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(waiting, "FIRST_CHECK_SECONDS", 0.01)
        job = jobs.enqueue("send")
        with end_waiter(queue_of(elsewhere)).waiting(job.id) as notified:
            assert arrivals.has_checked.wait(LONG)
            jobs.cancel(job)
            notified.result(LONG)

    def test_a_check_that_failed_is_repeated(
        self, jobs: Rowcall, elsewhere: Rowcall, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = jobs.cancel(jobs.enqueue("send"))
        database = queue_of(elsewhere).database
        read, failures = database.read, [StoreUnavailable("gone for a moment")]

        def fail_once(plan: Any) -> object:
            if failures:
                raise failures.pop()
            return read(plan)

        monkeypatch.setattr(database, "read", fail_once)
        with end_waiter(queue_of(elsewhere)).waiting(job.id) as notified:
            notified.result(LONG)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
class TestOnAServer:
    def test_who_waits_stands_in_a_row_for_as_long_as_he_waits(
        self, jobs: Rowcall, elsewhere: Rowcall, url: str, wait_for: Callable[[Job], Future[object]]
    ) -> None:
        job = jobs.enqueue("send")
        with connected(url) as connection:
            assert connection.execute(WAITERS).fetchall() == []
            waiting = wait_for(job)
            assert connection.execute(WAITERS).fetchall() == [(job.id,)]
            jobs.complete(claimed(jobs))
            assert waiting.result(LONG) is None
            end_waiter(queue_of(elsewhere))._waker.wake()  # type: ignore[union-attr]
            eventually(lambda: connection.execute(WAITERS).fetchall() == [], message="no row")

    def test_who_has_died_is_forgotten_after_a_minute(self, jobs: Rowcall, clock: FakeClock, url: str) -> None:
        queue_of(jobs).run(Write(lambda: queue_of(jobs).dialect.ask(REGISTER_WAITER, "dead", [1, 2])))
        with connected(url) as connection, closing(queue_of(jobs).database.connect()) as own:
            clock.advance(59)
            clean_up(queue_of(jobs), own)
            assert connection.execute(WAITERS).fetchall() == [(1,), (2,)]
            clock.advance(2)
            clean_up(queue_of(jobs), own)
            assert connection.execute(WAITERS).fetchall() == []

    def test_a_settle_that_was_in_flight_and_knew_of_no_waiter_is_noticed(
        self, jobs: Rowcall, elsewhere: Rowcall, url: str, others: ThreadPoolExecutor
    ) -> None:
        job = jobs.enqueue("send")
        with connected(url, autocommit=False) as connection:
            connection.execute("update rowcall_job set status = 'succeeded', result = '1', finished_at = now()")
            waiting = others.submit(elsewhere.result, job, timeout=LONG)
            with connected(url) as outsider:
                eventually(lambda: outsider.execute(WAITERS).fetchall() == [(job.id,)], message="a row")
            connection.commit()
        assert waiting.result(LONG) == 1

    def test_a_row_that_was_only_locked_is_not_asked_about_all_the_time(self, jobs: Rowcall, url: str) -> None:
        job = jobs.enqueue("send")
        with connected(url, autocommit=False) as connection:
            connection.execute("select from rowcall_job for update")
            connection.commit()
        assert queue_of(jobs).run(Read(ends(queue_of(jobs).dialect, [job.id]))).unsure == {job.id}
        asked = 0
        read = queue_of(jobs).database.read

        def counted(plan: object, **options: bool) -> object:
            nonlocal asked
            asked += threading.current_thread().name == "rowcall-results"
            return read(plan, **options)  # type: ignore[arg-type]

        queue_of(jobs).database.read = counted  # type: ignore[method-assign,assignment]
        with pytest.raises(TimeoutError):
            jobs.result(job, timeout=0.5)
        assert asked < 30

    def test_without_waiters_a_round_has_no_statement_more(self, jobs: Rowcall) -> None:
        jobs.enqueue("send")
        worker = StoreWorker(jobs, "w")
        ready = worker.start_one()
        told = self._statements(jobs, ready.fence)
        queue_of(jobs).run(Write(lambda: queue_of(jobs).dialect.ask(REGISTER_WAITER, "another", [99])))
        assert self._statements(jobs, ready.fence) == told + 1

    def _statements(self, jobs: Rowcall, fence: Fence) -> int:
        """How many a round takes that settles this job; it is rolled back."""
        ended, demand = [Ended(*fence, SUCCESS)], Demand(worker="w", slots=0)
        statements = 0
        with (
            connected(queue_of(jobs).config.server.url, autocommit=False) as connection,  # type: ignore[union-attr]
            psycopg.RawCursor(connection) as cursor,
        ):

            def execute(statement: Statement[object]) -> list[Row]:
                nonlocal statements
                statements += 1
                cursor.execute(statement.sql, statement.parameters)
                return cursor.fetchall() if cursor.description else []

            claim = drive(round_of_work(queue_of(jobs).dialect, ended, None, demand), execute)
        assert claim.settled == {fence.job_id}
        return statements


def test_a_listener_that_was_cut_hears_again(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs, ThreadPoolExecutor(1) as others:
        job = jobs.enqueue("send")
        waiting = others.submit(jobs.result, job, timeout=LONG)
        eventually(lambda: is_listening(jobs), message="a listener")
        with connected(postgres_url) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%'"
                " and datname = current_database()"
            )
        jobs.complete(claimed(jobs), "heard")
        assert waiting.result(LONG) == "heard"
