"""Statements find each row by an index, in an empty file and in a full one. `postgres/` has the plans on a server."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator

import pytest

from rowcall.store.catalogue import queries_for
from rowcall.store.sqlite.dialect import catalogue
from tests.store.databases import MANY, fill, migrated, query_plan

TEXTS = catalogue("rowcall_").texts()
MORE_ROWS = (
    f"""insert into rowcall_edge (blocker_id, job_id, position, state)
    select id, id + 7, 0, case when id % 3 then 'succeeded' else 'open' end from rowcall_job where id < {MANY - 7}""",
    "update rowcall_job set key = 'key ' || (id % 1000)",
    "update rowcall_job set chain_id = id - id % 3, chain_index = id % 3 where id > 3 and id % 2",
    "update rowcall_job set held = 'limit:' || (id % 100) where status = 'pending'",
    "insert into rowcall_slot (limit_key, job_id, lease) select 'k' || (id % 100), id, 1 from rowcall_job",
    "insert into rowcall_start (number, at, until, limit_key) select id, id, id, 'k' || (id % 100) from rowcall_job",
    "insert into rowcall_limit_hold select 'k' || id, id, id + 1, id, null from rowcall_job where id < 100",
    "insert into rowcall_breaker select 'k' || id, id, id + 1, 1, 1 from rowcall_job where id < 100",
    "insert into rowcall_outcome select id, id, 1, 'k' || (id % 100) from rowcall_job",
    "insert into rowcall_opening select 'k' || id, id from rowcall_job where id < 100",
)

_bare_scan = re.compile(
    r"^SCAN (?!given\b|json_each\b|hop\b|sqlite_sequence\b|\(|constant|CONSTANT|\d)(?!.*VIRTUAL TABLE)"
)


@pytest.fixture(scope="module", params=["empty", "empty, analyzed", "full", "full, analyzed"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with migrated(tmp_path_factory.mktemp("plans") / "app.db") as connection:
        if "full" in request.param:
            fill(connection)
            for sql in MORE_ROWS:
                connection.execute(sql)
        if "analyzed" in request.param:
            connection.execute("analyze")
        yield connection


FLOWS = (
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
LIMITS = {query.name for topic, query in queries_for("sqlite") if topic == "limits"}
# a handful of rows, when a worker starts; what runs, when a worker ends, every ten minutes and on a page; at most a
# thousand changes of limits
WHOLE = {"quotas", "slots_of_worker", "stale_keys", "used_slots", "audited", "trim_audit"}
WHOLE |= {"holds", "prune_holds", "breakers", "prune_outcomes"}


ATTENTION = {query.name for topic, query in queries_for("sqlite") if topic == "attention"}
# claims; tallies and their history; the newest job. Then: rows that another search has found
READ_IN_ORDER = {"long_attempts", "last_ends", "newest_created", "runs", "ends_of_task"}
OF_FOUND = {"overdue", "overdue_jobs", "first_in_turn", "ready_backlogs", "queues_by_hand"}


@pytest.mark.parametrize("name", [*FLOWS, *sorted(LIMITS - WHOLE), *sorted(ATTENTION - READ_IN_ORDER - OF_FOUND)])
def test_no_table_is_scanned(database: sqlite3.Connection, name: str) -> None:
    plan = query_plan(database, TEXTS[name])
    assert [line for line in plan if _bare_scan.match(line)] == []
    searches = [line for line in plan if line.startswith("SEARCH ")]
    assert [line for line in searches if not re.search(r"INDEX|PRIMARY KEY", line)] == []
    assert searches != [] or name in LIMITS


def test_a_list_of_keys_is_read_by_hops(database: sqlite3.Connection) -> None:
    plan = query_plan(database, TEXTS["held_keys"])
    assert sum("INDEX rowcall_job_held_by (held>?)" in line for line in plan) == 2


def test_a_scan_would_be_seen(database: sqlite3.Connection) -> None:
    for sql in ("select * from rowcall_edge where position = ?1", "select * from rowcall_job where lease = ?1"):
        assert [line for line in query_plan(database, sql) if _bare_scan.match(line)] != []


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("cancel_requests", "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"),
        ("obstacles", "SEARCH other USING INDEX rowcall_job_key (type=? AND key=?)"),
        ("obstacles", "SEARCH later USING INDEX rowcall_job_chain (chain_id=? AND chain_index>?)"),
        ("unreferred_blobs", "SEARCH ref USING PRIMARY KEY (digest=?)"),
        ("ends", "SEARCH rowcall_job USING INTEGER PRIMARY KEY (rowid=?)"),
        ("due_schedules", "SEARCH rowcall_schedule USING INDEX rowcall_schedule_due (next_run_at>? AND next_run_at<?)"),
        ("unhold_first", "INDEX rowcall_job_held_by (held=?)"),
        ("unhold_some", "INDEX rowcall_job_held_by (held=?)"),
        ("first_held", "INDEX rowcall_job_held_by (held=?)"),
        ("first_overdue", "SEARCH rowcall_job USING INDEX rowcall_job_due (run_at<?)"),
        ("failed_since", "INDEX rowcall_job_failed (<expr>=? AND finished_at>?)"),
        ("newest_with_error", "INDEX rowcall_job_error (status=? AND error_code=? AND type=?)"),
        ("ready_backlogs", "SEARCH ready USING PRIMARY KEY (queue=? AND type=?)"),
        ("oldest_finished", "INDEX rowcall_job_aged (status=? AND queue=? AND type=? AND finished_at>?)"),
        ("held_backlogs", "INDEX rowcall_job_held_by (held=?)"),
        ("tags", "SEARCH rowcall_job_tag USING"),
        ("first_held_of_group", "INDEX rowcall_job_held (queue=? AND type=?)"),
        ("asking", "SEARCH step USING INDEX rowcall_step_asks ((started_at,job_id,position)>(?,?,?))"),
        ("awaiting", "SEARCH step USING INDEX rowcall_step_awaits ((started_at,job_id,position)>(?,?,?))"),
        ("count_asking", "SCAN step USING INDEX rowcall_step_asks"),
        ("open_waits_of", "SEARCH step USING PRIMARY KEY (job_id=?)"),
        ("children_of", "SEARCH rowcall_step USING PRIMARY KEY (job_id=?)"),
        ("next_wait", "SEARCH step USING PRIMARY KEY (job_id=?)"),
    ],
)
def test_the_intended_index_is_used(database: sqlite3.Connection, name: str, step: str) -> None:
    plan = query_plan(database, TEXTS[name])
    assert any(step in line for line in plan), plan
    assert not any("TEMP B-TREE" in line for line in plan), plan


def test_overdue_jobs_are_read_up_to_a_limit(database: sqlite3.Connection) -> None:
    plan = query_plan(database, TEXTS["overdue"])
    assert "SEARCH rowcall_job USING INDEX rowcall_job_due (run_at<?)" in plan
    assert [line for line in plan if _bare_scan.match(line)] == ["SCAN overdue"]
