"""What claims jobs, and what is asked about claims, goes through its index: on an empty table and on a full one, before
and after ANALYZE, whether the plan was made for these values or for any, and whatever the size of the group.

A plan may stay for long: the server keeps the one it made for any values until the table is analyzed again. So what is
chosen for an empty table has to be right for a full one too.
"""

from __future__ import annotations

import pytest

from rowcall.store.jobs.marks import mark
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.claims import (
    DROP_STALE,
    FIND_OTHER_WORK_AND_LOCK,
    FIND_QUEUES,
    FIND_WORK,
    FIND_WORK_AND_LOCK,
    FREE_UNCLAIMED,
    LOCK_CLAIMS,
    LOCK_READY_OF,
    MAKE_READY,
    PEEK,
    RENEW,
    RUNNING_IDS,
    Mark,
    Ready,
)
from rowcall.store.queries.control import INTERRUPTED, REQUEST_CANCEL
from rowcall.store.queries.ends import LOCK_FREE_CLAIMS, Owner
from rowcall.store.queries.workers import (
    LEASE_EXPIRED,
    LOCK_WORKER,
    ORPHANS,
    OWNED_BY,
    OWNED_BY_HOLDER,
    REMOVE_IDLE_WORKER,
    SURVEY,
)
from rowcall.store.statement import Statement
from tests.store.postgres.databases import PREFIX
from tests.store.postgres.explaining import (
    ALL_CLAIMS,
    BY_CLAIM,
    BY_ID,
    LAST_ID,
    READY_BY_PLACE,
    Case,
    Explainer,
    Mode,
    Node,
    accesses,
    check,
    nodes_of,
    plans,
    reads,
    running_ids,
    shown,
    sorts,
    statements_of,
)

DIALECT = PostgresDialect(PREFIX)
OWNER = Owner("worker1", 1)
NEXT_QUEUES = [*["rowcall_ready_pkey(queue)"] * 4, *["rowcall_ready_pkey(queue, type)"] * 3]
NEXT_TIMES = [
    "rowcall_ready_expiry()",
    "rowcall_job_due()",
    "rowcall_job_expiry()",
    "rowcall_job_deadline()",
    BY_CLAIM,
]
SURVEYED = {"rowcall_claim_leased(lease_until)", "rowcall_claim", BY_CLAIM, "rowcall_job_waiting(status)"}
HELD = {"rowcall_job_held()", "rowcall_job_held_by()"}
"""Either shows whether any job is held."""


def claim(size: int) -> list[Statement[object]]:
    half = size // 2
    ready = [
        Ready(job, "type1", "default", "{}", 5, 0, 0, 0, None, None, None, row=f"({job},1)") for job in range(size)
    ]
    return statements_of(DIALECT.claim(ready[half:], ready[:half], OWNER, None))


