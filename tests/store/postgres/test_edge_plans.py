"""What follows from an end costs in proportion to the edges touched, also where statistics are of a quieter time."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.flows import (
    DOUBT_EDGES,
    ENDED_EDGES,
    ENDS_OF,
    SETTLE_EDGES,
    TRUST_EDGES,
    UNBLOCK,
    EndedEdge,
    UnsureEdge,
)
from rowcall.store.statement import Statement
from rowcall.testing.postgres_database import create_database, database_of, drop_database
from tests.store.postgres.explaining import Explainer, Mode, Node, accesses, nodes_of, statements_of

TABLE = "rowcall_edge"
OPEN, SETTLED = 5000, 2000
DIALECT = PostgresDialect("rowcall_")


@pytest.fixture(scope="module")
def explainer(postgres_server_url: str) -> Iterator[Explainer]:
    """Of many open edges, as of a fan-in, in a table that was analyzed when none was open."""
    url = create_database(postgres_server_url)
    insert = "insert into rowcall_edge (blocker_id, of_chain, job_id, position, state) select"
    with Rowcall(url) as jobs, psycopg.connect(url, autocommit=True) as connection:
        jobs.migrate()
        connection.execute("alter table rowcall_edge set (autovacuum_enabled = off)")
        connection.execute(f"{insert} id, 0, id + 1, 0, 'succeeded' from generate_series(1, {SETTLED}) as id".encode())
        connection.execute("analyze")
        connection.execute(f"{insert} id, 0, 100000, id, 'open' from generate_series(1, {OPEN}) as id".encode())
    explainer = Explainer(url)
    yield explainer
    explainer.close()
    drop_database(postgres_server_url, database_of(url))


def statements(size: int) -> dict[str, list[Statement[object]]]:
    blockers = range(1, size + 1)
    ended = [EndedEdge(blocker, 0, 100_000, "fail", "succeeded", None) for blocker in blockers]
    unsure = [UnsureEdge(blocker, 0, 100_000, "fail") for blocker in blockers]
    return {
        "ended_edges": statements_of(DIALECT.ask(ENDED_EDGES, blockers)),
        "settle_edges": statements_of(DIALECT.ask(SETTLE_EDGES, "succeeded", ended)),
        "trust_edges": statements_of(DIALECT.ask(TRUST_EDGES, unsure)),
        "ends_of": statements_of(DIALECT.ask(ENDS_OF, [(blocker, 100_000) for blocker in blockers])),
        "doubt_edges": statements_of(DIALECT.ask(DOUBT_EDGES, 1)),
    }


def conditions(plan: Node) -> list[str]:
    """What the indexes of edges are entered by; the table itself is never gone through."""
    assert all(access.kind != "Seq Scan" for access in accesses(plan, TABLE)), plan
    found = [str(node.get("Index Cond", "")) for node in nodes_of(plan) if TABLE in node.get("Index Name", "")]
    assert found
    return found


@pytest.mark.parametrize("mode", ["custom", "generic"])
@pytest.mark.parametrize("size", [1, 300])
@pytest.mark.parametrize("name", statements(1))
def test_edges_are_found_by_their_blocker(explainer: Explainer, name: str, size: int, mode: Mode) -> None:
    (statement,) = statements(size)[name]
    for condition in conditions(explainer.explain(statement, mode, writes=True)):
        assert "blocker_id" in condition


@pytest.mark.parametrize("mode", ["custom", "generic"])
@pytest.mark.parametrize("size", [1, 300])
def test_what_keeps_a_job_waiting_is_asked_job_by_job(explainer: Explainer, size: int, mode: Mode) -> None:
    (statement,) = statements_of(DIALECT.ask(UNBLOCK, range(1, size + 1)))
    for condition in conditions(explainer.explain(statement, mode, writes=True)):
        assert condition.startswith("(job_id =")
