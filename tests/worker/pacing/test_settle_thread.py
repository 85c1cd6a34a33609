"""On PostgreSQL, a thread settles large groups: each attempt once, whatever happens to its connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from rowcall.worker.pace import LEAST_GROUP
from rowcall.worker.pacing.settle_thread import SettleThread

MANY = 10 * LEAST_GROUP
WAITING = """
    select pid from pg_stat_activity
    where wait_event_type = 'Lock' and datname = current_database() and query like '%update rowcall_job%'"""


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Rowcall]:
    with Rowcall(postgres_url) as jobs:
        yield jobs


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the groups that threads get."""
    sizes: list[int] = []
    start = SettleThread.start

    def noting(self: SettleThread, attempts: list[object], plan: object) -> None:
        sizes.append(len(attempts))
        start(self, attempts, plan)  # type: ignore[arg-type]

    monkeypatch.setattr(SettleThread, "start", noting)
    return sizes


@pytest.fixture
def runs(jobs: Rowcall) -> Counter[int]:
    """How often each job ran."""
    runs: Counter[int] = Counter()

    @jobs.task
    async def count(number: int) -> int | None:
        runs[number] += 1
        return number if number % 7 == 0 else None

    count.enqueue_many([{"number": number} for number in range(MANY)])
    return runs


def assert_each_ran_once(jobs: Rowcall, runs: Counter[int]) -> None:
    assert runs == Counter(range(MANY))
    assert jobs.stats().by_status["succeeded"] == MANY
    assert {job.attempt for job in jobs.list(limit=MANY).jobs} == {1}


def test_a_drain_settles_in_the_thread_and_the_rest_in_rounds(
    jobs: Rowcall, groups: list[int], runs: Counter[int]
) -> None:
    assert jobs.drain().succeeded == MANY
    assert_each_ran_once(jobs, runs)
    assert groups
    assert min(groups) >= LEAST_GROUP


@pytest.mark.parametrize("cut", [False, True], ids=["locked", "cut off"])
def test_a_group_that_the_thread_cannot_settle_is_settled_without_it(
    jobs: Rowcall, postgres_url: str, groups: list[int], runs: Counter[int], cut: bool
) -> None:
    locked = jobs.list(status="pending", order="oldest", limit=500).jobs[-1].id
    with (
        psycopg.connect(postgres_url) as user,
        psycopg.connect(postgres_url, autocommit=True) as watcher,
        ThreadPoolExecutor() as pool,
    ):
        user.execute("select from rowcall_job where id = %s for update", (locked,))
        drained = pool.submit(jobs.drain)
        eventually(lambda: watcher.execute(WAITING).fetchall())
        if cut:
            watcher.execute(f"select pg_terminate_backend(pid) from ({WAITING}) as waiting")
        else:
            eventually(lambda: jobs.stats().by_status["succeeded"] == MANY - 1)
        user.rollback()
        drained.result()
    assert groups
    assert_each_ran_once(jobs, runs)


def test_what_the_thread_makes_ready_runs_in_the_same_drain(jobs: Rowcall, postgres_url: str) -> None:
    @jobs.task
    async def part() -> None: ...

    parts = part.enqueue_many([{}] * MANY)
    part.using(after=parts).enqueue()
    with (
        psycopg.connect(postgres_url) as user,
        psycopg.connect(postgres_url, autocommit=True) as watcher,
        ThreadPoolExecutor() as pool,
    ):
        user.execute("select from rowcall_job where id = %s for update", (parts[-1].id,))
        drained = pool.submit(jobs.drain)
        eventually(lambda: watcher.execute(WAITING).fetchall())
        user.rollback()
        assert drained.result().succeeded == len(parts) + 1


def test_a_result_that_the_database_refuses_fails_its_job_alone(
    jobs: Rowcall, postgres_url: str, groups: list[int], runs: Counter[int], caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(postgres_url) as user:
        user.execute("alter table rowcall_job add check (result <> '994')")
    summary = jobs.drain()
    assert groups
    assert (summary.succeeded, summary.failed) == (MANY - 1, 1)
    assert runs == Counter(range(MANY))
    assert "refused a round" not in caplog.text


def test_a_job_that_an_open_transaction_refers_to_is_settled(jobs: Rowcall, postgres_url: str) -> None:
    """A foreign key locks the row of the job, but only against its deletion."""

    @jobs.task(max_attempts=1)
    def fail() -> None:
        raise ValueError

    job = fail.enqueue()
    with psycopg.connect(postgres_url) as user:
        user.execute("create table receipt (job_id bigint references rowcall_job (id))")
        user.commit()
        user.execute("insert into receipt values (%s)", (job.id,))
        with ThreadPoolExecutor() as pool:
            drained = pool.submit(jobs.drain)
            try:
                eventually(drained.done)
            finally:
                user.rollback()
        assert drained.result().failed == 1
        user.execute("drop table receipt")
