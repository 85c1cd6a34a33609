"""What claims jobs, and what is asked about claims, goes through its index: on an empty table and on a full one, before
and after ANALYZE.
"""

from __future__ import annotations

import re
import sqlite3

import pytest

from rowcall.store.sqlite import claims
from rowcall.store.sqlite.words import render
from tests.store.databases import PREFIX, query_plan
from tests.store.sqlite.explaining import BY_ID, TEXTS, steps_of

OF_CLAIM = f"SEARCH claim {BY_ID}"
OF_JOB = f"SEARCH job {BY_ID}"
READY_ROWS = "SEARCH ready USING PRIMARY KEY (queue=? AND type=? AND rank=? AND (turn,id)>(?,?) AND (turn,id)<(?,?))"
NEXT_DUE = "SEARCH job USING INDEX rowcall_job_due"
NEXT_EXPIRY = [
    "SEARCH ready USING INDEX rowcall_ready_expiry (expires_at>?)",
    "SEARCH job USING INDEX rowcall_job_expiry (expires_at>?)",
    "SEARCH job USING INDEX rowcall_job_deadline (deadline_at>?)",
    OF_CLAIM,
]
LEASED = "SEARCH claim USING INDEX rowcall_claim_leased (lease_until>? AND lease_until<?)"
UNCLAIMED = "SEARCH job USING INDEX rowcall_job_waiting (status=?)"
NEXT_QUEUES = [
    "SEARCH ready USING PRIMARY KEY (queue>?)",
    "SEARCH ready USING PRIMARY KEY (queue<?)",
    "SEARCH ready USING PRIMARY KEY (queue>? AND queue<?)",
    "SEARCH ready USING PRIMARY KEY (queue<?)",
    "SEARCH ready USING PRIMARY KEY (queue=? AND type>?)",
]
EXPECTED = {
    "find_work": [*NEXT_QUEUES, NEXT_DUE, *NEXT_EXPIRY],
    "find_queues": NEXT_QUEUES,
    "peek": ["SCAN ready", NEXT_DUE, *NEXT_EXPIRY],
    "claim_rows": [READY_ROWS],
    "delete_ready": [READY_ROWS],
    "claimed_by": [OF_CLAIM],
    "running_ids": [OF_CLAIM],
    "mark": [OF_CLAIM],
    "renew": [OF_CLAIM],
    "interrupted": [f"{OF_CLAIM} LEFT-JOIN", OF_JOB],
    "request_cancel": [OF_CLAIM],
    "make_ready": [OF_JOB, OF_CLAIM],
    "free_unclaimed": [OF_JOB, UNCLAIMED, OF_CLAIM],
    "lease_expired": [LEASED, f"{OF_JOB} LEFT-JOIN"],
    # recovery reads all claims: a worker's are a part of them, and workers are few
    "owned_by": ["SCAN claim", f"{OF_JOB} LEFT-JOIN"],
    "owned_by_holder": ["SCAN claim", f"{OF_JOB} LEFT-JOIN"],
    "orphans": ["SCAN claim", f"{OF_JOB} LEFT-JOIN"],
    "remove_idle_worker": ["SCAN claim"],
    "survey": [LEASED, "SCAN claim", UNCLAIMED, OF_CLAIM, "SEARCH job USING INDEX rowcall_job_held_by (held>?)"],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_intended_index_is_taken_and_gives_the_order(database: sqlite3.Connection, name: str) -> None:
    assert steps_of(database, TEXTS[name]) == EXPECTED[name]


@pytest.mark.parametrize("types", [1, 2, 7, 100])
def test_claiming_merges_the_types_in_their_order_and_sorts_nothing(database: sqlite3.Connection, types: int) -> None:
    steps = steps_of(database, render(claims.ready_jobs(types), PREFIX))
    assert steps == [*["SEARCH ready USING PRIMARY KEY (queue=? AND type=?)"] * types, OF_JOB]


@pytest.mark.parametrize("name", ["find_work", "orphans", "survey", "remove_idle_worker"])
def test_a_worker_is_found_by_its_name(database: sqlite3.Connection, name: str) -> None:
    plan = query_plan(database, TEXTS[name])
    assert "SEARCH rowcall_worker USING PRIMARY KEY (name=?)" in plan


def test_the_claims_of_all_workers_are_counted_at_once(database: sqlite3.Connection) -> None:
    plan = query_plan(database, TEXTS["workers"])
    assert [line for line in plan if re.match(r"(SCAN|SEARCH) rowcall_", line)] == ["SCAN rowcall_claim"]
