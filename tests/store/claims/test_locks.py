"""Claims on a server, next to other transactions: who waits for whom, and what each of them sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest

from rowcall import Job, Rowcall, Status, WrongState
from rowcall.app import queue_of
from rowcall.domain.outcome import Reported, Succeeded
from rowcall.operations.effects import Write
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import round_of_work
from rowcall.store.control.single_actions import cancel
from rowcall.store.queries.limits import HOLD
from rowcall.testing.deadline import eventually
from tests.conformance.worker_parts import StoreWorker
from tests.store.postgres.stepping import InThread, Stepper

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
UNREADABLE = f'[["k", "k", 1, null, null, {"[" * 50_000 + "]" * 50_000}]]'
CLAIM = """
    with taken as (delete from rowcall_ready where id = %(id)s)
    insert into rowcall_claim (job_id, lease, holder, worker, attempt, claimed_at, started_at)
    values (%(id)s, 1, 7, 'other', 1, now(), now())"""


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Rowcall]:
    with Rowcall(postgres_url) as jobs:
        yield jobs


def begun_while_claimed(jobs: Rowcall, url: str, job: Job, act: Callable[[], object]) -> Future[object]:
    """Begin an action while another transaction claims the job, and commit that one once the action waits for it."""
    with (
        psycopg.connect(url) as claimer,
        psycopg.connect(url, autocommit=True) as watcher,
        ThreadPoolExecutor() as pool,
    ):
        claimer.execute(CLAIM, {"id": job.id})
        begun = pool.submit(act)
        eventually(lambda: watcher.execute(WAITING).fetchone() == (1,), message="the action waits")
        claimer.commit()
    return begun


def test_a_cancel_waits_for_a_claim_and_then_sees_it(jobs: Rowcall, postgres_url: str) -> None:
    StoreWorker(jobs, "other")
    job = jobs.enqueue("send")
    begun_while_claimed(jobs, postgres_url, job, lambda: jobs.cancel(job)).result()
    assert jobs.get(job).status is Status.RUNNING
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select lease, cancel from rowcall_claim").fetchall() == [(1, 1)]


def test_a_priority_set_next_to_a_claim_does_not_make_the_job_ready_again(jobs: Rowcall, postgres_url: str) -> None:
    StoreWorker(jobs, "other")
    job = jobs.enqueue("send")
    begun_while_claimed(jobs, postgres_url, job, lambda: jobs.set_priority(job, 5)).result()
    assert (jobs.get(job).status, jobs.get(job).priority) == (Status.RUNNING, 5)
    assert StoreWorker(jobs, "late").claim(slots=9).started == []


def test_a_claim_that_comes_between_is_seen(jobs: Rowcall, postgres_url: str) -> None:
    job, worker = jobs.enqueue("send"), StoreWorker(jobs, "other")
    with Stepper(postgres_url, cancel(queue_of(jobs).dialect, job.id, None, None)) as canceller:
        canceller.step(2)  # there is no claim to lock
        ready = worker.start_one()
        canceller.finish()
    assert jobs.get(job).status is Status.RUNNING
    assert worker.settle(ready, Reported("A:B", "why"))
    assert jobs.get(job).status is Status.CANCELLED


def test_a_settle_that_waits_for_the_job_is_let_through(jobs: Rowcall, postgres_url: str) -> None:
    """A cancel that has locked the job, and finds a claim that the settle has locked, releases the job."""
    job, worker = jobs.enqueue("send"), StoreWorker(jobs, "other")
    with Stepper(postgres_url, cancel(queue_of(jobs).dialect, job.id, None, None)) as canceller:
        canceller.step(2)
        ready = worker.start_one()
        canceller.step()  # the job is locked
        settled = InThread(lambda: worker.settle(ready, Succeeded()))
        with psycopg.connect(postgres_url, autocommit=True) as watcher:
            eventually(lambda: watcher.execute(WAITING).fetchone() == (1,), message="the settle waits")
        with pytest.raises(WrongState):
            canceller.finish()
        assert settled.join()
    assert jobs.get(job).status is Status.SUCCEEDED


def test_a_job_that_is_claimed_is_not_held(jobs: Rowcall, postgres_url: str) -> None:
    """A worker that knows a limit read it before another, which does not know the limit, claimed it."""
    worker, job = StoreWorker(jobs, "web-1"), jobs.enqueue("send")
    (claimed,) = worker.claim(slots=1).started
    queue_of(jobs).run(Write(lambda: queue_of(jobs).dialect.ask(HOLD, {str(job.id): "limit:k"})))
    assert jobs.get(job).status is Status.RUNNING
    assert worker.settle(claimed, Succeeded())


def test_a_mark_passes_over_a_claim_that_someone_has_locked(jobs: Rowcall, postgres_url: str) -> None:
    worker = StoreWorker(jobs, "web-1")
    for _ in range(2):
        jobs.enqueue("send")
    (buffered,) = worker.claim(slots=1, buffer=1).buffered
    with psycopg.connect(postgres_url) as other:
        other.execute("select from rowcall_claim for update")
        worker.mark_started(buffered)
        assert jobs.get(buffered.id).started_at is None
    worker.mark_started(buffered)
    assert jobs.get(buffered.id).started_at is not None


def test_a_claim_passes_over_a_job_that_someone_is_changing(jobs: Rowcall, postgres_url: str) -> None:
    first, second = jobs.enqueue("send"), jobs.enqueue("send")
    worker = StoreWorker(jobs, "web-1")
    with psycopg.connect(postgres_url) as other:
        other.execute("update rowcall_job set priority = 3 where id = %s", [first.id])
        (claimed,) = worker.claim(slots=9).started
        assert claimed.id == second.id
    assert worker.settle(claimed, Succeeded())
    assert [one.id for one in worker.claim(slots=9).started] == [first.id]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("position", [0, 2, 4])
def test_a_job_is_deleted_in_an_open_transaction(jobs: Rowcall, postgres_url: str, position: int, ends: str) -> None:
    """Other jobs are settled at that time; the worker does not wait for the transaction."""
    worker = StoreWorker(jobs, "web-1")
    for _ in range(5):
        jobs.enqueue("send")
    claimed = worker.claim(slots=5).started
    deleted = claimed[position]
    with psycopg.connect(postgres_url) as mine:
        mine.execute("delete from rowcall_job where id = %s", [deleted.id])
        before = [one for one in claimed if one is not deleted][:2]
        assert all(worker.settle(ready, Succeeded()) for ready in before)
        getattr(mine, ends)()
    assert worker.settle(deleted, Succeeded()) is (ends == "rollback")
    for ready in claimed:
        if ready is not deleted and ready not in before:
            assert worker.settle(ready, Succeeded())
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        assert connection.execute("select * from rowcall_claim").fetchall() == []
    counts = jobs.stats().by_status
    assert (counts["succeeded"], counts["running"]) == (4 if ends == "commit" else 5, 0)


def test_a_job_that_cannot_be_read_and_that_someone_has_locked_delays_no_other(
    jobs: Rowcall, postgres_url: str
) -> None:
    unreadable, other = jobs.enqueue("send"), jobs.enqueue("send")
    worker = StoreWorker(jobs, "web-1")
    with psycopg.connect(postgres_url) as mine:
        mine.execute("update rowcall_job set limits = %s where id = %s", [UNREADABLE, unreadable.id])
        mine.commit()
        mine.execute("select from rowcall_job where id = %s for update", [unreadable.id])
        result = worker.claim(slots=1)
        assert ([one.id for one in result.started], result.unread, result.left) == ([other.id], [], True)
    assert [one.job.id for one in worker.claim(slots=1).unread] == [unreadable.id]
    assert jobs.get(unreadable).status is Status.FAILED


def test_a_stale_row_that_another_round_has_locked_is_left_to_it(jobs: Rowcall, postgres_url: str) -> None:
    first, second = jobs.enqueue("send"), jobs.enqueue("send")
    worker = StoreWorker(jobs, "web-1")
    with psycopg.connect(postgres_url) as other:
        other.execute("update rowcall_ready set lease = 7")
        other.commit()
        other.execute("select from rowcall_ready where id = %s for update", [first.id])
        assert [one.id for one in worker.claim(slots=2).started] == [second.id]
    assert [one.id for one in worker.claim(slots=2).started] == [first.id]


@pytest.mark.parametrize("slots", [1, 5])
def test_a_job_without_its_order_that_someone_has_locked_delays_only_its_own_value(
    jobs: Rowcall, postgres_url: str, slots: int
) -> None:
    first = jobs.enqueue("post", {"account": 1})

    @jobs.task(ordered_by="account")
    def post(account: int) -> None: ...

    post.enqueue(1)
    other = post.enqueue(2)
    worker = StoreWorker(jobs, "web-1")
    with psycopg.connect(postgres_url) as mine:
        mine.execute("select from rowcall_job where id = %s for update", [first.id])
        result = worker.claim(slots=slots)
        assert ([one.id for one in result.started], result.left) == ([other.id], True)
    assert [one.id for one in worker.claim(slots=5).started] == [first.id]


@pytest.mark.parametrize("row", ["rowcall_claim where job_id", "rowcall_job where id"])
def test_a_void_claim_that_someone_has_locked_is_left_for_a_later_round(
    jobs: Rowcall, postgres_url: str, row: str
) -> None:
    void, other = jobs.enqueue("send"), jobs.enqueue("send")
    worker = StoreWorker(jobs, "web-1")
    fence = worker.start_one().fence
    demand = Demand(worker=worker.name, holder=worker.holder, slots=1)
    dialect = queue_of(jobs).dialect
    with psycopg.connect(postgres_url) as mine:
        mine.execute(f"select from {row} = {void.id} for update".encode())
        result = queue_of(jobs).run(Write(lambda: round_of_work(dialect, [], None, demand, void=[fence])))
        assert ([one.id for one in result.started], result.void) == ([other.id], [fence])
    result = queue_of(jobs).run(Write(lambda: round_of_work(dialect, [], None, demand, void=result.void)))
    assert ([one.id for one in result.started], result.void) == ([void.id], [])
