"""The turn of a job costs the same, however many jobs and values wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall.store.postgres.words import render as on_postgres
from rowcall.store.schema import FAIR_TURN
from rowcall.store.sqlite.words import render as on_sqlite
from tests.store.databases import migrated as sqlite_file
from tests.store.databases import query_plan
from tests.store.postgres.databases import migrated as postgres_database

JOB = {"fair": "'[1,2]'", "queue": "'q'", "priority": "0", "id": "9", "type": "'t'", "weight": "null"}
USED = {"job_fair", "job_turn"}


def turn_of(text: str) -> str:
    for column, value in JOB.items():
        text = text.replace(f"new.{column}", value)
    return text


def test_sqlite_searches_each_index_up_to_the_turn(tmp_path: Path) -> None:
    with sqlite_file(tmp_path / "app.db") as connection:
        plan = query_plan(connection, turn_of(on_sqlite(FAIR_TURN.format(""), "rowcall_")))
    searches = [step for step in plan if step.startswith("SEARCH")]
    assert searches
    by_claim = "SEARCH claim USING INTEGER PRIMARY KEY (rowid=?)"
    assert all("turn" in step or "rowcall_served" in step or step == by_claim for step in searches)
    assert all(any(f"INDEX rowcall_{index} " in step for step in searches) for index in USED)
    assert not [step for step in plan if step.startswith("SCAN rowcall")]


@pytest.mark.new_database  # no statistics of earlier tests
@pytest.mark.parametrize("analyzed", [False, True])
def test_postgres_searches_each_index_up_to_the_turn(postgres_url: str, analyzed: bool) -> None:
    with postgres_database(postgres_url) as connection:
        if analyzed:
            connection.execute("analyze")
        connection.execute("set enable_seqscan = off")
        connection.execute("set enable_bitmapscan = off")
        sql = turn_of(on_postgres(FAIR_TURN.format(""), "rowcall_"))
        plan = "\n".join(str(step) for (step,) in connection.execute(f"explain {sql}".encode()))
    assert all(f"using rowcall_{index} on" in plan for index in USED)
    assert plan.count("turn <") == plan.count("turn > ") + 1
    assert plan.count("using rowcall_claim_pkey on") == plan.count("(job_id = other") == 3
    assert "Seq Scan" not in plan
