"""The shortest way to a job, for an idle worker: plain jobs of one task, claimed by one statement."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import psycopg
import pytest

from rowcall import Limit, Rowcall, Status
from rowcall.app import queue_of
from rowcall.domain.outcome import Succeeded
from rowcall.operations.effects import Read, Write
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.claims.round import claim_first, round_of_work
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


def claim(jobs: Rowcall, slots: int = 10, queues: dict[str, int | None] | None = None) -> RoundResult | None:
    queue = queue_of(jobs)
    demand = Demand(worker=WORKER, slots=slots, queues=queues, limits=queue.declared.limits.declared)
    return queue.run(Write(lambda: claim_first(queue.dialect, demand)))


def claimed(jobs: Rowcall, slots: int = 10, queues: dict[str, int | None] | None = None) -> list[int]:
    found = claim(jobs, slots, queues)
    assert found is not None
    return [job.id for job in found.started]


def test_the_first_jobs_are_claimed_each_by_its_own_row(jobs: Rowcall, worker: StoreWorker, mine: Connection) -> None:
    low, high, last = (jobs.enqueue("send", priority=priority).id for priority in (0, 5, 0))
    found = claim(jobs, slots=2)
    assert found is not None
    assert ([job.id for job in found.started], found.more) == ([high, low], True)
    assert found.last_queue == "default"  # the next round starts behind it
    assert [jobs.get(job_id).status for job_id in (low, high, last)] == [Status.RUNNING, Status.RUNNING, Status.PENDING]
    assert mine.execute(ROWS).fetchall() == [(1, 2)]
    assert worker.settle(found.started[0], Succeeded())
    assert mine.execute(ROWS).fetchall() == [(1, 1)]
    rest = claim(jobs, slots=2)
    assert rest is not None
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
    for places, ids in ((work.ready, [urgent, send]), (behind, [send])):
        plan = partial(queue.dialect.ready_jobs, "default", ["send"], 2, places=places)
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


def with_a_key(jobs: Rowcall) -> None:
    jobs.enqueue("send", key="a")


def with_tags(jobs: Rowcall) -> None:
    jobs.enqueue("send", tags=["a"])


def with_an_end(jobs: Rowcall) -> None:
    jobs.enqueue("send", expires_in=timedelta(minutes=1))


def with_one_attempt(jobs: Rowcall) -> None:
    jobs.enqueue("send", max_attempts=1)


def in_a_chain(jobs: Rowcall) -> None:
    send = jobs.task(name="send")(lambda: None)
    jobs.start_chain([send.bind(), send.bind()])


def in_turns(jobs: Rowcall) -> None:
    jobs.task(name="send", fair_by="customer")(of_customer).enqueue(1)


def under_a_limit(jobs: Rowcall) -> None:
    jobs.task(name="send", limit=Limit("each", concurrency=1))(of_customer).enqueue(1)


def released_before(jobs: Rowcall) -> None:
    jobs.enqueue("send")
    job = jobs.dequeue("hand")
    assert job is not None
    jobs.release(job)


def of_two_tasks(jobs: Rowcall) -> None:
    jobs.enqueue("send")
    jobs.enqueue("receive")


def next_to_a_job_that_is_due(jobs: Rowcall) -> None:
    jobs.enqueue("send")
    with connected(queue_of(jobs).config.server.url) as mine:  # type: ignore[union-attr]
        mine.execute("insert into rowcall_job (type) values ('later')")


def behind_another(jobs: Rowcall) -> None:
    with_a_key(jobs)
    jobs.enqueue("send")


def of_customer(customer: int) -> None: ...


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    "prepare",
    [
        with_a_key,
        with_tags,
        with_an_end,
        with_one_attempt,
        in_a_chain,
        in_turns,
        under_a_limit,
        released_before,
        of_two_tasks,
        next_to_a_job_that_is_due,
        behind_another,
    ],
)
def test_other_jobs_are_left_to_a_round(jobs: Rowcall, mine: Connection, prepare: Callable[[Rowcall], None]) -> None:
    prepare(jobs)
    before = mine.execute("select * from rowcall_ready order by id").fetchall()
    assert before
    assert claim(jobs) is None
    assert mine.execute("select * from rowcall_ready order by id").fetchall() == before
    assert mine.execute("select * from rowcall_claim").fetchall() == []


@pytest.mark.usefixtures("worker")
def test_what_is_not_for_this_worker_needs_no_round(jobs: Rowcall, mine: Connection) -> None:
    jobs.enqueue("send")
    jobs.enqueue("send", queue="paused")
    jobs.pause("paused")
    assert claimed(jobs, queues={"other": None, "paused": None}) == []
    assert mine.execute(ROWS).fetchall() == [(2, 0)]


@pytest.mark.usefixtures("worker")
def test_the_room_of_the_queue_counts(jobs: Rowcall) -> None:
    ids = [jobs.enqueue("send").id for _ in range(3)]
    assert claimed(jobs, queues={"default": 2}) == ids[:2]


@pytest.mark.usefixtures("worker")
def test_jobs_that_others_claim_are_passed_over(jobs: Rowcall, mine: Connection) -> None:
    first, second = (jobs.enqueue("send").id for _ in range(2))
    with mine.transaction():
        mine.execute("select from rowcall_ready where id = %s for update", [first])
        assert claimed(jobs) == [second]
    assert claimed(jobs) == [first]


def test_a_worker_that_is_not_registered_claims_nothing(jobs: Rowcall, mine: Connection) -> None:
    jobs.enqueue("send")
    assert claim(jobs) is None
    assert mine.execute(ROWS).fetchall() == [(1, 0)]


@contextmanager
def claiming(jobs: Rowcall, url: str, statement: str) -> Iterator[list[RoundResult | None]]:
    """Claim in another thread, which waits for the worker's row until the block ends; then the list has the claim."""
    found: list[RoundResult | None] = []
    thread = threading.Thread(target=lambda: found.append(claim(jobs)))
    with connected(url) as other, connected(url) as watcher:
        with other.transaction():
            other.execute(statement.encode(), [WORKER])
            thread.start()
            eventually(lambda: watcher.execute(WAITING).rowcount == 1, message="the wait for the worker's row")
            yield found
        thread.join()


