from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

from rowcall import BlockedBy, Chain, Dependent, Job, Status
from rowcall.http.pages.graph import MOST_IN_GROUP, WIDTH, flow_graph

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


def chain_of(*steps: Job) -> Chain:
    return Chain(
        id=1, type="a", queue="q", status=Status.RUNNING, length=len(steps), current=1, created_at=AT, steps=steps
    )


def test_steps_of_the_chain_are_drawn_once() -> None:
    """Each step of `start_chain` waits for the one before: these are edges between steps, not more boxes."""
    steps = [job(number, f"step{number}") for number in (1, 2, 3)]
    blockers = [BlockedBy(id=number, is_chain=False, status=None, open=False) for number in (1, 7)]
    dependents = [
        Dependent(id=number, type="next", queue="q", status=Status.BLOCKED, of_chain=number == 9, open=True)
        for number in (3, 9)
    ]
    graph = flow_graph(steps[1], chain_of(*steps), blockers, dependents, "")
    assert graph is not None
    assert texts(graph) == ["job 7", "step1", "step2", "step3", "next 9"]
    assert graph.count('class="edge"') == 4


def test_every_box_is_inside_the_picture() -> None:
    steps = [job(number, f"step{number}") for number in range(6)]
    graph = flow_graph(steps[3], chain_of(*steps), [], [], "")
    assert graph is not None
    picture = ElementTree.fromstring(graph)
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    boxes = [place.attrib["transform"] for place in picture.iter("a")]
    assert len(boxes) == 6
    assert WIDTH < width < 300  # of a phone
    assert max(float(place.split()[1].rstrip(")")) for place in boxes) + 34 < height


def test_long_chains_and_many_blockers_are_shortened() -> None:
    steps = [job(number, f"step{number}") for number in range(100)]
    blockers = [BlockedBy(id=number, is_chain=False, status=None, open=True) for number in range(200, 250)]
    graph = flow_graph(steps[50], chain_of(*steps), blockers, [], "")
    assert graph is not None
    shown = texts(graph)
    assert shown[MOST_IN_GROUP] == f"{50 - MOST_IN_GROUP} more blockers"
    assert shown[-9:] == ["47 earlier", *(f"step{number}" for number in range(47, 54)), "46 later"]
