"""A job among others, as inline SVG: its blockers, the steps of its chain, and its dependents, from top to bottom.

One box per line, so that a narrow screen has room for all of it. Lines between boxes that are not neighbours pass on
the right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from markupsafe import Markup

from rowcall.domain.job import BlockedBy, Chain, Dependent, Job

WIDTH, HEIGHT, ROW = 232, 34, 52
RAIL, BEND = 12, 8  # how far lines on the right are from the boxes, and the radius of their corners
MOST_IN_GROUP, STEPS_AROUND, LONGEST_LABEL = 12, 3, 26
NO_TASKS: Mapping[int, str] = MappingProxyType({})
_BOX = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
_ICON = '<use class="icon" href="#i-{}" x="10" y="10" width="14" height="14"/>'


class GraphNode(NamedTuple):
    label: str
    status: str = "deleted"
    job_id: int | None = None
    """The job that it links to. A node without one counts the others."""
    here: bool = False


def flow_graph(
    job: Job,
    chain: Chain | None,
    blockers: Sequence[BlockedBy],
    dependents: Sequence[Dependent],
    base: str,
    tasks: Mapping[int, str] = NO_TASKS,
) -> Markup | None:
    """Return the picture, or None if the job stands alone. `tasks` has those of blockers, as far as they are known."""
    if chain is None and not blockers and not dependents:
        return None
    own = {step.id for step in (chain.steps if chain else ())}  # the steps of a chain wait for each other
    waits_for = _group(
        [
            GraphNode(f"{_kind(one, tasks)} {one.id}", one.status or "deleted", one.id)
            for one in blockers
            if one.is_chain or one.id not in own
        ],
        "blockers",
    )
    steps = _steps(job, chain)
    this = next(step for step in steps if step.here)
    waited_by = _group(
        [GraphNode(f"{one.type} {one.id}", one.status, one.id) for one in dependents if one.id not in own], "dependents"
    )
    chained = {one.id for one in dependents if one.of_chain}
    edges = [
        *((one, this, len(waits_for)) for one in waits_for),
        *((one, other, 1) for one, other in pairwise(steps)),
        *((steps[-1] if one.job_id in chained else this, one, len(waited_by)) for one in waited_by),
    ]
    nodes = [*waits_for, *steps, *waited_by]
    tops = {node: row * ROW for row, node in enumerate(nodes)}
    parts = [
        _arrow(tops[one]) if similar == 1 and tops[other] - tops[one] == ROW else _rail(tops[one], tops[other])
        for one, other, similar in edges
    ]
    parts += [_node(node, y, base) for node, y in tops.items()]
    width, height = WIDTH + RAIL + 3, (len(nodes) - 1) * ROW + HEIGHT + 2
    size = Markup('width="{0}" height="{1}" viewBox="-1 -1 {0} {1}"').format(width, height)
    return Markup('<svg class="graph" {} role="group" aria-label="Flow">{}</svg>').format(size, Markup("").join(parts))


def _group(nodes: list[GraphNode], which: str) -> list[GraphNode]:
    more = len(nodes) - MOST_IN_GROUP
    return nodes if more <= 0 else [*nodes[:MOST_IN_GROUP], GraphNode(f"{more:,} more {which}")]


def _kind(blocker: BlockedBy, tasks: Mapping[int, str]) -> str:
    return "chain" if blocker.is_chain else tasks.get(blocker.id, "job")


def _steps(job: Job, chain: Chain | None) -> list[GraphNode]:
    """Return the steps around this one; a chain may be long."""
    nodes = [
        GraphNode(step.type, step.status, step.id, here=step.id == job.id) for step in (chain.steps if chain else ())
    ]
    at = next((number for number, step in enumerate(nodes) if step.here), None)
    if at is None:
        return [GraphNode(job.type, job.status, job.id, here=True)]
    first, last = max(at - STEPS_AROUND, 0), at + STEPS_AROUND + 1
    before = [GraphNode(f"{first:,} earlier")] if first else []
    after = [GraphNode(f"{len(nodes) - last:,} later")] if last < len(nodes) else []
    return [*before, *nodes[first:last], *after]


def _node(node: GraphNode, y: int, base: str) -> Markup:
    label = node.label if len(node.label) <= LONGEST_LABEL else f"{node.label[: LONGEST_LABEL - 1]}…"
    inner = Markup(f'{_BOX}{_ICON}<text x="32" y="22">{{}}</text><title>{{}}</title>').format(
        node.status, label, f"{node.label}: {node.status}" if node.job_id else node.label
    )
    kind = Markup('class="node {}{}" transform="translate(0 {})"').format(node.status, " here" if node.here else "", y)
    if node.job_id is None:
        return Markup("<g {}>{}</g>").format(kind, inner)
    return Markup('<a {} href="{}/jobs/{}">{}</a>').format(kind, base, node.job_id, inner)


def _arrow(y: int) -> Markup:
    """Draw a line to the box below."""
    return Markup('<path class="edge" d="M{0} {1}V{2}"/><path class="tip" d="M{0} {2}l-4 -1 4 8 4 -8z"/>').format(
        WIDTH / 2, y + HEIGHT, y + ROW - 7
    )


def _rail(y: int, to_y: int) -> Markup:
    """Draw a line past the boxes between. It leaves in the lower half of a box, and arrives in the upper half."""
    start, end, side = y + HEIGHT * 2 // 3, to_y + HEIGHT // 3, RAIL - BEND
    line = Markup('<path class="edge" d="M{} {}h{side}q{bend} 0 {bend} {bend}V{}q0 {bend} -{bend} {bend}H{}"/>').format(
        WIDTH, start, end - BEND, WIDTH + 7, side=side, bend=BEND
    )
    return line + Markup('<path class="tip" d="M{} {}l1 -4 -8 4 8 4z"/>').format(WIDTH + 7, end)
