"""What stages, changes and shows jobs goes through its index. `test_claims` says on which tables."""

from __future__ import annotations

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.drivers.postgres.connection import _PLANNER
from rowcall.operations.effects import Read
from rowcall.store.control.single_actions import rerun_locked
from rowcall.store.jobs.inspect import get_all
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.control import LOCK_JOBS, Rerun
from rowcall.store.queries.jobs import DELETE, GET, STAGE
from rowcall.store.statement import Statement, fetch
from tests.store.postgres.databases import PREFIX
from tests.store.postgres.explaining import (
    BY_CLAIM,
    BY_ID,
    LAST_ID,
    Case,
    Explainer,
    Mode,
    accesses,
    check,
    running_ids,
    shown,
    sorts,
    statements_of,
)

DIALECT = PostgresDialect(PREFIX)
TABLE = "rowcall_job"

CASES = {
    "stage": Case(lambda size: statements_of(DIALECT.change(STAGE, size)), ["rowcall_job_due(run_at)", BY_ID]),
    "lock jobs": Case(lambda size: statements_of(DIALECT.ask(LOCK_JOBS, running_ids(size))), [BY_ID]),
    "rerun": Case(
        lambda size: statements_of(rerun_locked(DIALECT, [Rerun(job, 5) for job in running_ids(size)]), [], []),
        [BY_ID],
        position=2,
    ),
    "get": Case(lambda size: statements_of(DIALECT.ask(GET, LAST_ID)), [BY_ID, BY_CLAIM], writes=False),
    "get all": Case(lambda size: statements_of(get_all(DIALECT, running_ids(size))), [BY_ID, BY_CLAIM], writes=False),
    "delete": Case(lambda size: statements_of(DIALECT.ask(DELETE, [LAST_ID])), [BY_ID]),
}


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_the_intended_index_is_taken_and_gives_the_order(explainer: Explainer, mode: Mode) -> None:
    check(explainer, CASES, mode)


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
