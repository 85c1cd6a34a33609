"""What only a server has: several who fold at once, statements about many rows, TRUNCATE, users with few rights."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.counts import tallies
from rowcall.store.queries.counts import BOUNDARIES, REMOVE_TALLIES
from rowcall.testing.fake_clock import FakeClock
from tests.store.postgres.explaining import nodes_of

LATER_MS = 10**13


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Rowcall]:
    with Rowcall(postgres_url, clock=FakeClock()) as jobs:
        jobs.migrate()
        yield jobs


def complete_some(jobs: Rowcall, count: int) -> None:
    for _ in range(count):
        jobs.enqueue("send")
        jobs.complete(jobs.claim("hand")[0])


def fold(jobs: Rowcall) -> int:
    return queue_of(jobs).run(Write(lambda: tallies.fold(queue_of(jobs).dialect, everything=True)))


def finished(jobs: Rowcall) -> dict[str, int]:
    return {status: count for status, count in jobs.stats().by_status.items() if count}


def test_what_another_is_folding_is_left_to_it_and_counted_by_all(jobs: Rowcall, postgres_url: str) -> None:
    complete_some(jobs, 5)
    with psycopg.connect(postgres_url) as other, psycopg.RawCursor(other) as cursor:
        take = next(queue_of(jobs).dialect.ask(REMOVE_TALLIES, LATER_MS, 2))
        assert len(cursor.execute(take.sql.encode(), take.parameters).fetchall()) == 2
        assert fold(jobs) == 3
        assert finished(jobs) == {"succeeded": 5}
        assert jobs.stats().pace.succeeded == 5
        other.rollback()
    assert fold(jobs) == 2
    assert fold(jobs) == 0
    assert finished(jobs) == {"succeeded": 5}
    assert jobs.stats().pace.succeeded == 5


def test_many_fold_while_others_finish(jobs: Rowcall, postgres_url: str) -> None:
    jobs.task(name="send")(lambda: None)
    for _ in range(200):
        jobs.enqueue("send")
    with ThreadPoolExecutor(4) as threads:
        drained = threads.submit(jobs.drain)
        folded = 0
        while not drained.done():
            folded += sum(future.result() for future in [threads.submit(fold, jobs) for _ in range(3)])
        assert drained.result().succeeded == 200
    assert folded + fold(jobs) > 0
    assert finished(jobs) == {"succeeded": 200}
    with psycopg.connect(postgres_url) as plain:
        assert plain.execute("select sum(jobs) from rowcall_total").fetchone() == (200,)
        assert plain.execute("select count(*) from rowcall_tally").fetchone() == (0,)


def test_truncate_leaves_nothing_to_count(jobs: Rowcall, postgres_url: str) -> None:
    complete_some(jobs, 2)
    fold(jobs)
    complete_some(jobs, 2)
    with psycopg.connect(postgres_url, autocommit=True) as plain:
        plain.execute("truncate rowcall_job cascade")
        assert (finished(jobs), jobs.retries().by_attempts) == ({}, {})
        assert jobs.stats().pace.succeeded == 4  # they did
        plain.execute("insert into rowcall_job (type, status) values ('send', 'failed')")
    assert finished(jobs) == {"failed": 1}


def test_one_statement_about_many_rows_is_counted_by_group(jobs: Rowcall, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as plain:
        plain.execute(
            "insert into rowcall_job (type, status) select 'send', case n % 2 when 0 then 'failed' else 'pending' end"
            " from generate_series(1, 1000) as n"
        )
        assert plain.execute("select jobs from rowcall_tally").fetchall() == [(500,)]
        plain.execute("delete from rowcall_job where id <= 100")
        assert plain.execute("select jobs from rowcall_tally order by id").fetchall() == [(500,), (-50,)]
        # what ends as another insert does nothing, and what is copied in, are counted too
        plain.execute("insert into rowcall_job (id, type) values (500, 'send') on conflict do nothing")
        with plain.cursor().copy("copy rowcall_job (type, status) from stdin") as copy:
            copy.write_row(("send", "cancelled"))
    assert finished(jobs) == {"failed": 450, "pending": 450, "cancelled": 1}
    assert all(job.finished_at is not None for job in jobs.list(status="cancelled").jobs)


def test_rolled_back_is_not_counted(jobs: Rowcall, postgres_url: str) -> None:
    complete_some(jobs, 1)
    with psycopg.connect(postgres_url) as plain:
        plain.execute("insert into rowcall_job (type, status) values ('send', 'failed')")
        plain.execute("delete from rowcall_job where status = 'succeeded'")
        plain.rollback()
    assert finished(jobs) == {"succeeded": 1}


def test_who_may_only_insert_and_delete_jobs_is_counted_too(jobs: Rowcall, postgres_url: str) -> None:
    role = f"rowcall_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as plain:
        plain.execute(f"create role {role}".encode())
        plain.execute(f"grant insert, delete, select on rowcall_job to {role}".encode())
        plain.execute(f"set role {role}".encode())
        plain.execute("insert into rowcall_job (type, status) values ('a', 'failed'), ('b', 'failed')")
        plain.execute("delete from rowcall_job where type = 'a'")
        plain.execute("reset role")
        assert finished(jobs) == {"failed": 1}
        plain.execute(f"drop owned by {role}".encode())
        plain.execute(f"drop role {role}".encode())


@pytest.mark.parametrize("rows", [0, 3000])
def test_the_ids_at_some_times_are_found_row_by_row(jobs: Rowcall, postgres_url: str, rows: int) -> None:
    """A full table also without our settings, as behind a pooler. Only ANALYZE shows what a recursive part reads."""
    places = next(queue_of(jobs).dialect.ask(BOUNDARIES, range(60), 1, 3000, 2048))
    with psycopg.connect(postgres_url, autocommit=True) as plain, psycopg.RawCursor(plain) as cursor:
        cursor.execute(f"insert into rowcall_job (type) select 'send' from generate_series(1, {rows})".encode())
        if rows == 0:
            cursor.execute(b"set enable_seqscan = off; set enable_bitmapscan = off")
        for _ in range(2):
            explained = cursor.execute(f"explain (analyze, format json) {places.sql}".encode(), places.parameters)
            ((found,),) = explained.fetchall()
            reads = [node for node in nodes_of(found[0]["Plan"]) if node.get("Relation Name") == "rowcall_job"]
            assert {node["Index Name"] for node in reads} == {"rowcall_job_pkey"}
            assert all(node["Index Cond"].startswith("(id ") for node in reads)
            assert sorted(node["Actual Loops"] for node in reads) == [60, 60, 60, 12 * 60]
            cursor.execute("analyze rowcall_job")
