"""A page of open waits costs the same however many handlers wait for other signals, also with older statistics."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.steps import ASKING, AWAITING, COUNT_ASKING, NEXT_WAIT, OPEN_WAITS_OF
from rowcall.store.statement import Statement
from rowcall.testing.postgres_database import create_database, database_of, drop_database
from tests.store.postgres.explaining import Explainer, Mode, nodes_of, statements_of

WAITS = 20_000
DIALECT = PostgresDialect("rowcall_")


@pytest.fixture(scope="module", params=["analyzed before", "analyzed"])
def explainer(request: pytest.FixtureRequest, postgres_server_url: str) -> Iterator[Explainer]:
    url = create_database(postgres_server_url)
    with Rowcall(url) as queue, psycopg.connect(url, autocommit=True) as connection:
        queue.migrate()
        for table in ("job", "step"):
            connection.execute(f"alter table rowcall_{table} set (autovacuum_enabled = off)".encode())
        connection.execute("analyze")
        connection.execute(
            "insert into rowcall_job (type, status, run_at) select 'pay', 'scheduled', '9999-01-01'"
            f" from generate_series(1, {WAITS})".encode()
        )
        connection.execute(
            b"insert into rowcall_step (job_id, position, attempt, started_at, kind, name, status, question) select"
            b" id, 1, 1, now(), 'wait', 'paid', 'waiting', case when id < 4 then '{}'::jsonb end from rowcall_job"
        )
        if request.param == "analyzed":
            connection.execute("analyze")
    explainer = Explainer(url)
    yield explainer
    explainer.close()
    drop_database(postgres_server_url, database_of(url))


STATEMENTS: dict[str, tuple[list[Statement[object]], str]] = {
    "asking": (statements_of(DIALECT.ask(ASKING, 0, 0, 0, 51)), "rowcall_step_asks"),
    "awaiting": (statements_of(DIALECT.ask(AWAITING, 0, 0, 0, 51)), "rowcall_step_awaits"),
    "count_asking": (statements_of(DIALECT.ask(COUNT_ASKING, 100)), "rowcall_step_asks"),
    "open_waits_of": (statements_of(DIALECT.ask(OPEN_WAITS_OF, 7, 100)), "rowcall_step_pkey"),
    "next_wait": (statements_of(DIALECT.ask(NEXT_WAIT, 7, "paid")), "rowcall_step_pkey"),
}


@pytest.mark.parametrize("mode", ["custom", "generic"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_open_waits_are_found_by_an_index(explainer: Explainer, name: str, mode: Mode) -> None:
    (statement,), index = STATEMENTS[name]
    nodes = list(nodes_of(explainer.explain(statement, mode, writes=False)))
    tables = ("rowcall_step", "rowcall_job")
    assert not [node for node in nodes if node["Node Type"] == "Seq Scan" and node["Relation Name"] in tables], nodes
    assert index in [node.get("Index Name") for node in nodes], nodes
    assert not any("Sort" in node["Node Type"] for node in nodes), nodes
