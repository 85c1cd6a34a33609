from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

from rowcall import BlockedBy, Chain, Dependent, Job, Status
from rowcall.http.pages.graph import MOST_IN_COLUMN, flow_graph

AT = datetime(2026, 1, 2, tzinfo=UTC)


def job(number: int, kind: str = "greet") -> Job:
    return Job(id=number, type=kind, queue="mail", payload={}, status=Status.RUNNING, run_at=AT, created_at=AT)


def texts(graph: str) -> list[str]:
    return [str(found.text) for found in ElementTree.fromstring(graph).iter("text")]


def test_a_job_alone_has_no_picture() -> None:
    assert flow_graph(job(1), None, [], [], "") is None


def test_blockers_lead_to_the_job_and_on() -> None:
    blockers = [BlockedBy(id=number, is_chain=number == 2, status=None, open=True) for number in (1, 2)]
    dependents = [Dependent(id=9, type="<b>", queue="q", status=Status.BLOCKED, of_chain=False, open=True)]
    graph = flow_graph(job(5), None, blockers, dependents, "/ops")
    assert graph is not None
    assert texts(graph) == ["job 1", "chain 2", "greet", "<b> 9"]
    assert graph.count('class="edge"') == 3
    assert 'href="/ops/jobs/9"' in graph


def test_long_chains_and_many_blockers_are_shortened() -> None:
    steps = [job(number, f"step{number}") for number in range(100)]
    chain = Chain(
        id=1, type="a", queue="q", status=Status.RUNNING, length=100, current=50, created_at=AT, steps=tuple(steps)
    )
    blockers = [BlockedBy(id=number, is_chain=False, status=None, open=True) for number in range(50)]
    graph = flow_graph(steps[50], chain, blockers, [], "")
    assert graph is not None
    shown = texts(graph)
    assert shown[MOST_IN_COLUMN] == f"{50 - MOST_IN_COLUMN} more blockers"
    assert shown[-9:] == ["47 earlier", *(f"step{number}" for number in range(47, 54)), "46 later"]
