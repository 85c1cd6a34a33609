"""Two at once, forced statement by statement: blockers that end while jobs that wait for them are written, deleted or
unblocked by others. A transaction that waits for another without need fails by its lock time-out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from rowcall import Job, Rowcall, Status
from rowcall.app import queue_of
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import SUCCESS, Transition
from rowcall.operations.effects import Write
from rowcall.operations.enqueue import bind
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import claim_by_hand
from rowcall.store.control.single_actions import cancel, delete
from rowcall.store.ends.after import Locked, check_unsure_edges
from rowcall.store.ends.attempts import Ended, settle
from rowcall.store.ends.next_steps import Then
from rowcall.store.enqueue.related import write_related
from rowcall.store.new_job import Awaited, NewJob, RelatedJob
from rowcall.store.queries.flows import Blocker
from rowcall.store.statement import Plan
from tests.conformance.cases.plain_sql import UNREADABLE
from tests.store.postgres.databases import fresh_database
from tests.store.postgres.stepping import InThread, Stepper, statements_in

AT_ONCE = "200ms"
STEPS_OF_SETTLE = range(13)  # before the first statement, and after each
FAILURE = Transition(Move.FAIL, Status.FAILED, "failed", error_code="A:B", error_detail="why")


@pytest.fixture(scope="module")
def jobs(postgres_server_url: str) -> Iterator[Rowcall]:
    with fresh_database(postgres_server_url) as url, Rowcall(url) as made:
        made.migrate()
        yield made


@pytest.fixture
def url(jobs: Rowcall) -> str:
    server = queue_of(jobs).config.server
    assert server is not None
    return server.url


def running(jobs: Rowcall) -> Job:
    jobs.enqueue("blocker", queue="blockers", max_attempts=1)
    (job,) = jobs.claim("hand", queues=["blockers"])
    return job


def settling(jobs: Rowcall, job: Job, transition: Transition = SUCCESS) -> Plan[Any]:
    return settle(queue_of(jobs).dialect, [Ended(job.id, job.lease, job.holder, transition)], None)


def enqueueing(jobs: Rowcall, *blockers: Job, of_chain: bool = False) -> Plan[Any]:
    after = tuple(Awaited(Blocker(job.id, of_chain)) for job in blockers)
    waiting = RelatedJob(job=NewJob(type="waiting", queue="waiting", after=after), payload="{}")
    return write_related(queue_of(jobs).dialect, [waiting])


def check(jobs: Rowcall) -> None:
    queue_of(jobs).run(Write(lambda: check_unsure_edges(queue_of(jobs).dialect)))


def written(stepper: Stepper) -> int:
    (enqueued,) = stepper.result
    job_id: int = enqueued.id
    return job_id


def interleavings(jobs: Rowcall, url: str, make_plan: Callable[[Job], Plan[Any]]) -> range:
    """After how many statements of a plan the other one may come."""
    job = running(jobs)
    return range(statements_in(url, lambda: make_plan(job)) + 1)


@pytest.mark.parametrize("end", [SUCCESS, FAILURE], ids=["succeeds", "fails"])
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_a_blocker_that_ends_while_a_job_is_written_after_it(
    jobs: Rowcall, url: str, end: Transition, isolation: str
) -> None:
    expected = Status.PENDING if end is SUCCESS else Status.FAILED
    for before in interleavings(jobs, url, lambda job: enqueueing(jobs, job)):
        blocker = running(jobs)
        with Stepper(url, enqueueing(jobs, blocker), patience=AT_ONCE, isolation=isolation) as writer:
            writer.step(before)
            with Stepper(url, settling(jobs, blocker, end), patience=AT_ONCE) as settler:
                assert settler.finish().live == {blocker.id}
            check(jobs)  # it sees nothing of what is not committed
            writer.finish()
            job_id = written(writer)
        check(jobs)
        assert jobs.get(job_id).status is expected, f"settled after {before} statements"


@pytest.mark.parametrize("end", [SUCCESS, FAILURE], ids=["succeeds", "fails"])
def test_a_job_that_is_written_while_its_blocker_ends(jobs: Rowcall, url: str, end: Transition) -> None:
    expected = Status.PENDING if end is SUCCESS else Status.FAILED
    for before in interleavings(jobs, url, lambda job: settling(jobs, job, end)):
        blocker = running(jobs)
        with Stepper(url, settling(jobs, blocker, end), patience=AT_ONCE) as settler:
            settler.step(before)
            with Stepper(url, enqueueing(jobs, blocker), patience=AT_ONCE) as writer:
                writer.finish()
                job_id = written(writer)
            check(jobs)  # it does not wait for the settler, and decides nothing for it
            assert jobs.get(job_id).status is Status.BLOCKED
            settler.finish()
        check(jobs)
        assert jobs.get(job_id).status is expected, f"written after {before} statements"


def test_a_check_that_comes_between(jobs: Rowcall, url: str) -> None:
    """It marks the edge as sure while the blocker runs; from then on, settling the blocker sees the edge."""
    for before in range(8):
        blocker = running(jobs)
        with Stepper(url, enqueueing(jobs, blocker)) as writer:
            writer.finish()
            job_id = written(writer)
        with Stepper(url, check_unsure_edges(queue_of(jobs).dialect)) as checker:
            checker.step(before)
            settling_one = Stepper(url, settling(jobs, blocker))
            with settling_one:
                settled = InThread(settling_one.finish)
                checker.finish()
                settled.join()
        check(jobs)
        assert jobs.get(job_id).status is Status.PENDING, f"after {before} statements"


@pytest.mark.parametrize("ends", [(SUCCESS, SUCCESS), (SUCCESS, FAILURE), (FAILURE, FAILURE)])
def test_two_blockers_that_end_at_once(jobs: Rowcall, url: str, ends: tuple[Transition, Transition]) -> None:
    expected = Status.PENDING if set(ends) == {SUCCESS} else Status.FAILED
    for before in STEPS_OF_SETTLE:
        one, other = running(jobs), running(jobs)
        with Stepper(url, enqueueing(jobs, one, other)) as writer:
            writer.finish()
            job_id = written(writer)
        check(jobs)
        with (
            Stepper(url, settling(jobs, one, ends[0])) as first,
            Stepper(url, settling(jobs, other, ends[1])) as second,
        ):
            first.step(before)
            later = InThread(second.finish)
            first.finish()
            later.join()
        assert first.steps < len(STEPS_OF_SETTLE)
        found = jobs.get(job_id)
        assert found.status is expected, f"after {before} statements, without any check"


@pytest.mark.parametrize("act", [delete, cancel])
def test_a_job_is_deleted_or_cancelled_while_its_blockers_end(jobs: Rowcall, url: str, act: Callable[..., Any]) -> None:
    """No two transactions wait for each other."""
    arguments = () if act is delete else (None, None)
    for before in STEPS_OF_SETTLE:
        one, other = running(jobs), running(jobs)
        with Stepper(url, enqueueing(jobs, one, other)) as writer:
            writer.finish()
            job_id = written(writer)
        check(jobs)
        both = settle(
            queue_of(jobs).dialect, [Ended(job.id, job.lease, job.holder, SUCCESS) for job in (one, other)], None
        )
        with Stepper(url, both) as settler, Stepper(url, act(queue_of(jobs).dialect, job_id, *arguments)) as actor:
            settler.step(before)
            acted = InThread(actor.finish)
            settler.finish()
            acted.join()
        assert settler.steps < len(STEPS_OF_SETTLE)
        left = [job.status for job in jobs.list(queue="waiting", limit=1).jobs if job.id == job_id]
        assert left == ([] if act is delete else [Status.CANCELLED])


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("end", [SUCCESS, FAILURE], ids=["succeeds", "fails"])
def test_a_blocker_ends_while_a_caller_has_cancelled_the_job(
    jobs: Rowcall, url: str, end: Transition, ends: str
) -> None:
    """A settle that skips locked rows does not wait for the caller's transaction. The job ends as that one does."""
    blocker = running(jobs)
    job = jobs.enqueue("waiting", queue="waiting", after=blocker)
    check(jobs)
    with psycopg.connect(url) as mine:
        assert jobs.cancel(job, connection=mine).status is Status.CANCELLED
        ended = Ended(blocker.id, blocker.lease, blocker.holder, end)
        skipping = settle(queue_of(jobs).dialect, [ended], None, locked=Locked.SKIP)
        with Stepper(url, skipping, patience=AT_ONCE) as settler:
            assert settler.finish().live == {blocker.id}
        getattr(mine, ends)()
    check(jobs)
    expected = Status.PENDING if end is SUCCESS else Status.FAILED
    assert jobs.get(job).status is (Status.CANCELLED if ends == "commit" else expected)
    assert [one.open for one in jobs.blockers(job)] == [False]


