"""Which ready rows a round takes: in their order, as they are then, and never one that is being changed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial

import psycopg
import pytest

from rowcall import Rowcall, Status
from rowcall.app import queue_of
from rowcall.domain.outcome import Succeeded
from rowcall.operations.effects import Read, Write
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import round_of_work
from rowcall.store.queries.claims import EVERY_QUEUE, FIND_WORK
from rowcall.testing import FakeClock, eventually
from tests.conformance.worker_parts import StoreWorker
from tests.connected import Connection, connected
from tests.store.postgres.stepping import Stepper

WORKER = "idle"
ROWS = "select (select count(*) from rowcall_ready), (select count(*) from rowcall_claim)"
WAITING = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Rowcall]:
    with Rowcall(postgres_url, clock=FakeClock()) as jobs:  # claims do not become old on a slow machine
        yield jobs


@pytest.fixture
def mine(postgres_url: str) -> Iterator[Connection]:
    with connected(postgres_url) as connection:
        yield connection


@pytest.fixture
def worker(jobs: Rowcall) -> StoreWorker:
    return StoreWorker(jobs, WORKER)


def test_the_first_jobs_are_claimed_each_by_its_own_row(jobs: Rowcall, worker: StoreWorker, mine: Connection) -> None:
    low, high, last = (jobs.enqueue("send", priority=priority).id for priority in (0, 5, 0))
    found = worker.claim(slots=2)
    assert ([job.id for job in found.started], found.more) == ([high, low], True)
    assert found.last_queue == "default"  # the next round starts behind it
    assert [jobs.get(job_id).status for job_id in (low, high, last)] == [Status.RUNNING, Status.RUNNING, Status.PENDING]
    assert mine.execute(ROWS).fetchall() == [(1, 2)]
    assert worker.settle(found.started[0], Succeeded())
    assert mine.execute(ROWS).fetchall() == [(1, 1)]
    rest = worker.claim(slots=2)
    assert ([job.id for job in rest.started], rest.more) == ([last], False)


def test_the_search_for_work_says_where_each_task_starts(jobs: Rowcall) -> None:
    send, urgent, report = jobs.enqueue("send").id, jobs.enqueue("send", priority=5).id, jobs.enqueue("report").id
    queue = queue_of(jobs)
    (work,) = queue.run(Read(queue.dialect.ask(FIND_WORK, WORKER, *EVERY_QUEUE)))
    assert work.ready == {
        ("default", "report"): (~0, report, report - 1),
        ("default", "send"): (~5, urgent, urgent - 1),
    }
    behind = {("default", "send"): (~5, urgent, urgent)}
    for starts, ids in ((work.ready, [urgent, send]), (behind, [send])):
        plan = partial(queue.dialect.ready_jobs, "default", ["send"], 2, starts=starts)
        assert [job.id for job in queue.run(Write(plan))] == ids


def test_a_job_that_is_committed_before_the_place_is_found_although_the_first_one_is_claimed(
    jobs: Rowcall, worker: StoreWorker, postgres_url: str
) -> None:
    """Ids are not in the order of commits."""
    queue, other = queue_of(jobs), StoreWorker(jobs, "other")
    demand = Demand(worker=worker.name, slots=5)
    with psycopg.connect(postgres_url) as late:
        late.execute("insert into rowcall_job (type, status) values ('send', 'pending')")
        first = jobs.enqueue("send").id
        with Stepper(postgres_url, round_of_work(queue.dialect, [], None, demand)) as plan:
            plan.step()  # it sees `first` only
            assert [job.id for job in other.claim().started] == [first]
            late.commit()
            assert [job.id for job in plan.finish().started] == [first - 1]


def test_a_job_of_the_lowest_id_stops_no_other(jobs: Rowcall, worker: StoreWorker, mine: Connection) -> None:
    jobs.enqueue("odd")
    mine.execute("update rowcall_job set id = -9223372036854775808")
    job = jobs.enqueue("send")
    assert job.id in [claimed.id for claimed in worker.claim(slots=5, buffer=5).started]


def test_a_job_of_another_or_a_paused_queue_is_left(jobs: Rowcall, worker: StoreWorker, mine: Connection) -> None:
    jobs.enqueue("send")
    jobs.enqueue("send", queue="paused")
    jobs.pause("paused")
    assert worker.claim(slots=10, queues=["other", "paused"]).started == []
    assert mine.execute(ROWS).fetchall() == [(2, 0)]


def test_jobs_that_others_claim_are_passed_over(jobs: Rowcall, worker: StoreWorker, mine: Connection) -> None:
    first, second = (jobs.enqueue("send").id for _ in range(2))
    with mine.transaction():
        mine.execute("select from rowcall_ready where id = %s for update", [first])
        assert [job.id for job in worker.claim(slots=10).started] == [second]
    assert [job.id for job in worker.claim(slots=10).started] == [first]


def raise_priority(jobs: Rowcall, job_id: int, connection: Connection | None = None) -> None:
    jobs.set_priority(job_id, 5, connection=connection)


def edit(jobs: Rowcall, job_id: int, connection: Connection | None = None) -> None:
    jobs.edit(job_id, {"customer": 2}, connection=connection)


@pytest.mark.parametrize("change", [raise_priority, edit])
def test_a_job_that_changes_after_the_search_is_claimed_once_and_as_it_is_then(
    jobs: Rowcall, worker: StoreWorker, postgres_url: str, mine: Connection, change: Callable[[Rowcall, int], None]
) -> None:
    job = jobs.enqueue("send", {"customer": 1})
    demand = Demand(worker=worker.name, holder=worker.holder, slots=5)
    with Stepper(postgres_url, round_of_work(queue_of(jobs).dialect, [], None, demand)) as plan:
        plan.step()  # it sees the job as it was
        change(jobs, job.id)
        started = plan.finish().started
    ready = (started or worker.claim(slots=10).started)[0]
    now = jobs.get(job.id)
    assert (ready.id, ready.priority, json.loads(ready.payload)) == (job.id, now.priority, now.payload)
    assert mine.execute(ROWS).fetchall() == [(0, 1)]


@pytest.mark.parametrize("change", [raise_priority, edit])
def test_a_ready_row_is_replaced_and_never_updated(
    jobs: Rowcall, postgres_url: str, mine: Connection, change: Callable[..., None]
) -> None:
    """Who waits for it, with an older snapshot, must not get the new version."""
    job = jobs.enqueue("send", {"customer": 1})
    locked: list[object] = []

    def lock() -> None:
        with connected(postgres_url) as other:
            locked.append(other.execute("select id from rowcall_ready for update").fetchall())

    with connected(postgres_url) as changing:
        with changing.transaction():
            change(jobs, job.id, connection=changing)
            locking = threading.Thread(target=lock)
            locking.start()
            eventually(lambda: mine.execute(WAITING).rowcount == 1, message="the wait for the ready row")
        locking.join()
    assert locked == [[]]
    assert mine.execute(ROWS).fetchall() == [(1, 0)]
