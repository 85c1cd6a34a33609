"""What runs when jobs end, are unblocked, checked or have keys goes from what is given to each row by its index."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import psycopg
import pytest

from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.batches import ENDED_MEMBERS, HOLD_MEMBERS
from rowcall.store.queries.flows import (
    BLOCKER_RESULTS,
    CHAIN_STEPS,
    DEPENDANTS,
    DOUBT_EDGES,
    ENDED_EDGES,
    ENDS_OF,
    KEY_HOLDERS,
    LAST_STEPS,
    LOCK_BLOCKED,
    LOCK_BLOCKERS,
    MARK_CHAINS,
    PREVIOUS_RESULT,
    REPLACE_WAITING,
    SETTLE_EDGES,
    STANDING,
    TAKEN_STEPS,
    TRUST_EDGES,
    UNBLOCK,
    UNSURE_EDGES,
    EndedEdge,
    Replacement,
    UnsureEdge,
)
from rowcall.store.queries.results import TIMELINES_OF
from rowcall.store.queries.steps import END_CALLS, LOST_CHILDREN
from rowcall.store.statement import Query, Statement
from tests.store.postgres.databases import PREFIX, fill, fresh_database, migrated
from tests.store.postgres.explaining import Explainer, Mode, statements_of

SIZES = (1, 100, 5000)
DIALECT = PostgresDialect(PREFIX)
EDGES = """
    insert into rowcall_edge (blocker_id, job_id, position, state, unsure)
    select id, id + 7, 0, case when id % 3 = 0 then 'open' else 'succeeded' end, (id % 1000 = 0)::int
    from rowcall_job where id < 15000"""
KEYS = "update rowcall_job set key = 'key ' || id % 1000, chain_id = id - id % 3, chain_index = id % 3 where id > 3"
BLOCKED = "insert into rowcall_job (type, status) select 'a', 'blocked' from generate_series(1, 5000)"
FAN_OUT = "insert into rowcall_edge (blocker_id, job_id, position) select 1, id, 0 from rowcall_job where id > 1"
FAN_IN = "insert into rowcall_edge (blocker_id, job_id, position) select id, 10000, id from rowcall_job"
CALLS = """
    insert into rowcall_step (job_id, position, attempt, started_at, kind, name, status, child_id)
    select 1, id, 1, now(), 'call', 'a', 'waiting', id from generate_series(2, 5000) as id"""
CHILDREN = "update rowcall_job set parent_id = 1, parent_step = id where id between 2 and 5000"
READ_WHOLE = {"unsure edges": {"rowcall_edge_unsure"}}
BIG_ENOUGH = 0.1


def ids(size: int) -> list[int]:
    return list(range(1000, 1000 + size))


def ask(query: Query[object], *values: object) -> list[Statement[object]]:
    return statements_of(DIALECT.ask(query, *values))


def keys(size: int) -> list[str]:
    return [f"key {job}" for job in ids(size)]


CASES: dict[str, Callable[[int], list[Statement[object]]]] = {
    "ended edges": lambda size: ask(ENDED_EDGES, ids(size)),
    "settle edges": lambda size: ask(
        SETTLE_EDGES, "failed", [EndedEdge(job, 0, job + 7, "fail", "failed", None) for job in ids(size)]
    ),
    "ends of": lambda size: ask(ENDS_OF, [(job, job + 7) for job in ids(size)]),
    "lock blocked": lambda size: ask(LOCK_BLOCKED, ids(size)),
    "unblock": lambda size: ask(UNBLOCK, ids(size)),
    "doubt edges": lambda size: ask(DOUBT_EDGES, 1000),
    "unsure edges": lambda size: ask(UNSURE_EDGES, 500),
    "last steps": lambda size: ask(LAST_STEPS, ids(size)),
    "lock blockers": lambda size: ask(LOCK_BLOCKERS, ids(size)),
    "trust edges": lambda size: ask(TRUST_EDGES, [UnsureEdge(job, 0, job + 7, "fail") for job in ids(size)]),
    "key holders": lambda size: ask(KEY_HOLDERS, "type1", keys(size), "active", None),
    "key holders that wait": lambda size: ask(KEY_HOLDERS, "type1", keys(size), "waiting", None),
    "key holders of any": lambda size: ask(KEY_HOLDERS, "type1", keys(size), "any", 1000),
    "replace waiting": lambda size: ask(
        REPLACE_WAITING, {job: Replacement(job, "{}", None, 0, None, None, None, None) for job in ids(size)}
    ),
    "standing": lambda size: ask(STANDING, [(job, 1) for job in ids(size)]),
    "mark chains": lambda size: ask(MARK_CHAINS, [(job, job, 0) for job in ids(size)]),
    "taken steps": lambda size: ask(TAKEN_STEPS, [(job, 1) for job in ids(size)]),
    "dependants": lambda size: ask(DEPENDANTS, ids(size)),
    "previous": lambda size: ask(PREVIOUS_RESULT, 1000, 1),
    "results of blockers": lambda size: ask(BLOCKER_RESULTS, 1000),
    "chain steps": lambda size: ask(CHAIN_STEPS, 1000),
    "timelines": lambda size: ask(TIMELINES_OF, ids(size)),
    "ended calls": lambda size: ask(END_CALLS, ids(size)),
    "lost children": lambda size: ask(LOST_CHILDREN, ids(size), 500),
    "ended members": lambda size: ask(ENDED_MEMBERS, ids(size)),
    "held members": lambda size: ask(HOLD_MEMBERS, ids(size)),
}


# each is a time when statistics were made: they hold for a while when there is much more, or much else
STATES = (
    "new",
    "full",
    "full, analyzed",
    "full, analyzed with one job",
    "one blocker, analyzed",
    "one waits, analyzed",
)


@pytest.fixture(scope="module", params=STATES)
def explainer(request: pytest.FixtureRequest, postgres_server_url: str) -> Iterator[Explainer]:
    with fresh_database(postgres_server_url) as url:
        with migrated(url) as connection:
            for table in ("rowcall_job", "rowcall_edge", "rowcall_claim", "rowcall_step", "rowcall_attempt"):
                connection.execute(f"alter table {table} set (autovacuum_enabled = off)".encode())
            if "with one job" in request.param:
                connection.execute("insert into rowcall_job (type) values ('a')")
                connection.execute("analyze")
            if "full" in request.param:
                _fill(connection)
            if "one" in request.param and "full" not in request.param:
                connection.execute(BLOCKED)
                connection.execute(FAN_OUT if "blocker" in request.param else FAN_IN)
            if request.param.endswith("analyzed"):
                connection.execute("analyze")
            connection.execute(CALLS)
            connection.execute(CHILDREN)
        made = Explainer(url)
        yield made
        made.close()


def _fill(connection: psycopg.Connection) -> None:
    fill(connection, BIG_ENOUGH)
    for sql in (EDGES, KEYS):
        connection.execute(sql.encode())


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_each_row_is_found_by_its_index(explainer: Explainer, mode: Mode) -> None:
    for name, size in itertools.product(CASES, SIZES):
        plan = explainer.explain(CASES[name](size)[0], mode, writes=True)
        assert set(explainer.read_whole(plan)) <= READ_WHOLE.get(name, set()), (name, plan)


def test_a_scan_would_be_seen(explainer: Explainer) -> None:
    for table in ("rowcall_edge", "rowcall_job"):
        everything = Statement(f"select * from {table} where xmin = '1'", (), lambda row: row)
        assert explainer.read_whole(explainer.explain(everything, "custom", writes=True)) == [table]
    held = "select queue from rowcall_job where status = 'pending' and held is not null order by queue, type"
    plan = explainer.explain(Statement(held, (), lambda row: row), "custom", writes=True)
    assert explainer.read_whole(plan) == ["rowcall_job_held"]