@dataclass(frozen=True)
class ByHand:
    """A way to end a blocker in a transaction of a caller: how it is claimed before, and what ends it."""

    claims: bool
    end: Callable[[Rowcall, Job, object], object]
    expected: Status


def failing(jobs: Rowcall, job: Job, connection: object) -> None:
    jobs.fail(job, "A:B", connection=connection)


BY_HAND = {
    "complete": ByHand(True, lambda jobs, job, mine: jobs.complete(job, connection=mine), Status.PENDING),
    "fail": ByHand(True, failing, Status.FAILED),
    "complete-unclaimed": ByHand(False, lambda jobs, job, mine: jobs.complete(job.id, connection=mine), Status.PENDING),
    "cancel": ByHand(False, lambda jobs, job, mine: jobs.cancel(job, connection=mine), Status.CANCELLED),
    "cancel-chain": ByHand(False, lambda jobs, job, mine: jobs.cancel_chain(job.id, connection=mine), Status.CANCELLED),
    "complete-chain": ByHand(
        False, lambda jobs, job, mine: jobs.complete_chain(job.id, None, actor="ann", connection=mine), Status.PENDING
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_caller_ends_a_blocker_whose_job_another_one_has_locked(jobs: Rowcall, url: str, name: str) -> None:
    """It does not wait for the other one, which may wait for it in turn. A later check finds out."""
    way = BY_HAND[name]
    if way.claims:
        blocker = running(jobs)
    else:
        chain = jobs.start_chain([bind(queue_of(jobs), "blocker", (), {})])
        blocker = jobs.get(chain.id)
    job = jobs.enqueue("waiting", queue="waiting", after=blocker)
    check(jobs)
    with psycopg.connect(url) as other, psycopg.connect(url) as mine:
        other.execute("select from rowcall_job where id = %s for update", [job.id])
        mine.execute(f"set lock_timeout = '{AT_ONCE}'".encode())
        way.end(jobs, blocker, mine)
        mine.commit()
        check(jobs)
        assert jobs.get(job).status is Status.BLOCKED
    check(jobs)
    assert jobs.get(job).status is way.expected


def test_a_claim_fails_an_unreadable_blocker_whose_job_a_caller_has_locked(jobs: Rowcall, url: str) -> None:
    blocker = jobs.enqueue("blocker", queue="unreadable")
    job = jobs.enqueue("waiting", queue="waiting", after=blocker)
    check(jobs)
    with psycopg.connect(url) as other:
        other.execute("update rowcall_job set limits = %s where id = %s", [UNREADABLE["limits"], blocker.id])
        other.commit()
        other.execute("select from rowcall_job where id = %s for update", [job.id])
        demand = Demand(worker="hand", holder=1, slots=1, queues={"unreadable": None}, lease_ms=1000)
        with Stepper(url, claim_by_hand(queue_of(jobs).dialect, demand), patience=AT_ONCE) as claimer:
            assert [one.job.id for one in claimer.finish().unread] == [blocker.id]
        assert jobs.get(blocker).status is Status.FAILED
    check(jobs)
    assert jobs.get(job).status is Status.FAILED


def test_a_chain_that_continues_while_a_job_is_written_after_it(jobs: Rowcall, url: str) -> None:
    def going_on(job: Job) -> Plan[Any]:
        assert job.chain_index is not None
        step = NewJob(type="step", queue="blockers", chain_id=job.chain_id, chain_index=job.chain_index + 1)
        ended = Ended(job.id, job.lease, job.holder, SUCCESS, then=Then(step, "{}", begins=False))
        return settle(queue_of(jobs).dialect, [ended], None)

    def first_step() -> Job:
        jobs.start_chain([bind(queue_of(jobs), "blocker", (), {})])
        (job,) = jobs.claim("hand", queues=["default"])
        return job

    for before in range(8):
        job = first_step()
        with Stepper(url, enqueueing(jobs, job, of_chain=True), patience=AT_ONCE) as writer:
            writer.step(before)
            with Stepper(url, going_on(job), patience=AT_ONCE) as settler:
                settler.finish()
            writer.finish()
            job_id = written(writer)
        check(jobs)
        assert jobs.get(job_id).status is Status.BLOCKED
        (last,) = jobs.claim("hand", queues=["blockers"])
        assert last.chain_id == job.id
        jobs.complete(last)
        assert jobs.get(job_id).status is Status.PENDING, f"after {before} statements"


def test_what_is_written_after_a_job_locks_nothing_of_it(jobs: Rowcall, url: str) -> None:
    blocker = running(jobs)
    with psycopg.connect(url) as mine, psycopg.connect(url) as other:
        job = jobs.enqueue("waiting", queue="waiting", after=blocker, connection=mine)
        other.execute("set lock_timeout = '200ms'")
        found = other.execute("select id from rowcall_job where id = %s for update nowait", [blocker.id]).fetchone()
        assert found == (blocker.id,)
        other.rollback()
        with Stepper(url, settling(jobs, blocker), patience=AT_ONCE) as settler:
            settler.finish()
        mine.commit()
    assert jobs.get(job.id).status is Status.BLOCKED
    assert jobs.dequeue("hand", queues=["nothing"]) is None  # a claim checks unsure edges
    assert jobs.get(job.id).status is Status.PENDING
    (edges,) = jobs.list(queue="waiting", limit=1).jobs
    assert edges.id == job.id


def test_a_blocker_that_is_deleted_while_a_job_is_written_after_it(jobs: Rowcall, url: str) -> None:
    blocker = jobs.enqueue("blocker", delay=3600)
    with Stepper(url, enqueueing(jobs, blocker)) as writer:
        writer.step(1)  # it was there
        jobs.delete(blocker.id)
        writer.finish()
        job_id = written(writer)
    check(jobs)
    found = jobs.get(job_id)
    assert (found.status, found.error_code) == (Status.FAILED, "BLOCKER:FAILED")
    assert found.error_detail == f"job {blocker.id} failed with JOB:DELETED"