CASES = {
    "ready, one type": Case(
        lambda size: statements_of(DIALECT.ready_jobs("default", ["type1"], size)),
        [READY_BY_PLACE, BY_ID],
    ),
    "claim": Case(claim, ["by row"]),
    "find work": Case(
        lambda size: statements_of(DIALECT.ask(FIND_WORK, "worker1", "default", 20, ["default"])),
        [*NEXT_QUEUES, *NEXT_TIMES],
        writes=False,
    ),
    "find queues": Case(lambda size: statements_of(DIALECT.ask(FIND_QUEUES, "", 20, None)), NEXT_QUEUES, writes=False),
    "find work, and lock the worker": Case(
        lambda size: statements_of(DIALECT.ask(FIND_WORK_AND_LOCK, "worker1", "default", 20, None)),
        [*NEXT_QUEUES, *NEXT_TIMES],
    ),
    "find other work, where the ready jobs are known": Case(
        lambda size: statements_of(DIALECT.ask(FIND_OTHER_WORK_AND_LOCK, "worker1", [("default", "type1")])),
        NEXT_TIMES,
    ),
    "peek": Case(
        lambda size: statements_of(DIALECT.ask(PEEK)),
        ["rowcall_ready_pkey()", *NEXT_TIMES],
        writes=False,
    ),
    "mark": Case(
        lambda size: statements_of(mark(DIALECT, [Mark(job, 1, 1, 5) for job in running_ids(size)])),
        [BY_CLAIM, BY_CLAIM],
    ),
    "renew": Case(lambda size: statements_of(DIALECT.ask(RENEW, LAST_ID, 1, 1, 15_000, None)), [BY_CLAIM]),
    "interrupted": Case(
        lambda size: statements_of(DIALECT.ask(INTERRUPTED, [(job, 1, 1) for job in running_ids(size)])),
        [BY_CLAIM, BY_ID],
        writes=False,
    ),
    "request cancel": Case(lambda size: statements_of(DIALECT.ask(REQUEST_CANCEL, running_ids(size))), [BY_CLAIM]),
    "running ids": Case(
        lambda size: statements_of(DIALECT.ask(RUNNING_IDS, running_ids(size))), [BY_CLAIM], writes=False
    ),
    "lock claims": Case(lambda size: statements_of(DIALECT.ask(LOCK_CLAIMS, running_ids(size))), [BY_CLAIM]),
    "lock free claims": Case(lambda size: statements_of(DIALECT.ask(LOCK_FREE_CLAIMS, running_ids(size))), [BY_CLAIM]),
    "lock ready rows": Case(
        lambda size: statements_of(DIALECT.ask(LOCK_READY_OF, running_ids(size))), [BY_ID, READY_BY_PLACE]
    ),
    "make ready": Case(lambda size: statements_of(DIALECT.ask(MAKE_READY, running_ids(size))), [BY_ID, BY_CLAIM]),
    "free unclaimed": Case(
        lambda size: statements_of(DIALECT.change(FREE_UNCLAIMED, size)),
        ["rowcall_job_waiting(status)", BY_CLAIM, BY_ID],
    ),
    # recovery reads all claims: a worker's are a part of them, and workers are few
    "owned by": Case(lambda size: statements_of(DIALECT.ask(OWNED_BY, "worker1", size)), [ALL_CLAIMS, BY_ID]),
    "owned by holder": Case(
        lambda size: statements_of(DIALECT.ask(OWNED_BY_HOLDER, 1)), [ALL_CLAIMS, BY_ID], writes=False
    ),
    "orphans": Case(lambda size: statements_of(DIALECT.ask(ORPHANS, size)), [ALL_CLAIMS, BY_ID]),
    "lease expired": Case(
        lambda size: statements_of(DIALECT.ask(LEASE_EXPIRED, size)), ["rowcall_claim_leased(lease_until)", BY_ID]
    ),
    "retire if idle": Case(lambda size: statements_of(DIALECT.ask(REMOVE_IDLE_WORKER, "worker1")), ["rowcall_claim"]),
    "seize": Case(lambda size: statements_of(DIALECT.ask(LOCK_WORKER, "worker1", 7)), []),
}
SEVERAL_TYPES = Case(
    lambda size: statements_of(DIALECT.ready_jobs("default", ["type1", "type2", "type3"], size)),
    [READY_BY_PLACE] * 2 + [BY_ID],
)


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_the_intended_index_is_taken_and_gives_the_order(explainer: Explainer, mode: Mode) -> None:
    check(explainer, CASES, mode)


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_of_several_types_only_the_heads_are_sorted(explainer: Explainer, mode: Mode) -> None:
    for plan in plans(explainer, SEVERAL_TYPES, mode):
        assert sorted(map(shown, reads(plan))) == sorted(SEVERAL_TYPES.expected), plan
        limits = [node for node in nodes_of(plan) if node["Node Type"] == "Limit"]
        for access in ("Index Only Scan", "Index Scan"):
            assert any(below(limit, access) for limit in limits), plan
        for sort in sorts(plan):
            assert all(node["Node Type"] != "Index Scan" for node in nodes_of(sort)), plan


def below(limit: Node, kind: str) -> bool:
    """Whether a limit is what stops a scan: nothing but locks in between."""
    (child,) = [node for node in limit["Plans"] if node.get("Parent Relationship") == "Outer"]
    if child["Node Type"] == "LockRows":
        (child,) = child["Plans"]
    return bool(child["Node Type"] == kind)


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_each_stale_row_is_compared_with_one_job(explainer: Explainer, mode: Mode) -> None:
    (drop,) = statements_of(DIALECT.ask(DROP_STALE, "default", "type1", 100))
    plan = explainer.explain(drop, mode, writes=True)
    found = [*accesses(plan, "rowcall_job"), *accesses(plan, "rowcall_claim")]
    assert list(map(shown, found)) == [BY_ID, BY_CLAIM], plan


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_a_survey_reads_claims_and_held_jobs_alone(explainer: Explainer, mode: Mode) -> None:
    (survey,) = statements_of(DIALECT.ask(SURVEY))
    found = {shown(access) for access in reads(explainer.explain(survey, mode, writes=False))}
    assert found - HELD == SURVEYED
    assert len(found & HELD) == 1


@pytest.mark.parametrize("url", ["full", "full, analyzed"], indirect=True)
def test_without_our_settings_looking_for_work_reads_no_more_of_a_full_table(url: str) -> None:
    """Behind a pooler: what a session sets there would be another one's next."""
    explainer = Explainer(url, planned=False)
    for name in ("find work", "peek"):
        (statement,) = CASES[name].make(1)
        plan = explainer.explain(statement, "custom", writes=False)
        assert sorted(map(shown, reads(plan))) == sorted(CASES[name].expected), plan
        assert sorts(plan) == []
    (survey,) = statements_of(DIALECT.ask(SURVEY))
    found = accesses(explainer.explain(survey, "custom", writes=False), "rowcall_job")
    assert {shown(access) for access in found} - HELD == {"rowcall_job_waiting(status)"}
    explainer.close()
