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
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.claims.round import round_of_work
from rowcall.store.control.single_actions import cancel
from rowcall.store.jobs.inspect import lock
from rowcall.store.queries.limits import HOLD
from rowcall.store.recovery.recover import Recovered, recover_worker
from rowcall.store.statement import Plan
from rowcall.testing.deadline import eventually
from tests.conformance.worker_parts import StoreWorker
from tests.store.postgres.stepping import PLENTY, InThread, Stepper, stepping_connection

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
UNREADABLE = f'[["k", "k", 1, null, null, null, {"[" * 50_000 + "]" * 50_000}]]'
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


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "after another claim"])
def test_locking_a_job_leaves_no_savepoint(jobs: Rowcall, postgres_url: str, is_late: bool) -> None:
    """A transaction of a caller may lock thousands of jobs. Its commit goes through all savepoints that are left."""
    job, worker = jobs.enqueue("send"), StoreWorker(jobs, "other")
    with stepping_connection(postgres_url) as mine, Stepper(mine, lock(queue_of(jobs).dialect, job.id)) as locking:
        locking.step(2)
        settled: InThread | None = None
        if is_late:
            ready = worker.start_one()
            locking.step()  # the job is locked
            settled = InThread(lambda: worker.settle(ready, Succeeded()))
            with psycopg.connect(postgres_url, autocommit=True) as watcher:
                eventually(lambda: watcher.execute(WAITING).fetchone() == (1,), message="the settle waits")
        locking.step(PLENTY)
        with pytest.raises(psycopg.errors.InvalidSavepointSpecification):
            mine.execute("release rowcall_lock")
        mine.rollback()
        assert settled is None or settled.join()


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


def a_round(jobs: Rowcall, worker: StoreWorker) -> Plan[RoundResult]:
    demand = Demand(worker=worker.name, holder=worker.holder, slots=2, buffer=2)
    return round_of_work(queue_of(jobs).dialect, [], None, demand)


def test_a_worker_whose_round_is_about_to_commit_is_not_recovered(jobs: Rowcall, postgres_url: str) -> None:
    job, worker, queue = jobs.enqueue("send"), StoreWorker(jobs, "web-1"), queue_of(jobs)
    with Stepper(postgres_url, a_round(jobs, worker)) as claiming:
        claiming.step(PLENTY)
        assert queue.run(Write(recover_worker, queue.dialect, worker.name, None)) == Recovered([], done=False)
        assert [one.id for one in claiming.finish().started] == [job.id]
    recovered = queue.run(Write(recover_worker, queue.dialect, worker.name, None))
    assert ([one.job.id for one in recovered.attempts], recovered.done) == ([job.id], True)


def test_a_round_waits_for_the_recovery_of_its_worker_and_claims_nothing(jobs: Rowcall, postgres_url: str) -> None:
    """The statement that waits saw the worker before: the claim sees that it is gone."""
    job, worker = jobs.enqueue("send"), StoreWorker(jobs, "web-1")
    plan = recover_worker(queue_of(jobs).dialect, worker.name, None)
    with (
        Stepper(postgres_url, plan) as recovering,
        Stepper(postgres_url, a_round(jobs, worker)) as claiming,
        psycopg.connect(postgres_url, autocommit=True) as watcher,
    ):
        recovering.step(PLENTY)
        begun = InThread(claiming.finish)
        eventually(lambda: watcher.execute(WAITING).fetchone() == (1,), message="the round waits")
        assert recovering.finish() == Recovered([], done=True)
        assert begun.join().jobs == []
        assert watcher.execute("select * from rowcall_claim").fetchall() == []
    assert [one.id for one in StoreWorker(jobs, "web-2").claim().started] == [job.id]


def test_a_heartbeat_next_to_a_round_makes_no_multixact(jobs: Rowcall, postgres_url: str) -> None:
    """It would, if the round had locked the row of the worker: then the new row names both of them."""
    jobs.enqueue("send")
    worker = StoreWorker(jobs, "web-1")
    with (
        Stepper(postgres_url, a_round(jobs, worker)) as claiming,
        psycopg.connect(postgres_url, autocommit=True) as reader,
    ):
        claiming.step(PLENTY)
        assert worker.heartbeat()
        assert reader.execute("select xmax::text, heartbeats from rowcall_worker").fetchall() == [("0", 1)]
        claiming.finish()
