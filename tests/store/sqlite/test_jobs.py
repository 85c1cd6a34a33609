"""What runs all the time goes through its index: on an empty table and on a full one, before and after ANALYZE."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from rowcall.store.sqlite import claims
from rowcall.store.sqlite.dialect import catalogue
from rowcall.store.sqlite.words import render
from tests.store.databases import fill, migrated, query_plan

SQL = SimpleNamespace(**catalogue("rowcall_").texts())
BY_ID = "USING INTEGER PRIMARY KEY (rowid=?)"
BY_RUN_OF_IDS = "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"
SORTED = "USE TEMP B-TREE FOR ORDER BY"

_bare_scan = re.compile(r"^SCAN (rowcall_job|job)\b(?!.*INDEX)")


@pytest.fixture(scope="module", params=["empty", "empty, analyzed", "full", "full, analyzed"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with migrated(tmp_path_factory.mktemp("plans") / "app.db") as connection:
        if "full" in request.param:
            fill(connection)
        if "analyzed" in request.param:
            connection.execute("analyze")
        yield connection


def plan_of(database: sqlite3.Connection, sql: str) -> list[str]:
    plan = query_plan(database, sql)
    assert [line for line in plan if _bare_scan.match(line)] == [], plan
    return plan


def lines_about(plan: list[str], table: str) -> list[str]:
    return [line for line in plan if re.match(rf"(SCAN|SEARCH) {table}\b", line)]


def test_a_scan_of_the_table_would_be_seen(database: sqlite3.Connection) -> None:
    with pytest.raises(AssertionError, match="SCAN rowcall_job"):
        plan_of(database, "select * from rowcall_job where lease = ?1")


def test_looking_hops_along_the_ready_jobs_and_asks_two_indexes_for_their_first_entry(
    database: sqlite3.Connection,
) -> None:
    plan = plan_of(database, SQL.find_work)
    assert lines_about(plan, "rowcall_ready") == [
        "SCAN rowcall_ready",  # up to the first
        "SEARCH rowcall_ready USING PRIMARY KEY (queue=? AND type>?)",
        "SEARCH rowcall_ready USING PRIMARY KEY (queue>?)",
    ]
    lines = lines_about(plan, "rowcall_job")
    assert len(lines) == 2
    assert sum("INDEX rowcall_job_due" in line for line in lines) == 1
    assert sum("INDEX rowcall_job_expiry" in line for line in lines) == 1
    assert SORTED not in plan
    assert lines_about(plan, "rowcall_worker") == ["SEARCH rowcall_worker USING PRIMARY KEY (name=?)"]


@pytest.mark.parametrize("types", [1, 2, 7, 100])
def test_claiming_merges_the_types_in_their_order_and_sorts_nothing(database: sqlite3.Connection, types: int) -> None:
    plan = plan_of(database, render(claims.ready_jobs(types), "rowcall_"))
    arms = lines_about(plan, "rowcall_ready")
    assert arms == ["SEARCH rowcall_ready USING PRIMARY KEY (queue=? AND type=?)"] * types
    assert lines_about(plan, "job") == [f"SEARCH job {BY_ID}"]
    assert SORTED not in plan


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("stage", "rowcall_job_due (run_at<?)"),
        ("find_expired", "rowcall_job_expiry (expires_at>? AND expires_at<?)"),
        ("lease_expired", "rowcall_job_leased (lease_until>? AND lease_until<?)"),
    ],
)
def test_what_time_brings_is_read_in_the_order_of_its_index(
    database: sqlite3.Connection, name: str, index: str
) -> None:
    plan = plan_of(database, getattr(SQL, name))
    assert [line for line in lines_about(plan, "rowcall_job") if index in line] != [], plan
    assert SORTED not in plan


def test_jobs_that_were_refused_are_read_by_their_own_index(database: sqlite3.Connection) -> None:
    plan = plan_of(database, SQL.mismatched)
    assert lines_about(plan, "rowcall_job") == ["SEARCH rowcall_job USING INDEX rowcall_job_mismatched (id>?)"], plan
    for name in ("extend_mismatched", "find_overdue"):
        lines = lines_about(plan_of(database, getattr(SQL, name)), "(rowcall_job|job)")
        assert lines, name
        # newer versions of SQLite may read the held jobs alone
        assert [line for line in lines if not line.endswith((BY_ID, "rowcall_job_held_by"))] == []
    (offered,) = lines_about(plan_of(database, SQL.offered_jobs), "job")
    assert offered.endswith((BY_ID, "rowcall_job_mismatched (id=? AND rowid=?)"))


@pytest.mark.parametrize("name", ["stage", "end_waiting", "mark_claimed_alike"])
def test_what_was_chosen_is_changed_by_its_id(database: sqlite3.Connection, name: str) -> None:
    plan = plan_of(database, getattr(SQL, name))
    assert {f"SEARCH rowcall_job {BY_ID}", f"SEARCH job {BY_ID}"} & set(plan), plan


@pytest.mark.parametrize("name", ["settle_successes", "settle_packed", "settle_others", "mark_started"])
def test_settling_goes_from_what_ended_to_each_row_by_its_id(database: sqlite3.Connection, name: str) -> None:
    plan = plan_of(database, getattr(SQL, name))
    found = BY_RUN_OF_IDS if name in ("settle_successes", "settle_packed") else BY_ID
    assert lines_about(plan, "rowcall_job") == [f"SEARCH rowcall_job {found}"]
    assert any(line.endswith("VIRTUAL TABLE INDEX 1:") for line in plan)


@pytest.mark.parametrize("name", ["live", "record_attempts"])
def test_the_fence_is_asked_by_id(database: sqlite3.Connection, name: str) -> None:
    plan = plan_of(database, getattr(SQL, name))
    assert plan == ["SCAN given VIRTUAL TABLE INDEX 1:", f"SEARCH job {BY_ID}"]


@pytest.mark.parametrize("name", ["heartbeat", "get", "delete", "last_inserted"])
def test_one_job_is_found_by_its_id(database: sqlite3.Connection, name: str) -> None:
    plan = plan_of(database, getattr(SQL, name))
    (line,) = lines_about(plan, "(rowcall_job|job)")
    assert line.endswith(BY_ID)


def test_the_ids_at_some_times_are_found_row_by_row(database: sqlite3.Connection) -> None:
    lines = lines_about(plan_of(database, SQL.boundaries), "job")
    after = "USING INTEGER PRIMARY KEY (rowid>?)"
    assert sorted(lines) == [f"SEARCH job {BY_ID}", *[f"SEARCH job {after}"] * 3]


def test_the_jobs_of_one_worker_are_found_by_its_name(database: sqlite3.Connection) -> None:
    for name, searches in (("owned_by", 1), ("workers", 2)):
        lines = lines_about(plan_of(database, getattr(SQL, name)), "rowcall_job")
        assert len(lines) == searches
        assert all(re.search(r"INDEX rowcall_job_owned \(worker=\?", line) for line in lines), lines


def test_orphans_are_sought_among_running_jobs_only(database: sqlite3.Connection) -> None:
    plan = plan_of(database, SQL.orphans)
    assert [line for line in lines_about(plan, "rowcall_job") if "INDEX rowcall_job_owned" not in line] == []
    assert lines_about(plan, "rowcall_worker") == ["SEARCH rowcall_worker USING PRIMARY KEY (name=?)"]


@pytest.mark.parametrize("name", ["attempts", "timeline"])
def test_history_is_found_by_its_job(database: sqlite3.Connection, name: str) -> None:
    plan = plan_of(database, getattr(SQL, name))
    for table in ("rowcall_job", "rowcall_attempt", "rowcall_event"):
        for line in lines_about(plan, table):
            assert line.startswith("SEARCH"), plan