@pytest.mark.usefixtures("worker")
def test_a_worker_that_is_being_declared_lost_waits_and_claims_nothing(
    jobs: Rowcall, postgres_url: str, mine: Connection
) -> None:
    jobs.enqueue("send")
    with claiming(jobs, postgres_url, "delete from rowcall_worker where name = %s") as found:
        assert found == []
    assert found == [None]
    assert mine.execute(ROWS).fetchall() == [(1, 0)]


def raise_priority(jobs: Rowcall, job_id: int, connection: Connection | None = None) -> None:
    jobs.set_priority(job_id, 5, connection=connection)


def edit(jobs: Rowcall, job_id: int, connection: Connection | None = None) -> None:
    jobs.edit(job_id, {"customer": 2}, connection=connection)


@pytest.mark.parametrize("change", [raise_priority, edit])
def test_a_job_that_changes_meanwhile_is_claimed_once_and_as_it_is_then(
    jobs: Rowcall, worker: StoreWorker, postgres_url: str, mine: Connection, change: Callable[[Rowcall, int], None]
) -> None:
    job = jobs.enqueue("send", {"customer": 1})
    with claiming(jobs, postgres_url, "select from rowcall_worker where name = %s for update") as found:
        change(jobs, job.id)
    assert found == [None]
    assert mine.execute(ROWS).fetchall() == [(1, 0)]
    (ready,) = worker.claim(slots=10).started
    now = jobs.get(job.id)
    assert (ready.id, ready.priority, json.loads(ready.payload)) == (job.id, now.priority, now.payload)


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


def test_a_round_is_needed_where_there_may_be_other_queues(jobs: Rowcall, worker: StoreWorker) -> None:
    """The statement finds only a few queues, and those may be of other workers."""
    for number in range(50):
        jobs.enqueue("other", queue=f"q{number}")
    mine = jobs.enqueue("other", queue="z-mine")
    assert claim(jobs, queues={"z-mine": None}) is None
    for job in jobs.list(status="pending", limit=100).jobs:
        if job.id != mine.id:
            jobs.cancel(job)
    assert claimed(jobs, queues={"z-mine": None}) == [mine.id]
