"""Limits from the inside, on both databases: what a race leaves is found, and full keys cost a claim nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from rowcall import Context, Limit, Rowcall
from rowcall.app import queue_of
from rowcall.operations.by_hand import _checked_demand, _claim_some
from rowcall.operations.effects import Write
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.claims.round import claim_by_hand
from rowcall.store.limits.admission import HELD_AT_ONCE
from rowcall.store.limits.held_jobs import KEYS_AT_ONCE
from rowcall.store.statement import Plan, Row
from rowcall.task import Task
from rowcall.testing.fake_clock import FakeClock
from rowcall.worker.pace import HELD_PAUSE_SECONDS
from rowcall.worker.upkeep.held_jobs import HeldJobs

Execute = Callable[[str], list[tuple[object, ...]]]
ONE = Limit("one", concurrency=1)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'app.db'}"
    given: str = request.getfixturevalue("postgres_url")
    return given


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def jobs(url: str, clock: FakeClock) -> Iterator[Rowcall]:
    with Rowcall(url, clock=clock) as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture
def execute(url: str, jobs: Rowcall) -> Iterator[Execute]:
    with ExitStack() as opened:
        if url.startswith("sqlite"):
            file = opened.enter_context(closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)))
            yield lambda sql: file.execute(sql).fetchall()
        else:
            server = opened.enter_context(psycopg.connect(url, autocommit=True))

            def run(sql: str) -> list[tuple[object, ...]]:
                cursor = server.execute(sql.encode())
                return cursor.fetchall() if cursor.description is not None else []

            yield run


def alone(jobs: Rowcall, limit: Limit = ONE) -> Task[[int], None]:
    @jobs.task(limit=limit)
    def charge(customer: int) -> None: ...

    return charge


def test_what_was_left_held_is_found_and_slots_that_do_not_count_go(
    jobs: Rowcall, execute: Execute, clock: FakeClock
) -> None:
    alone(jobs)
    for _ in range(3):
        jobs.enqueue("charge", {"customer": 0})
    assert len(jobs.claim("w", limit=3)) == 1
    # ended by a process that knows no limits
    execute("update rowcall_job set status = 'succeeded', lease = 2 where id in (select job_id from rowcall_claim)")
    execute("delete from rowcall_claim")
    assert jobs.claim("w") == []
    held_jobs = HeldJobs(queue_of(jobs))
    assert held_jobs.check() == 1
    assert held_jobs.check() == 0
    assert len(jobs.claim("w", limit=3)) == 1
    clock.advance(HELD_PAUSE_SECONDS)
    assert held_jobs.check() == 0
    assert execute("select count(*) from rowcall_slot") == [(2,)]
    jobs.prune()
    assert execute("select count(*) from rowcall_slot") == [(1,)]


def test_unknown_reasons_are_freed_and_do_not_end_the_walk(jobs: Rowcall, execute: Execute, clock: FakeClock) -> None:
    """More values than one check reads, of each sort."""
    values = [f"{sort}{number}" for sort in ("a", "limit:", "z") for number in range(KEYS_AT_ONCE)]
    for held in values:
        execute(f"insert into rowcall_job (type, status, held) values ('charge', 'pending', '{held}')")
    held_jobs = HeldJobs(queue_of(jobs))
    freed = []
    for _ in range(5):
        freed.append(held_jobs.check())
        assert held_jobs.check() == 0
        clock.advance(HELD_PAUSE_SECONDS)
    assert sum(freed) == 3 * KEYS_AT_ONCE
    assert execute("select distinct held from rowcall_job where held is not null") == []


def test_jobs_that_no_worker_claims_do_not_keep_others_held(jobs: Rowcall, clock: FakeClock) -> None:
    """Two queues share a limit, and one of them has no worker."""
    alone(jobs)
    for _ in range(100):
        jobs.enqueue("charge", {"customer": 0}, queue="unserved")
    jobs.enqueue("charge", {"customer": 0}, queue="served")
    running = jobs.claim("w", limit=1, queues=["unserved"])
    jobs.claim("w", limit=100)
    jobs.complete(running[0])
    held_jobs = HeldJobs(queue_of(jobs))
    for _ in range(6):
        held_jobs.check()
        clock.advance(HELD_PAUSE_SECONDS)
    assert len(jobs.claim("w", limit=1, queues=["served"])) == 1


def test_a_completion_in_the_handlers_transaction_frees_its_slot(url: str) -> None:
    with Rowcall(url) as jobs:
        jobs.migrate()

        @jobs.task(limit=ONE)
        def charge(ctx: Context) -> None:
            if url.startswith("sqlite"):
                with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file, file:
                    file.execute("begin immediate")
                    ctx.complete(1, connection=file)
            else:
                with psycopg.connect(url) as server:
                    ctx.complete(1, connection=server)

        for _ in range(4):
            charge.enqueue()
        assert jobs.drain().succeeded == 4


def counted(jobs: Rowcall, slots: int) -> tuple[int, int]:
    """Return how many statements a claim runs, and how many rows they return."""
    statements = rows = 0

    def plan() -> Plan[RoundResult]:
        nonlocal statements, rows
        inner = claim_by_hand(
            queue_of(jobs).dialect,
            Demand(worker="w", slots=slots, lease_ms=60_000, limits=queue_of(jobs).declared.limits.declared),
        )
        answer: list[Row] | None = None
        while True:
            try:
                statement = inner.send(answer)  # type: ignore[arg-type]
            except StopIteration as end:
                claim: RoundResult = end.value
                return claim
            answer = yield statement
            statements += 1
            rows += len(answer)

    queue_of(jobs).run(Write(plan))
    return statements, rows


@pytest.mark.parametrize("keys", [10, 10_000])
def test_full_keys_cost_a_claim_nothing(jobs: Rowcall, execute: Execute, keys: int) -> None:
    charge = alone(jobs, Limit("each", concurrency=1, by="customer"))
    charge.enqueue_many([{"customer": number} for number in range(keys)])
    execute("""insert into rowcall_claim (job_id, lease, holder, attempt, worker, claimed_at)
               select id, 1, 7, 1, 'other', created_at from rowcall_job""")
    execute("delete from rowcall_ready")
    execute("""insert into rowcall_slot (limit_key, job_id, lease)
               select '["each",' || (id - 1) || ']', id, 1 from rowcall_job""")
    execute("""insert into rowcall_job (type, status, payload, held)
               select 'charge', 'pending', payload, 'limit:["each",' || (id - 1) || ']' from rowcall_job""")
    for customer in (3, 4, keys + 1):
        charge.enqueue(customer)
    jobs.enqueue("plain")
    statements, rows = counted(jobs, 4)
    assert statements <= 25
    assert rows <= 25
    assert execute("select count(*) from rowcall_claim where worker = 'w'") == [(2,)]
    assert execute("select count(*) from rowcall_job where held is not null") == [(keys + 2,)]


def test_a_claim_reads_as_much_with_many_full_keys_as_with_few(tmp_path: Path) -> None:
    """Steps of SQLite's own machine, which is what it does per row; no time is measured."""
    steps = []
    for keys in (20, 4000):
        with Rowcall(tmp_path / f"{keys}.db") as jobs:
            charge = alone(jobs, Limit("each", concurrency=1, by="customer"))
            charge.enqueue_many([{"customer": number} for number in range(keys)] * 2)
            while jobs.claim("w", limit=1000):
                pass
            charge.enqueue(-1)
            steps.append(_steps_of_a_claim(jobs, tmp_path / f"{keys}.db"))
    assert steps[1] < steps[0] * 1.5


