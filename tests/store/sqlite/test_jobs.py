"""What stages and shows jobs goes through its index: on an empty table and on a full one, before and after ANALYZE."""

from __future__ import annotations

import re
import sqlite3

import pytest

from tests.store.databases import query_plan
from tests.store.sqlite.explaining import BY_ID, TEXTS, steps_of

OF_JOB = f"SEARCH job {BY_ID}"
EXPECTED = {
    "stage": [OF_JOB, "SEARCH job USING INDEX rowcall_job_due (run_at<?)"],
    "get": [OF_JOB, f"SEARCH claim {BY_ID} LEFT-JOIN"],
    "delete": [OF_JOB],
    "last_inserted": [OF_JOB],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_intended_index_is_taken_and_gives_the_order(database: sqlite3.Connection, name: str) -> None:
    assert steps_of(database, TEXTS[name]) == EXPECTED[name]


def test_a_scan_and_a_sort_would_be_seen(database: sqlite3.Connection) -> None:
    assert steps_of(database, "select * from rowcall_job where lease = ?1") == ["SCAN job"]
    with pytest.raises(AssertionError, match="USE TEMP B-TREE"):
        steps_of(database, "select * from rowcall_job order by priority")


def test_the_ids_at_some_times_are_found_row_by_row(database: sqlite3.Connection) -> None:
    after = "SEARCH job USING INTEGER PRIMARY KEY (rowid>?)"
    assert sorted(steps_of(database, TEXTS["boundaries"])) == [OF_JOB, *[after] * 3]


@pytest.mark.parametrize("name", ["attempts", "timeline"])
def test_history_is_found_by_its_job(database: sqlite3.Connection, name: str) -> None:
    plan = query_plan(database, TEXTS[name])
    assert f"SEARCH claim {BY_ID} LEFT-JOIN" in plan
    tables = r"(rowcall_)?(job|claim|attempt|event|step|edge|past)\b"
    assert [line for line in plan if re.match(f"SCAN {tables}", line)] == []
