"""Pruners are killed again and again: no row is left behind, and none is gone that should have stayed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.store.postgres.schema import TABLES
from rowcall.store.queries.control import CLEAR
from tests.observe.machine import check_no_orphans
from tests.observe.plain_sql import PlainDatabase, PlainPostgres, PlainSqlite
from tests.support import ForkedProcess, eventually

pytestmark = [pytest.mark.crash, pytest.mark.slow]

PRUNERS = 2
KILLS_OF_EACH = int(os.environ.get("ROWCALL_TEST_PRUNER_KILLS", "6"))
OLD, YOUNG = 8_000, 500
DAY_MS = 86_400_000

SERIES = {
    "sqlite": "with recursive series (n) as (select 1 union all select n + 1 from series where n < {count})",
    "postgresql": "with series as (select generate_series(1, {count}) as n)",
}
INSERT = """
insert into rowcall_job (type, queue, status, tags, created_at, finished_at)
{series}
select 'task' || (n % 3), 'queue' || (n % 2),
       case n % 3 when 0 then 'succeeded' when 1 then 'failed' else 'cancelled' end, {tags}, {then}, {then}
from series"""
HISTORY = (
    "insert into rowcall_attempt (job_id, attempt, status, claimed_at)"
    " select id, 1, 'failed', created_at from rowcall_job",
    "insert into rowcall_event (job_id, at, event) select id, created_at, 'MANUAL_RETRY' from rowcall_job",
)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PlainDatabase]:
    if request.param == "sqlite":
        database: PlainDatabase = PlainSqlite(f"sqlite:///{tmp_path}/app.db")
    else:
        database = PlainPostgres(request.getfixturevalue("postgres_url"))
    yield database
    database.close()


def fill(database: PlainDatabase, count: int, days_ago: int) -> None:
    kind = database.url.partition(":")[0]
    now = "cast(strftime('%s') as integer) * 1000" if kind == "sqlite" else "now()"
    ago = f"{days_ago * DAY_MS}" if kind == "sqlite" else f"interval '{days_ago} days'"
    tags = "'[\"red\"]'" if kind == "sqlite" else "'[\"red\"]'::jsonb"
    series = SERIES[kind].format(count=count)
    database.ask(INSERT.format(series=series, tags=tags, then=f"{now} - {ago}"))


def counts(database: PlainDatabase) -> Counter[tuple[str, str]]:
    rows = database.ask("select status, queue, count(*) from rowcall_job group by status, queue")
    return Counter({(status, queue): count for status, queue, count in rows})


def check_counts(jobs: Rowcall, database: PlainDatabase) -> None:
    stats = jobs.stats()
    shown = {(status, queue): n for queue, found in stats.by_queue.items() for status, n in found.items() if n}
    assert shown == dict(counts(database))


def test_pruners_that_are_killed_leave_no_orphan_and_take_nothing_that_stays(database: PlainDatabase) -> None:
    with Rowcall(database.url) as jobs:
        jobs.migrate()
        fill(database, OLD, days_ago=100)
        fill(database, YOUNG, days_ago=10)
        for sql in HISTORY:
            database.ask(sql)
        waiting = [jobs.enqueue("task0", tags=["red"]).id for _ in range(10)]
        stay = {row[0] for row in database.ask(f"select id from rowcall_job where id > {OLD}")}
        assert len(stay) == YOUNG + len(waiting)

        pruners = [
            ForkedProcess("-m", "tests.observe.pruner", database.url, str(KILLS_OF_EACH), str(seed))
            for seed in range(PRUNERS)
        ]
        try:
            eventually(lambda: _looked(database, stay) and not any(pruner.alive for pruner in pruners), within=60)
            for pruner in pruners:
                assert f"killed {KILLS_OF_EACH};" in pruner.output, pruner.output
        finally:
            for pruner in pruners:
                pruner.close()

        (left,) = database.ask("select count(*) from rowcall_job")[0]
        assert len(stay) < left < len(stay) + OLD, "they were killed before or after all work"
        check_counts(jobs, database)
        pruned = jobs.prune()
        assert pruned.jobs == left - len(stay)
        assert {row[0] for row in database.ask("select id from rowcall_job")} == stay
        assert database.ask("select count(*) from rowcall_attempt") == [(YOUNG,)]
        assert database.ask("select count(*) from rowcall_job_tag") == [(len(stay),)]
        check_counts(jobs, database)


def _looked(database: PlainDatabase, stay: set[int]) -> bool:
    """At any moment, in between and after."""
    check_no_orphans(database)
    found = {row[0] for row in database.ask("select id from rowcall_job")}
    assert stay <= found
    return True


def test_clear_knows_every_table() -> None:
    """A new table is either cleared, or listed here with the tables that stay, or that go with their jobs."""
    cleared = {query.name.removeprefix("clear_") for query in CLEAR}
    with_their_jobs = {"attempt", "event", "job_tag", "blob_ref"}
    assert cleared | with_their_jobs | {"migration", "worker", "waiter", "setting", "quota", "blob"} == set(TABLES)
