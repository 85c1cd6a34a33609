"""The end of a job costs the same in a batch of any size, also where statistics are of a time without batches."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.batches import ENDED_MEMBERS, HOLD_MEMBERS, OPEN_MEMBER, OVER
from rowcall.store.statement import Statement
from rowcall.testing.postgres_database import create_database, database_of, drop_database
from tests.store.postgres.explaining import Explainer, Mode, nodes_of, statements_of

MEMBERS, OTHERS = 5000, 5000
DIALECT = PostgresDialect("rowcall_")


@pytest.fixture(scope="module", params=["analyzed before", "analyzed"])
def explainer(request: pytest.FixtureRequest, postgres_server_url: str) -> Iterator[Explainer]:
    url = create_database(postgres_server_url)
    jobs = "insert into rowcall_job (type, queue, status, batch_id) select 'load', 'q', 'pending',"
    with Rowcall(url) as queue, psycopg.connect(url, autocommit=True) as connection:
        queue.migrate()
        connection.execute("alter table rowcall_job set (autovacuum_enabled = off)")
        connection.execute(f"{jobs} null from generate_series(1, {OTHERS})".encode())
        connection.execute("analyze")
        connection.execute("insert into rowcall_batch (created_at, name) values (now(), 'one')")
        connection.execute(f"{jobs} 1 from generate_series(1, {MEMBERS})".encode())
        if request.param == "analyzed":
            connection.execute("analyze")
    explainer = Explainer(url)
    yield explainer
    explainer.close()
    drop_database(postgres_server_url, database_of(url))


BY_BATCH, BY_ID = ("rowcall_job_batch", "batch_id"), ("rowcall_job_pkey", "id")
STATEMENTS: dict[str, tuple[list[Statement[object]], tuple[str, str]]] = {
    "hold_members": (statements_of(DIALECT.ask(HOLD_MEMBERS, [1])), BY_BATCH),
    "over": (statements_of(DIALECT.ask(OVER, [1])), BY_BATCH),
    "open_member": (statements_of(DIALECT.ask(OPEN_MEMBER, 1)), BY_BATCH),
    "one ended": (statements_of(DIALECT.ask(ENDED_MEMBERS, [OTHERS + 1])), BY_ID),
    "many ended": (statements_of(DIALECT.ask(ENDED_MEMBERS, range(OTHERS + 1, OTHERS + 301))), BY_ID),
}


@pytest.mark.parametrize("mode", ["custom", "generic"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_jobs_of_a_batch_are_found_by_an_index(explainer: Explainer, name: str, mode: Mode) -> None:
    (statement,), (index, column) = STATEMENTS[name]
    plan = explainer.explain(statement, mode, writes=True)
    found = [node for node in nodes_of(plan) if "rowcall_job" in str(node.get("Index Name", node.get("Relation Name")))]
    assert {node.get("Index Name") for node in found} == {index}, plan
    assert all(column in node.get("Index Cond", "") for node in found), plan
    assert not any(node["Node Type"] == "Sort" for node in nodes_of(plan) if index == BY_BATCH[0]), plan