def _steps_of_a_claim(jobs: Rowcall, path: Path) -> int:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.set_progress_handler(count, 10)
        plan = claim_by_hand(queue_of(jobs).dialect, Demand(worker="w", slots=5, lease_ms=60_000))
        file.execute("begin immediate")
        answer: list[Row] | None = None
        claimed = 0
        while True:
            try:
                statement = plan.send(answer)  # type: ignore[arg-type]
            except StopIteration as end:
                claimed = len(end.value.started)
                break
            answer = file.execute(statement.sql, statement.parameters).fetchall()
        file.execute("commit")
    assert claimed == 1
    return steps


def test_a_crowd_before_a_full_limit_is_held_in_few_rounds(jobs: Rowcall, execute: Execute) -> None:
    alone(jobs)
    jobs.enqueue("charge", {"customer": 0})
    assert len(jobs.claim("w")) == 1
    execute("insert into rowcall_job (type, status) select 'charge', 'pending' from rowcall_job")
    for _ in range(10):
        execute("insert into rowcall_job (type, status) select 'charge', 'pending' from rowcall_job")
    last = jobs.enqueue("plain")
    rounds = 1
    demand = _checked_demand(queue_of(jobs), "w", 1, 60, None)
    while not (claim := queue_of(jobs).run(Write(_claim_some, queue_of(jobs), demand, 1))[0]).started:
        assert claim.more
        rounds += 1
    assert claim.started[0].id == last.id
    assert rounds <= 2 + 2048 // HELD_AT_ONCE
    execute("update rowcall_job set held = null where status = 'pending'")
    jobs.enqueue("plain")
    assert [job.type for job in jobs.claim("w")] == ["plain"]
