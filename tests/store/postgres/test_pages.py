"""Pages, counts and retention read no more than they have to, whatever else there is in the table."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import psycopg
import pytest

from rowcall import Rowcall, Status
from rowcall.store.dialect import Filter, Order, Span
from rowcall.store.jobs import pages
from rowcall.store.jobs.pages import Source, sources_of
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.counts import (
    ARRIVALS,
    DURATIONS,
    DURATIONS_BY_PERIOD,
    ENDED,
    ENDED_BY_ERROR,
    ENDED_BY_GROUP,
    ENDED_BY_PERIOD,
    ERROR_SPANS,
    FINISHED_GROUPS,
    FIRST_SHORTER,
    NEWEST_ID,
    PRUNABLE,
    PRUNE,
    PRUNE_PAST,
    REMOVE_SHORTER,
    REMOVE_TALLIES,
    RUNNING,
    SAMPLES_BY_PERIOD,
    UNFINISHED,
    UNFINISHED_ATTEMPTS,
    WAITING_ERRORS,
    WAITING_GROUPS,
    WAITING_PARTS,
    Group,
)
from rowcall.store.statement import Query, Statement
from tests.store.filters import ALONE
from tests.store.postgres.databases import FINISHED, PREFIX
from tests.store.postgres.explaining import (
    ALL_CLAIMS,
    BY_CLAIM,
    BY_ID,
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
GROUP = Group(Status.FAILED, "mail", "type1")
LATER_MS = 10**13
MODES: Sequence[Mode] = ("custom", "generic")
INDEXES_OF_WAITING = ("job_held()", "job_waiting(status)", "ready_pkey()")
# All claims. The queue and the type are in the jobs' rows, and plain SQL may call a job running that has no claim.
READ_OF_RUNNING = ["rowcall_claim", BY_ID, BY_ID, BY_ID, "rowcall_job_waiting(status)", BY_CLAIM]
NEWEST, OLDEST = Order(), Order(newest_first=False)
STATUSES = [None, (Status.PENDING,), (Status.RUNNING,), (Status.SCHEDULED, Status.FAILED)]


def plan_of(explainer: Explainer, statement: Statement[object], mode: Mode, *, writes: bool = False) -> Node:
    return explainer.explain(statement, mode, writes=writes)


def ways(plan: Node) -> list[str]:
    return sorted(shown(access) for access in reads(plan))


def page_of(wanted: Filter, order: Order) -> Statement[object]:
    high = (10**16, FINISHED) if order.by_end else (FINISHED,)
    (statement,) = statements_of(DIALECT.places(wanted, order, Span((0,) * len(high), high), 51, by_payload=False))
    return statement


def hops(source: Source) -> Iterator[str]:
    """The first entry, the next groups, and the heads of each group."""
    index, columns = f"rowcall_{source.index_name or 'ready_pkey'}", ", ".join(source.columns)
    equal = "status" if source.index_name == "job_waiting" else ""
    for found in ("", columns, f"{columns}, {source.place[0]}"):
        yield f"{index}({', '.join(filter(None, (equal, found)))})"


@pytest.mark.parametrize("mode", MODES)
def test_a_page_merges_the_heads_of_groups(explainer: Explainer, mode: Mode) -> None:
    groups = [(None, None), ("mail", "type1")]
    for order, statuses, (queue, kind) in itertools.product((NEWEST, OLDEST), STATUSES, groups):
        wanted = Filter(statuses=statuses, queue=queue, type=kind)
        plan = plan_of(explainer, page_of(wanted, order), mode)
        if statuses is None and queue is None:
            assert (ways(plan), sorts(plan)) == ([BY_ID], []), order
            continue
        sources = sources_of(wanted, order)
        expected = [way for source in sources.hopped for way in hops(source)]
        if sources.running:
            expected += [BY_CLAIM, "rowcall_job_waiting(status)"]  # the second for jobs that plain SQL calls running
            expected += [] if queue is None else [BY_ID]  # of each claim, until there are enough
        # which groups of finished jobs there are is in either of their indexes
        found = [way.replace("_aged(", "_finished(") for way in ways(plan)]
        assert Counter(found) == Counter(expected), (wanted, order, plan)
        others = [shown(access) for access in reads(plan) if access.kind != "Index Only Scan"]
        assert set(others) <= {BY_CLAIM, BY_ID, "rowcall_job_waiting(status)"}, (wanted, order, plan)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("wanted", "by_end"),
    [
        (Filter(error_code="A:B"), False),
        (Filter(error_code="A:*", statuses=(Status.FAILED,)), False),
        (Filter(finished_after_ms=1), True),
        (Filter(finished_after_ms=1, statuses=(Status.FAILED,), queue="mail"), True),
    ],
)
def test_a_page_of_an_error_or_by_the_end_merges_the_heads_of_groups(
    explainer: Explainer, wanted: Filter, by_end: bool, mode: Mode, request: pytest.FixtureRequest
) -> None:
    if by_end and not any(str(state).startswith("full") for state in request.node.callspec.params.values()):
        return  # among so few rows every way is as short, and after some thousands the server looks again
    for newest_first in (True, False):
        order = Order(newest_first, by_end)
        plan = plan_of(explainer, page_of(wanted, order), mode)
        (source,) = sources_of(wanted, order).hopped
        found = ways(plan)
        if by_end:  # which groups there are is in either index of finished jobs
            found = sorted(way.replace("_finished(", "_aged(") for way in found)
        assert found == sorted(hops(source)), (order, plan)


@pytest.mark.parametrize("mode", MODES)
def test_a_page_of_a_tag_goes_along_the_tag(explainer: Explainer, mode: Mode, request: pytest.FixtureRequest) -> None:
    for order, statuses in itertools.product((NEWEST, OLDEST), (None, (Status.FAILED,))):
        plan = plan_of(explainer, page_of(Filter(statuses=statuses, tag="tag3"), order), mode)
        (tagged,) = accesses(plan, "rowcall_job_tag")
        if statuses is not None and mode == "custom" and "new" in request.node.callspec.params.values():
            continue  # of a table of which nothing is known yet, any index will do: such a plan is not kept
        assert tagged.index_name == ("rowcall_job_tag_pkey" if statuses is None else "rowcall_job_tag_status"), order
        assert tagged.condition.count("ROW(tag, job_id)" if statuses is None else "ROW(status, job_id)") == 2, order
        assert sorts(plan) == [], order


@pytest.mark.parametrize("mode", MODES)
def test_a_page_of_running_jobs_asks_each_claim_for_its_tag(explainer: Explainer, mode: Mode) -> None:
    for order in (NEWEST, OLDEST):
        page = page_of(Filter(statuses=(Status.RUNNING,), tag="tag3", worker="w"), order)
        in_jobs = {"rowcall_job_waiting(status)", BY_ID, BY_CLAIM}
        found = [way for way in ways(plan_of(explainer, page, mode)) if "job_tag" not in way]
        assert found == sorted(in_jobs), order


@pytest.mark.parametrize("mode", MODES)
def test_a_page_of_a_key_or_a_chain_goes_along_its_index(explainer: Explainer, mode: Mode) -> None:
    for order in (NEWEST, OLDEST):
        by_key = page_of(Filter(type="type1", key="key"), order)
        assert ways(plan_of(explainer, by_key, mode)) == ["rowcall_job_key(type, key, id)"], order
        by_chain = page_of(Filter(chain_id=7), order)
        assert ways(plan_of(explainer, by_chain, mode)) == ["rowcall_job_chain(chain_id)"], order


def test_jobs_of_a_page_are_read_by_id(explainer: Explainer) -> None:
    for wanted in ALONE:
        (statement,) = statements_of(DIALECT.matching(wanted, list(range(1, 52))))
        assert ways(plan_of(explainer, statement, "custom")) == [BY_CLAIM, BY_ID], wanted


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", [UNFINISHED, UNFINISHED_ATTEMPTS])
def test_what_waits_is_counted_in_its_indexes(
    explainer: Explainer, query: Query[object], mode: Mode, request: pytest.FixtureRequest
) -> None:
    (statement,) = statements_of(DIALECT.ask(query))
    plan = plan_of(explainer, statement, mode)
    if "full, analyzed" in request.node.callspec.params.values():
        return  # where no page is known to be visible to all, an index that holds all is no better than another
    assert ways(plan) == sorted([*READ_OF_RUNNING, *(f"rowcall_{index}" for index in INDEXES_OF_WAITING)]), plan
    for access in accesses(plan, TABLE):
        assert access.kind == "Index Only Scan" or shown(access) in READ_OF_RUNNING, plan


@pytest.mark.parametrize("mode", MODES)
def test_a_part_of_what_waits_is_counted_in_its_index(explainer: Explainer, mode: Mode) -> None:
    for waiting, index in zip(WAITING_PARTS, ("ready_pkey", "job_held", "job_waiting", "job_waiting"), strict=True):
        group = ("mail", "type1")
        for asked in (
            DIALECT.ask(waiting.next_group, *group),
            DIALECT.ask(waiting.part, *group, *waiting.first, 1000),
            DIALECT.ask(waiting.last_place, *group, *waiting.first, 999),
        ):
            (statement,) = statements_of(asked)
            plan = plan_of(explainer, statement, mode)
            assert [way.partition("(")[0] for way in ways(plan)] == [f"rowcall_{index}"], (statement.sql, plan)


CASES = {
    "newest id": (DIALECT.ask(NEWEST_ID), ["rowcall_job_pkey()"], False),
    "arrivals": (DIALECT.ask(ARRIVALS, FINISHED, 1, 2), [BY_ID], False),
    "error spans": (DIALECT.ask(ERROR_SPANS, ["A:B", ""]), ["rowcall_job_failed(error_code)"] * 4, False),
    "waiting groups": (
        DIALECT.ask(WAITING_GROUPS),
        ["rowcall_job_error()", "rowcall_job_error(status, error_code, type)"],
        False,
    ),
    "waiting errors": (
        DIALECT.ask(WAITING_ERRORS, "scheduled", "A:B", "type1", 1000),
        ["rowcall_job_error(status, error_code, type)", BY_CLAIM],
        False,
    ),
    "prune": (
        DIALECT.change(PRUNE, *GROUP, LATER_MS, 100),
        # also of the jobs that wait for it, of its chain, and of its parent
        ["rowcall_job_aged(status, queue, type, finished_at)", "rowcall_job_chain(chain_id)", BY_ID, BY_ID, BY_ID],
        True,
    ),
    "prunable": (
        DIALECT.ask(PRUNABLE, *GROUP, LATER_MS, 1000),
        ["rowcall_job_aged(status, queue, type)", "rowcall_job_aged(status, queue, type, finished_at)"],
        False,
    ),
}
STATEMENTS = {name: (statements_of(plan)[0], ways, writes) for name, (plan, ways, writes) in CASES.items()}


@pytest.mark.parametrize("mode", MODES)
def test_the_intended_index_is_taken(explainer: Explainer, mode: Mode, request: pytest.FixtureRequest) -> None:
    for name, (statement, expected, writes) in STATEMENTS.items():
        if name == "prunable" and "few, analyzed" in request.node.callspec.params.values():
            continue  # among three rows every way is as short, and after some thousands the server looks again
        plan = plan_of(explainer, statement, mode, writes=writes)
        assert ways(plan) == sorted(expected), (name, plan)
        assert name == "arrivals" or sorts(plan) == [], (name, plan)


@pytest.mark.parametrize("mode", MODES)
def test_of_an_error_code_only_the_ends_are_read(explainer: Explainer, mode: Mode) -> None:
    statement, _, _ = STATEMENTS["error spans"]
    plan = plan_of(explainer, statement, mode)
    for access in accesses(plan, TABLE):
        assert "given.code" in access.condition
    assert sum(node["Node Type"] == "Limit" for node in nodes_of(plan)) == 4


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
    assert ways(plan) == sorted([ALL_CLAIMS, BY_ID, BY_CLAIM])


@pytest.mark.parametrize("mode", MODES)
def test_tallies_and_history_are_read_in_their_order(explainer: Explainer, mode: Mode) -> None:
    (tallies,) = statements_of(DIALECT.ask(REMOVE_TALLIES, LATER_MS, 500))
    plan = plan_of(explainer, tallies, mode, writes=True)
    assert {access.index_name for access in accesses(plan, "rowcall_tally")} == {"rowcall_tally_pkey"}
    by_time, by_id = "rowcall_history_at", "rowcall_history_pkey"
    for asked, indexes, writes in (
        (DIALECT.ask(PRUNE_PAST, LATER_MS, 500), [by_time, by_id], True),
        (DIALECT.ask(REMOVE_SHORTER, LATER_MS, LATER_MS, 60_000, 500), [by_time, by_id], True),
        (DIALECT.ask(FIRST_SHORTER, LATER_MS, 60_000), [by_time], False),
        *((DIALECT.ask(query, LATER_MS, LATER_MS), [by_time], False) for query in (ENDED, ENDED_BY_ERROR, DURATIONS)),
        (DIALECT.ask(ENDED_BY_GROUP, LATER_MS, LATER_MS, 60_000), [by_time], False),
        *(
            (DIALECT.ask(query, LATER_MS, LATER_MS, 60_000, "mail", ""), [by_time], False)
            for query in (ENDED_BY_PERIOD, DURATIONS_BY_PERIOD, SAMPLES_BY_PERIOD)
        ),
    ):
        (statement,) = statements_of(asked)
        found = accesses(plan_of(explainer, statement, mode, writes=writes), "rowcall_history")
        assert sorted(access.index_name for access in found) == indexes, statement.sql


def test_an_index_of_payloads_is_found_and_used(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOOK_AT_MOST", 20)
    monkeypatch.setattr(pages, "LARGEST_CHUNK", 10)
    with Rowcall(postgres_url) as jobs, psycopg.connect(postgres_url, autocommit=True) as plain:
        rare = jobs.enqueue("send", {"customer": 7})
        for number in range(30):
            jobs.enqueue("send", {"customer": number % 3})
        page = jobs.list(payload={"customer": 7}, limit=5)
        assert (page.jobs, page.partial) == ([], True)
        plain.execute("create index concurrently on rowcall_job using gin (payload jsonb_path_ops)")
        orders: list[Literal["newest", "oldest"]] = ["newest", "oldest"]
        for order in orders:
            page = jobs.list(payload={"customer": 7}, limit=5, order=order)
            assert ([job.id for job in page.jobs], page.partial, page.next_cursor) == ([rare.id], False, None)
        assert jobs.cancel(payload={"customer": 7}) == 1
