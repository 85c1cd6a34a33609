"""What needs attention is found by indexes, however many jobs there are."""

from __future__ import annotations

from typing import get_args

import pytest

from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries import attention as queries
from rowcall.store.queries.counts import OLDEST_FINISHED
from tests.store.postgres.explaining import Explainer, Mode, accesses, shown, statements_of

LATER_MS = 1_900_000_000_000
DIALECT = PostgresDialect("rowcall_")
# each plan, and the indexes of jobs and ready jobs that it may go through
CASES = {
    "ready_backlogs": (
        DIALECT.ask(queries.READY_BACKLOGS, [("mail", "type1")], 100),
        {"rowcall_ready_pkey(queue, type)"},
    ),
    "first_ready": (DIALECT.ask(queries.FIRST_READY, "mail", "type1", 3), {"rowcall_ready_pkey(queue, type)"}),
    "overdue": (DIALECT.ask(queries.OVERDUE, LATER_MS, 100), {"rowcall_job_due(run_at)"}),
    "first_overdue": (DIALECT.ask(queries.FIRST_OVERDUE, LATER_MS, 3), {"rowcall_job_due(run_at)"}),
    "overdue_jobs": (DIALECT.ask(queries.OVERDUE_JOBS, LATER_MS, 100), {"rowcall_job_due(run_at)"}),
    "first_in_turn": (
        DIALECT.ask(queries.FIRST_IN_TURN, "mail", ["type1", "type2"]),
        {"rowcall_ready_pkey(queue, type)"},
    ),
    "first_held_of_group": (
        DIALECT.ask(queries.FIRST_HELD_OF_GROUP, "mail", "type1"),
        {"rowcall_job_held(queue, type)"},
    ),
    # hops to each value of `held`, and the first jobs of each
    "held_backlogs": (
        DIALECT.ask(queries.HELD_BACKLOGS, 500, 100_000),
        {"rowcall_job_held_by(held)"},
    ),
    "long_attempts": (DIALECT.ask(queries.LONG_ATTEMPTS, LATER_MS, 100), {"rowcall_job_pkey(id)"}),
    "queues_by_hand": (DIALECT.ask(queries.QUEUES_BY_HAND, LATER_MS), {"rowcall_job_pkey(id)"}),
    "failed_since": (
        DIALECT.ask(queries.FAILED_SINCE, "A:B", LATER_MS, 100),
        {"rowcall_job_failed(error_code, finished_at)"},
    ),
    "newest_with_error": (
        DIALECT.ask(queries.NEWEST_WITH_ERROR, "failed", "A:B", "type1", 3),
        {"rowcall_job_error(status, error_code, type)"},
    ),
    "newest_created": (DIALECT.ask(queries.NEWEST_CREATED), {"rowcall_job_pkey()"}),
    # groups are found by hops through one of two indexes
    "oldest_finished": (
        DIALECT.ask(OLDEST_FINISHED),
        {"rowcall_job_finished()", "rowcall_job_aged()", "rowcall_job_aged(status, queue, type)"},
    ),
}
STATEMENTS = {name: (statements_of(plan)[0], ways) for name, (plan, ways) in CASES.items()}


@pytest.mark.parametrize("mode", get_args(Mode))
def test_the_intended_index_is_taken(explainer: Explainer, mode: Mode, request: pytest.FixtureRequest) -> None:
    if "full" not in str(request.node.callspec.params.values()):
        return  # among a few rows every way is as short
    for name, (statement, expected) in STATEMENTS.items():
        plan = explainer.explain(statement, mode, writes=False)
        ways = {shown(one) for table in ("rowcall_job", "rowcall_ready") for one in accesses(plan, table)}
        assert ways
        assert ways <= expected, (name, plan)
