"""Pages, counts and retention read no more than they have to, whatever else there is in the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from rowcall import Status
from rowcall.store.counts.queries import (
    ARRIVALS,
    ERROR_SPANS,
    FINISHED_GROUPS,
    NEWEST_ID,
    PAST,
    PRUNABLE,
    PRUNE,
    PRUNE_PAST,
    REMOVE_MINUTES,
    REMOVE_TALLIES,
    RUNNING,
    UNFINISHED,
    UNFINISHED_ATTEMPTS,
    Group,
)
from rowcall.store.dialect import Filter
from rowcall.store.jobs.pages import Source, sources_of
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.statement import Query, Statement
from tests.store.postgres.databases import FINISHED, PREFIX
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

DIALECT = PostgresDialect(PREFIX)
TABLE = "rowcall_job"
BY_ID = "rowcall_job_pkey(id)"
GROUP = Group(Status.FAILED, "mail", "type1")
LATER_MS = 10**13
MODES: Sequence[Mode] = ("custom", "generic")
INDEXES_OF_UNFINISHED = ("job_held", "job_scheduled", "job_blocked", "job_owned", "ready_pkey")
STATUSES = [None, Status.PENDING, Status.SCHEDULED, Status.RUNNING, Status.FAILED]


def plan_of(explainer: Explainer, statement: Statement[object], mode: Mode, *, writes: bool = False) -> Node:
    return explainer.explain(statement, mode, writes=writes)


def ways(plan: Node) -> list[str]:
    return sorted(shown(access) for access in reads(plan))


def hops(source: Source) -> Iterator[str]:
    """The first entry, the next groups, and the heads of each group."""
    index, columns = f"rowcall_{source.index_name or 'ready_pkey'}", ", ".join(source.columns)
    yield from (f"{index}()", f"{index}({columns})", f"{index}({columns}, {source.ordered})")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize(("queue", "kind"), [(None, None), ("mail", None), (None, "type1")])
def test_a_page_merges_the_heads_of_groups(
    explainer: Explainer, status: Status | None, queue: str | None, kind: str | None, mode: Mode
) -> None:
    wanted = Filter(status=status, queue=queue, type=kind, before_id=FINISHED)
    (page,) = statements_of(DIALECT.list_jobs(wanted))
    plan = plan_of(explainer, page, mode)
    if status is queue is kind is None:
        assert (ways(plan), sorts(plan)) == ([BY_ID], [])
        return
    expected = [way for source in sources_of(wanted) for way in hops(source)]
    if status in (None, Status.RUNNING):
        expected += ["rowcall_job_owned()", BY_ID]  # the second for jobs that are claimed together
    # which groups of finished jobs there are is in either of their indexes
    found = [way.replace("_aged(", "_finished(") for way in ways(plan)]
    assert Counter(found) == Counter([*expected, BY_ID]), plan
    for access in reads(plan):
        assert access.kind == "Index Only Scan" or access.index_name in ("rowcall_job_pkey", "rowcall_job_owned"), plan


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("status", [None, Status.FAILED])
@pytest.mark.parametrize(("queue", "kind"), [(None, None), ("mail", "type1")])
def test_a_page_of_a_tag_goes_back_along_the_tag(
    explainer: Explainer,
    status: Status | None,
    queue: str | None,
    kind: str | None,
    mode: Mode,
    request: pytest.FixtureRequest,
) -> None:
    (page,) = statements_of(DIALECT.list_jobs(Filter(status=status, queue=queue, type=kind, tag="tag3")))
    plan = plan_of(explainer, page, mode)
    (tagged,) = accesses(plan, "rowcall_job_tag")
    if status is not None and mode == "custom" and "new" in request.node.callspec.params.values():
        return  # of a table of which nothing is known yet, any index will do: such a plan is not kept
    assert tagged.index_name == ("rowcall_job_tag_pkey" if status is None else "rowcall_job_tag_status")
    assert tagged.condition.count("ROW(tag, job_id)" if status is None else "ROW(tag, status, job_id)") == 2
    assert (ways(plan), sorts(plan)) == ([BY_ID], [])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", [UNFINISHED, UNFINISHED_ATTEMPTS])
def test_what_waits_is_counted_in_its_indexes(
    explainer: Explainer, query: Query[object], mode: Mode, request: pytest.FixtureRequest
) -> None:
    (statement,) = statements_of(DIALECT.ask(query))
    plan = plan_of(explainer, statement, mode)
    if "full, analyzed" in request.node.callspec.params.values():
        return  # where no page is known to be visible to all, an index that holds all is no better than another
    # jobs that are claimed together are read by their ids
    assert ways(plan) == sorted([BY_ID, *(f"rowcall_{index}()" for index in INDEXES_OF_UNFINISHED)]), plan
    for access in accesses(plan, TABLE):
        assert access.kind == "Index Only Scan" or access.index_name in ("rowcall_job_pkey", "rowcall_job_owned"), plan


CASES = {
    "newest id": (DIALECT.ask(NEWEST_ID), ["rowcall_job_pkey()"], False),
    "arrivals": (DIALECT.ask(ARRIVALS, FINISHED, 1, 2), [BY_ID], False),
    "error spans": (DIALECT.ask(ERROR_SPANS, ["A:B", ""]), ["rowcall_job_failed()"] * 3, False),
    "prune": (
        DIALECT.change(PRUNE, *GROUP, LATER_MS, 100),
        # also of the jobs that wait for it, and of its chain
        ["rowcall_job_aged(status, queue, type, finished_at)", "rowcall_job_chain(chain_id)", BY_ID, BY_ID],
        True,
    ),
    "prunable": (
        DIALECT.ask(PRUNABLE, *GROUP, LATER_MS),
        ["rowcall_job_aged(status, queue, type)", "rowcall_job_aged(status, queue, type, finished_at)"],
        False,
    ),
}
STATEMENTS = {name: (statements_of(plan)[0], ways, writes) for name, (plan, ways, writes) in CASES.items()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", STATEMENTS)
def test_the_intended_index_is_taken(
    explainer: Explainer, name: str, mode: Mode, request: pytest.FixtureRequest
) -> None:
    if name == "prunable" and "few, analyzed" in request.node.callspec.params.values():
        return  # among three rows every way is as short, and after some thousands the server looks again
    statement, expected, writes = STATEMENTS[name]
    plan = plan_of(explainer, statement, mode, writes=writes)
    assert ways(plan) == sorted(expected), plan
    assert name == "arrivals" or sorts(plan) == []


@pytest.mark.parametrize("mode", MODES)
def test_of_an_error_code_only_the_ends_are_read(explainer: Explainer, mode: Mode) -> None:
    statement, _, _ = STATEMENTS["error spans"]
    plan = plan_of(explainer, statement, mode)
    for access in accesses(plan, TABLE):
        assert "given.code" in access.condition
    assert sum(node["Node Type"] == "Limit" for node in nodes_of(plan)) == 3


@pytest.mark.parametrize("mode", MODES)
def test_groups_of_finished_jobs_are_found_by_hopping(explainer: Explainer, mode: Mode) -> None:
    (statement,) = statements_of(DIALECT.ask(FINISHED_GROUPS))
    plan = plan_of(explainer, statement, mode)
    found = [way.replace("_aged(", "_finished(") for way in ways(plan)]
    assert found == ["rowcall_job_finished()", "rowcall_job_finished(status, queue, type)"]
    assert sorts(plan) == []


@pytest.mark.parametrize("mode", MODES)
def test_stuck_looks_at_running_jobs_alone(explainer: Explainer, mode: Mode) -> None:
    (statement,) = statements_of(DIALECT.ask(RUNNING, 20))
    plan = plan_of(explainer, statement, mode)
    assert ways(plan) == ["rowcall_job_owned()", BY_ID, BY_ID]


@pytest.mark.parametrize("mode", MODES)
def test_tallies_and_minutes_are_taken_in_their_order(explainer: Explainer, mode: Mode) -> None:
    (tallies,) = statements_of(DIALECT.ask(REMOVE_TALLIES, LATER_MS, 500))
    plan = plan_of(explainer, tallies, mode, writes=True)
    assert {access.index_name for access in accesses(plan, "rowcall_tally")} == {"rowcall_tally_pkey"}
    for query in (REMOVE_MINUTES, PRUNE_PAST):
        (statement,) = statements_of(DIALECT.ask(query, LATER_MS, 500))
        plan = plan_of(explainer, statement, mode, writes=True)
        indexes = sorted(access.index_name for access in accesses(plan, "rowcall_history"))
        assert indexes == ["rowcall_history_at", "rowcall_history_pkey"]
        assert sorts(plan) == []
    (past,) = statements_of(DIALECT.ask(PAST, LATER_MS, LATER_MS))
    (access,) = accesses(plan_of(explainer, past, mode), "rowcall_history")
    assert access.index_name == "rowcall_history_at"
