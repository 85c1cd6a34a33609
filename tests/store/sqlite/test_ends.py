"""What ends attempts, and jobs without a claim, goes from what ended to each row by its id or its index."""

from __future__ import annotations

import sqlite3

import pytest

from tests.store.databases import query_plan
from tests.store.sqlite.explaining import BY_ID, BY_RUN_OF_IDS, TEXTS, steps_of

OF_CLAIM = f"SEARCH claim {BY_ID}"
OF_JOB = f"SEARCH job {BY_ID}"
OF_CLAIMS_IN_A_ROW = f"SEARCH claim {BY_RUN_OF_IDS}"
EXPECTED = {
    "take": [OF_CLAIM],
    "drop_claims": [OF_CLAIM, OF_CLAIM],
    "take_runs": [OF_CLAIM, OF_CLAIMS_IN_A_ROW],
    "still_held": [OF_CLAIMS_IN_A_ROW],
    "settle_successes": [f"SEARCH job {BY_RUN_OF_IDS}"],
    "live": [OF_JOB],
    "record_attempts": [OF_JOB],
    "settle": [OF_JOB],
    "complete": [OF_JOB, OF_CLAIM],
    "drop_claim": [OF_CLAIM],
    "lock_free_claims": [OF_CLAIM],
    "leases": [OF_JOB],
    "drop_locked_claims": [OF_CLAIM],
    "add_on_end": [OF_JOB, OF_JOB],
    "any_followed": ["SEARCH job USING INDEX rowcall_job_followed (id>? AND id<?)"],
    "follow_up": [OF_JOB],
    "keep_blobs": [OF_JOB],
    "find_expired": ["SEARCH job USING INDEX rowcall_job_expiry (expires_at>? AND expires_at<?)"],
    "find_expired_ready": ["SEARCH ready USING INDEX rowcall_ready_expiry (expires_at>? AND expires_at<?)", OF_JOB],
    "find_overdue": ["SEARCH job USING INDEX rowcall_job_deadline (deadline_at>? AND deadline_at<?)", OF_CLAIM],
    "find_overdue_ready": ["SEARCH job USING INDEX rowcall_job_deadline (deadline_at>? AND deadline_at<?)", OF_CLAIM],
    "find_unknown": ["SEARCH ready USING PRIMARY KEY (queue=? AND type=?)", OF_JOB],
    "end_waiting": [OF_JOB, *[OF_CLAIM] * 4],  # four columns come from the claim
}
FROM_WHAT_ENDED = ("take", "take_runs", "still_held", "settle_successes", "live", "record_attempts", "settle")


@pytest.mark.parametrize("name", EXPECTED)
def test_the_intended_index_is_taken_and_gives_the_order(database: sqlite3.Connection, name: str) -> None:
    assert steps_of(database, TEXTS[name]) == EXPECTED[name]


@pytest.mark.parametrize("name", FROM_WHAT_ENDED)
def test_what_ended_is_gone_through_once(database: sqlite3.Connection, name: str) -> None:
    given = [line for line in query_plan(database, TEXTS[name]) if "VIRTUAL TABLE" in line]
    assert given == ["SCAN given VIRTUAL TABLE INDEX 1:"]
