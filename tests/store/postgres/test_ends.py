"""What ends attempts, and jobs without a claim, goes through its index. `test_claims` says on which tables."""

from __future__ import annotations

from typing import cast

import pytest

from rowcall import Status
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import Transition
from rowcall.store.ends.attempts import Ended, _settle_others
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.claims import EndedClaim
from rowcall.store.queries.ends import (
    ADD_ON_END,
    COMPLETE,
    DROP_LOCKED_CLAIMS,
    END_WAITING,
    FIND_EXPIRED,
    FIND_EXPIRED_READY,
    FIND_OVERDUE,
    FIND_OVERDUE_READY,
    FIND_UNKNOWN,
    FOLLOW_UP,
    KEEP_BLOBS,
    LEASES,
    Owner,
    Success,
)
from rowcall.store.statement import Row, Statement
from tests.store.postgres.databases import PREFIX
from tests.store.postgres.explaining import (
    BY_CLAIM,
    BY_ID,
    LAST_ID,
    READY_BY_PLACE,
    Case,
    Explainer,
    Mode,
    accesses,
    check,
    plans,
    running_ids,
    shown,
    statements_of,
)

DIALECT = PostgresDialect(PREFIX)
RETRY = Transition(Move.RETRY, Status.PENDING, "failed", attempt_recorded=True, error_code="A:B")


def settle_successes(size: int, result: str | None) -> list[Statement[object]]:
    """Take the claims, then write the jobs."""
    rows = [Success(job, 1, 0, 7, 1, result) for job in running_ids(size)]
    return statements_of(DIALECT.settle_successes(rows, Owner("worker1", 1)), [(None,)])


def settle_others(size: int) -> list[Statement[object]]:
    """Take the claims, lock the jobs, record the attempts, write the jobs, make them ready."""
    ended = [Ended(job, 1, 1, RETRY) for job in running_ids(size)]
    taken = [EndedClaim(job, 1, "worker1", 0, 0, None, None, 0) for job in running_ids(size)]
    rows = [cast("Row", tuple(getattr(one, name) for name in one.__struct_fields__)) for one in taken]
    live: list[Row] = [(job,) for job in running_ids(size)]
    take, lock, clock, *others = statements_of(_settle_others(DIALECT, ended), rows, live, [(1,)], [], [])
    assert len(others) == 3
    assert PREFIX not in clock.sql
    return [take, lock, *others]


CASES = {
    "take all": Case(lambda size: settle_successes(size, None), [BY_CLAIM]),
    "settle plain": Case(lambda size: settle_successes(size, None), [BY_ID], position=1),
    "settle with results": Case(lambda size: settle_successes(size, '{"a":1}'), [BY_ID], position=1),
    "take": Case(settle_others, [BY_CLAIM, BY_CLAIM], position=0),
    "which are live": Case(settle_others, [BY_ID], position=1),
    "record attempts": Case(settle_others, [BY_ID], position=2),
    "settle": Case(settle_others, [BY_ID], position=3),
    "make ready": Case(settle_others, [BY_ID, BY_CLAIM], position=4),
    "complete": Case(
        lambda size: statements_of(DIALECT.ask(COMPLETE, LAST_ID, 1, 1, None, 5, 0, None)),
        [BY_CLAIM, BY_ID, BY_CLAIM, BY_ID],
    ),
    "follow-ups": Case(lambda size: statements_of(DIALECT.ask(FOLLOW_UP, running_ids(size))), [BY_ID]),
    "blobs of follow-ups": Case(lambda size: statements_of(DIALECT.ask(KEEP_BLOBS, running_ids(size))), [BY_ID]),
    "leases": Case(lambda size: statements_of(DIALECT.ask(LEASES, running_ids(size))), [BY_ID], writes=False),
    "add what follows": Case(
        lambda size: statements_of(DIALECT.ask(ADD_ON_END, running_ids(size), "{}")), [BY_ID, BY_ID]
    ),
    "drop locked claims": Case(
        lambda size: statements_of(DIALECT.ask(DROP_LOCKED_CLAIMS, running_ids(size))), [BY_CLAIM]
    ),
    "find expired": Case(
        lambda size: statements_of(DIALECT.ask(FIND_EXPIRED, size)), ["rowcall_job_expiry(expires_at)"]
    ),
    "find expired ready": Case(
        lambda size: statements_of(DIALECT.ask(FIND_EXPIRED_READY, size)),
        ["rowcall_ready_expiry(expires_at)", BY_ID],
    ),
    "find overdue": Case(
        lambda size: statements_of(DIALECT.ask(FIND_OVERDUE, size)), ["rowcall_job_deadline()", BY_CLAIM]
    ),
    "find overdue ready": Case(
        lambda size: statements_of(DIALECT.ask(FIND_OVERDUE_READY, size)),
        ["rowcall_job_deadline()", BY_CLAIM, BY_ID, READY_BY_PLACE, BY_ID],
    ),
    "find unknown": Case(
        lambda size: statements_of(DIALECT.ask(FIND_UNKNOWN, "default", "type1", 1000, size)),
        ["rowcall_ready_pkey(queue, type)", BY_ID],
    ),
    # four columns come from the claim
    "end waiting": Case(
        lambda size: statements_of(
            DIALECT.ask(END_WAITING, running_ids(size), "failed", None, "A:B", {1: "why"}, None, None)
        ),
        [BY_ID, *[BY_CLAIM] * 4],
    ),
    "end blocked": Case(
        lambda size: statements_of(
            DIALECT.ask(END_WAITING, running_ids(size), "failed", "blocked", "A:B", {1: "why"}, None, None)
        ),
        [BY_ID, *[BY_CLAIM] * 4],
    ),
}


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_the_intended_index_is_taken_and_gives_the_order(explainer: Explainer, mode: Mode) -> None:
    check(explainer, CASES, mode)


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_claims_are_taken_in_the_order_of_their_ids(explainer: Explainer, mode: Mode) -> None:
    """Two that take the same claims in different orders would wait for each other."""
    for plan in plans(explainer, CASES["take all"], mode):
        (access,) = accesses(plan, "rowcall_claim")
        assert (access.kind, access.index_name) == ("Index Scan", "rowcall_claim_pkey")


def test_a_way_through_the_jobs_of_a_status_would_be_seen(explainer: Explainer) -> None:
    """Why settling names no status: the partial indexes are full of dead entries during a drain."""
    sql = "update rowcall_job set lease = lease + 1 where status = 'running' and lease = $1"
    plan = explainer.explain(Statement(sql, (2,), lambda row: row), "custom", writes=True)
    assert [shown(access) for access in accesses(plan, "rowcall_job")] != [BY_ID]
