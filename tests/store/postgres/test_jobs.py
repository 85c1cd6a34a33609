"""What runs all the time goes through its index: on an empty table and on a full one, before and after ANALYZE,
whether the plan was made for these values or for any, and whatever the size of the group.

A plan may stay for long: the server keeps the one it made for any values until the table is analyzed again. So what is
chosen for an empty table has to be right for a full one too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.drivers.postgres.connection import _PLANNER
from rowcall.operations.effects import Read
from rowcall.store.control.actions import rerun_locked
from rowcall.store.ends.attempts import _settle_others
from rowcall.store.jobs.marks import mark_started
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.claims import (
    CLAIM_FIRST,
    FIND_OTHER_WORK_AND_LOCK,
    FIND_WORK,
    FIND_WORK_AND_LOCK,
    MISMATCHED,
    PEEK,
    START,
    Ready,
)
from rowcall.store.queries.control import INTERRUPTED, LOCK_ATTEMPTS, LOCK_JOBS, REQUEST_CANCEL, Rerun
from rowcall.store.queries.ends import END_WAITING, FIND_EXPIRED, FIND_OVERDUE, Settlement, Success
from rowcall.store.queries.jobs import DELETE, GET, STAGE
from rowcall.store.queries.workers import LEASE_EXPIRED, LOCK_WORKER, ORPHANS, OWNED_BY, REMOVE_IDLE_WORKER, SURVEY
from rowcall.store.statement import Row, Statement, fetch
from tests.store.postgres.databases import FINISHED, PENDING, PREFIX, RUNNING, SCHEDULED
from tests.store.postgres.explaining import (
    Explainer,
    Mode,
    Node,
    accesses,
    nodes_of,
    reads,
    shown,
    sorts,
    statements_of,
)

SIZES = (1, 10, 100, 300, 500, 1000)
LAST_ID = FINISHED + SCHEDULED + PENDING + RUNNING
TABLE = "rowcall_job"
BY_ID = "rowcall_job_pkey(id)"
READY_BY_PLACE = "rowcall_ready_pkey(queue, type, rank, turn, id)"
SEVERAL_TYPES = "ready, several types"

DIALECT = PostgresDialect(PREFIX)


HELD = {"rowcall_job_held", "rowcall_job_held_by"}
"""Either shows whether any job is held."""


def ids(size: int) -> list[int]:
    """Of running jobs, where there are any."""
    return list(range(LAST_ID - size + 1, LAST_ID + 1))


def mark_claimed(size: int) -> list[Statement[object]]:
    half = size // 2
    ready = [Ready(job, "type1", "default", "{}", 5, 0, 0, 0, None, None, None, False) for job in ids(size)]
    return statements_of(DIALECT.mark_claimed("worker1", ready[half:], ready[:half], None, None))


def settle_successes(size: int, result: str | None, claimed: Claimed | None = None) -> list[Statement[object]]:
    rows = [Success(job, 2, 7, 1, result) for job in ids(size)]
    return statements_of(DIALECT.settle_successes(rows, None, claimed))


def settle_others(size: int) -> list[Statement[object]]:
    retried = [
        Settlement(job, 2, "scheduled", "failed", 7, 1, 500, 0, 1, None, "A:B", "detail", "traceback", 0, 0)
        for job in ids(size)
    ]
    found: list[Row] = [(job,) for job in ids(size)]
    live, clock, *rest = statements_of(_settle_others(DIALECT, retried, None), found, [(1,)], [])
    assert len(rest) == 2
    assert "rowcall_job" not in clock.sql
    return [live, *rest]


class Case(NamedTuple):
    """A statement, and how it must reach the rows: index by index, each with the columns it is entered by."""

    make: Callable[[int], list[Statement[object]]]
    expected: Sequence[str]
    position: int = 0
    writes: bool = True


CASES = {
    "ready, one type": Case(
        lambda size: statements_of(DIALECT.ready_jobs("default", ["type1"], size, None)),
        [READY_BY_PLACE, BY_ID],
    ),
    SEVERAL_TYPES: Case(
        lambda size: statements_of(DIALECT.ready_jobs("default", ["type1", "type2", "type3"], size, None)),
        [READY_BY_PLACE] * 2 + [BY_ID],
    ),
    "mark claimed": Case(mark_claimed, [BY_ID, "by row"]),
    "claim first": Case(
        lambda size: statements_of(DIALECT.ask(CLAIM_FIRST, None, "default", size, "type1", *START, "worker1")),
        [READY_BY_PLACE, BY_ID, "by row", BY_ID],
    ),
    "find work": Case(
        lambda size: statements_of(DIALECT.ask(FIND_WORK, None, "worker1")),
        ["rowcall_ready_pkey()", "rowcall_ready_pkey(queue, type)", "rowcall_job_due()", "rowcall_job_expiry()"],
        writes=False,
    ),
    "find work, and lock the worker": Case(
        lambda size: statements_of(DIALECT.ask(FIND_WORK_AND_LOCK, None, "worker1")),
        ["rowcall_ready_pkey()", "rowcall_ready_pkey(queue, type)", "rowcall_job_due()", "rowcall_job_expiry()"],
    ),
    "find other work, where the ready jobs are known": Case(
        lambda size: statements_of(DIALECT.ask(FIND_OTHER_WORK_AND_LOCK, None, "worker1", [("default", "type1")])),
        ["rowcall_job_due()", "rowcall_job_expiry()"],
    ),
    "peek": Case(
        lambda size: statements_of(DIALECT.ask(PEEK, None)),
        ["rowcall_ready_pkey()", "rowcall_job_due()", "rowcall_job_expiry()"],
        writes=False,
    ),
    "stage": Case(lambda size: statements_of(DIALECT.change(STAGE, None, size)), ["rowcall_job_due(run_at)", BY_ID]),
    "find expired": Case(
        lambda size: statements_of(DIALECT.ask(FIND_EXPIRED, None, size)), ["rowcall_job_expiry(expires_at)"]
    ),
    "end waiting": Case(
        lambda size: statements_of(
            DIALECT.ask(
                END_WAITING, None, ids(size), "failed", None, "A:B", dict.fromkeys(ids(size), "why"), None, None
            )
        ),
        [BY_ID],
    ),
    "end blocked": Case(
        lambda size: statements_of(
            DIALECT.ask(END_WAITING, None, ids(size), "failed", "blocked", "A:B", {1: "why"}, None, None)
        ),
        [BY_ID],
    ),
    "mismatched": Case(
        lambda size: statements_of(DIALECT.ask(MISMATCHED, None, 7, size)), ["rowcall_job_mismatched(id)"], writes=False
    ),
    "offered": Case(
        lambda size: statements_of(DIALECT.ask(OFFERED_JOBS, None, ids(size))), ["rowcall_job_mismatched(id)"]
    ),
    "find overdue": Case(
        lambda size: statements_of(DIALECT.ask(FIND_OVERDUE, None, ids(size))), ["rowcall_job_mismatched(id)"]
    ),
    "settle without results": Case(lambda size: settle_successes(size, None), [BY_ID]),
    "settle a run": Case(lambda size: settle_successes(size, None, Claimed("worker1", 7)), [BY_ID]),
    "settle with results": Case(lambda size: settle_successes(size, '{"a":1}'), [BY_ID]),
    "settle others, which are live": Case(settle_others, [BY_ID], position=0),
    "settle others, their attempts": Case(settle_others, [BY_ID], position=1),
    "settle others": Case(settle_others, [BY_ID], position=2),
    "mark started": Case(
        lambda size: statements_of(mark_started(DIALECT, [(job, 2, 5) for job in ids(size)], None)), [BY_ID, BY_ID]
    ),
    "which were asked to end": Case(
        lambda size: statements_of(DIALECT.ask(LOCK_ATTEMPTS, [(job, 2) for job in ids(size)])), [BY_ID]
    ),
    "which are to stop": Case(
        lambda size: statements_of(DIALECT.ask(INTERRUPTED, [(job, 2) for job in ids(size)])), [BY_ID], writes=False
    ),
    "ask to cancel": Case(lambda size: statements_of(DIALECT.ask(REQUEST_CANCEL, ids(size))), [BY_ID]),
    "lock jobs": Case(lambda size: statements_of(DIALECT.ask(LOCK_JOBS, ids(size))), [BY_ID]),
    "rerun": Case(
        lambda size: statements_of(rerun_locked(DIALECT, [Rerun(job, 5) for job in ids(size)], None), [], []),
        [BY_ID],
        position=2,
    ),
    "heartbeat": Case(lambda size: statements_of(DIALECT.ask(HEARTBEAT, None, LAST_ID, 2, None)), [BY_ID]),
    "owned by": Case(lambda size: statements_of(DIALECT.ask(OWNED_BY, "worker1", size)), ["rowcall_job_owned(worker)"]),
    "orphans": Case(
        lambda size: statements_of(DIALECT.ask(ORPHANS, size)),
        ["rowcall_job_owned()", *["rowcall_job_owned(worker)"] * 3],  # skip, of a lost worker, without a worker
    ),
    "lease expired": Case(
        lambda size: statements_of(DIALECT.ask(LEASE_EXPIRED, None, size)), ["rowcall_job_leased(lease_until)"]
    ),
    "retire if idle": Case(
        lambda size: statements_of(DIALECT.ask(REMOVE_IDLE_WORKER, "worker1")), ["rowcall_job_owned(worker)"]
    ),
    "seize": Case(lambda size: statements_of(DIALECT.ask(LOCK_WORKER, "worker1", 7)), []),
    "get": Case(lambda size: statements_of(DIALECT.ask(GET, LAST_ID)), [BY_ID], writes=False),
    "delete": Case(lambda size: statements_of(DIALECT.ask(DELETE, [LAST_ID])), [BY_ID]),
}


def plans(explainer: Explainer, case: Case, mode: Mode) -> Iterator[Node]:
    for size in SIZES:
        yield explainer.explain(case.make(size)[case.position], mode, writes=case.writes)


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_the_intended_index_is_taken_and_gives_the_order(explainer: Explainer, mode: Mode) -> None:
    for name, case in CASES.items():
        for plan in plans(explainer, case, mode):
            assert sorted(map(shown, reads(plan))) == sorted(case.expected), (name, plan)
            assert name == SEVERAL_TYPES or sorts(plan) == [], (name, plan)
            for access in accesses(plan, "rowcall_worker"):
                assert access.index_name == "rowcall_worker_pkey", (name, plan)


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_of_several_types_only_the_heads_are_sorted(explainer: Explainer, mode: Mode) -> None:
    for plan in plans(explainer, CASES[SEVERAL_TYPES], mode):
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
def test_a_survey_reads_running_and_held_jobs_alone(explainer: Explainer, mode: Mode) -> None:
    (survey,) = statements_of(DIALECT.ask(SURVEY, None))
    found = {shown(access) for access in accesses(explainer.explain(survey, mode, writes=False), TABLE)}
    assert found >= {"rowcall_job_owned()", "rowcall_job_owned(worker)", "rowcall_job_leased(lease_until)"}
    assert {name.partition("(")[0] for name in found} - HELD == {"rowcall_job_owned", "rowcall_job_leased"}


@pytest.mark.parametrize("url", ["full", "full, analyzed"], indirect=True)
def test_without_our_settings_looking_for_work_reads_no_more_of_a_full_table(url: str) -> None:
    """Behind a pooler: what a session sets there would be another one's next."""
    explainer = Explainer(url, planned=False)
    for name in ("find work", "peek"):
        (statement,) = CASES[name].make(1)
        plan = explainer.explain(statement, "custom", writes=False)
        assert sorted(map(shown, reads(plan))) == sorted(CASES[name].expected), plan
        assert sorts(plan) == []
    (survey,) = statements_of(DIALECT.ask(SURVEY, None))
    found = accesses(explainer.explain(survey, "custom", writes=False), TABLE)
    assert {access.index_name for access in found} - HELD == {"rowcall_job_owned", "rowcall_job_leased"}
    explainer.close()


def test_reads_of_a_process_have_the_same_settings_as_its_worker(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        for setting in _PLANNER:
            shown = Statement(f"select current_setting('{setting}')", (), lambda row: row)
            assert queue_of(jobs).run(Read(fetch(shown))) == [("off",)], setting


def test_a_scan_of_the_table_would_be_seen(explainer: Explainer) -> None:
    statement = Statement("select * from rowcall_job where lease = $1", (5,), lambda row: row)
    plan = explainer.explain(statement, "custom", writes=False)
    with pytest.raises(AssertionError):
        assert [shown(access) for access in accesses(plan, TABLE)] == [BY_ID]
    ordered = Statement("select * from rowcall_job order by priority", (), lambda row: row)
    assert sorts(explainer.explain(ordered, "custom", writes=False)) != []


def test_a_way_through_the_running_jobs_would_be_seen(url: str, explainer: Explainer) -> None:
    """Why settling names no status: its partial index is full of dead entries during a drain."""
    sql = "update rowcall_job set lease = lease + 1 where status = 'running' and lease = $1"
    plan = explainer.explain(Statement(sql, (2,), lambda row: row), "custom", writes=True)
    assert [shown(access) for access in accesses(plan, TABLE)] != [BY_ID]
