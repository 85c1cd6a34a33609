"""Statements about edges, chains and keys find each row by an index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator

import pytest

from rowcall.store.sqlite.dialect import catalogue
from tests.store.databases import MANY, fill, migrated, query_plan

TEXTS = catalogue("rowcall_").texts()
EDGES = f"""
    insert into rowcall_edge (blocker_id, job_id, position, state)
    select id, id + 7, 0, case when id % 3 then 'succeeded' else 'open' end from rowcall_job where id < {MANY - 7}"""
KEYS = "update rowcall_job set key = 'key ' || id % 1000"
CHAINS = "update rowcall_job set chain_id = id - id % 3, chain_index = id % 3 where id > 3 and id % 2"

_bare_scan = re.compile(
    r"^SCAN (?!given\b|claim\b|json_each\b|sqlite_sequence\b|\(|constant|CONSTANT|\d)(?!.*VIRTUAL TABLE)"
)
_search = re.compile(r"^SEARCH (\w+)")


@pytest.fixture(scope="module", params=["empty", "empty, analyzed", "full", "full, analyzed"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with migrated(tmp_path_factory.mktemp("plans") / "app.db") as connection:
        if "full" in request.param:
            fill(connection)
            for sql in (EDGES, KEYS, CHAINS):
                connection.execute(sql)
        if "analyzed" in request.param:
            connection.execute("analyze")
        yield connection


NAMES = (
    "ended_edges",
    "settle_edges",
    "ends_of",
    "unblock",
    "key_holders",
    "replace_waiting",
    "standing",
    "mark_chains",
    "taken_steps",
    "previous_result",
    "blocker_results",
    "dependants",
    "chain_steps",
    "chain",
)


def test_each_row_is_found_by_its_index(database: sqlite3.Connection) -> None:
    for name in NAMES:
        plan = query_plan(database, TEXTS[name])
        assert [line for line in plan if _bare_scan.match(line)] == [], (name, plan)
        tables = [line for line in plan if _search.match(line)]
        assert tables != [], (name, plan)
        assert [line for line in tables if not re.search(r"INDEX|PRIMARY KEY", line)] == [], (name, plan)


def test_a_scan_would_be_seen(database: sqlite3.Connection) -> None:
    for sql in ("select * from rowcall_edge where position = ?1", "select * from rowcall_job where lease = ?1"):
        assert [line for line in query_plan(database, sql) if _bare_scan.match(line)] != []
