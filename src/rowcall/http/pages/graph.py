"""A job among others, as inline SVG: its blockers, the steps of its chain, and its dependents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from rowcall.domain.job import BlockedBy, Chain, Dependent, Job

WIDTH, HEIGHT, GAP, ROW = 180, 34, 46, 44
MOST_IN_COLUMN, STEPS_AROUND, LONGEST_LABEL = 12, 3, 20
_BOX = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
_ICON = '<use class="icon" href="#i-{}" x="10" y="10" width="14" height="14"/>'


class Node(NamedTuple):
    label: str
    status: str = "deleted"
    job_id: int | None = None
    """The job that it links to. A node without one counts the others."""
    here: bool = False


Edge = tuple[Node, Node]


def flow_graph(
    job: Job, chain: Chain | None, blockers: Sequence[BlockedBy], dependents: Sequence[Dependent], base: str
) -> Markup | None:
    """Return the picture, or None if the job stands alone."""
    if chain is None and not blockers and not dependents:
        return None
    waits_for = _column(
        [Node(f"{'chain' if one.is_chain else 'job'} {one.id}", one.status or "deleted", one.id) for one in blockers],
        "blockers",
    )
    steps = _steps(job, chain)
    this = next(step for step in steps if step.here)
    waited_by = _column([Node(f"{one.type} {one.id}", one.status, one.id) for one in dependents], "dependents")
    chained = {one.id for one in dependents if one.of_chain}
    edges = [
        *((one, this) for one in waits_for),
        *pairwise(steps),
        *((steps[-1] if one.job_id in chained else this, one) for one in waited_by),
    ]
    return _drawn([column for column in (waits_for, *([step] for step in steps), waited_by) if column], edges, base)


def _column(nodes: list[Node], which: str) -> list[Node]:
    more = len(nodes) - MOST_IN_COLUMN
    return nodes if more <= 0 else [*nodes[:MOST_IN_COLUMN], Node(f"{more:,} more {which}")]


def _steps(job: Job, chain: Chain | None) -> list[Node]:
    """Return the steps around this one; a chain may be long."""
    found = [Node(step.type, step.status, step.id, here=step.id == job.id) for step in (chain.steps if chain else ())]
    at = next((number for number, step in enumerate(found) if step.here), None)
    if at is None:
        return [Node(job.type, job.status, job.id, here=True)]
    first, last = max(at - STEPS_AROUND, 0), at + STEPS_AROUND + 1
    before = [Node(f"{first:,} earlier")] if first else []
    after = [Node(f"{len(found) - last:,} later")] if last < len(found) else []
    return [*before, *found[first:last], *after]


def _drawn(columns: Sequence[Sequence[Node]], edges: Sequence[Edge], base: str) -> Markup:
    rows = max(len(column) for column in columns)
    width, height = len(columns) * (WIDTH + GAP) - GAP, rows * ROW
    places = {
        node: (x * (WIDTH + GAP), (rows - len(column)) * ROW / 2 + y * ROW + (ROW - HEIGHT) / 2)
        for x, column in enumerate(columns)
        for y, node in enumerate(column)
    }
    parts = [_edge(places[one], places[other]) for one, other in edges]
    parts += [_node(node, *place, base) for node, place in places.items()]
    size = Markup('width="{}" height="{}" viewBox="-1 -1 {} {}"').format(width + 2, height + 2, width + 2, height + 2)
    return Markup('<svg class="graph" {} role="group" aria-label="Flow">{}</svg>').format(size, Markup("").join(parts))


def _node(node: Node, x: float, y: float, base: str) -> Markup:
    label = node.label if len(node.label) <= LONGEST_LABEL else f"{node.label[: LONGEST_LABEL - 1]}…"
    inner = Markup(f'{_BOX}{_ICON}<text x="32" y="22">{{}}</text><title>{{}}</title>').format(
        node.status, label, f"{node.label}: {node.status}" if node.job_id else node.label
    )
    kind = Markup('class="node {}{}" transform="translate({} {})"').format(
        node.status, " here" if node.here else "", x, y
    )
    if node.job_id is None:
        return Markup("<g {}>{}</g>").format(kind, inner)
    return Markup('<a {} href="{}/jobs/{}">{}</a>').format(kind, base, node.job_id, inner)


def _edge(start: tuple[float, float], end: tuple[float, float]) -> Markup:
    x, y, to_x, to_y = start[0] + WIDTH, start[1] + HEIGHT / 2, end[0] - 7, end[1] + HEIGHT / 2
    middle = (x + to_x) / 2
    line = Markup('<path class="edge" d="M{} {}C{} {} {} {} {} {}"/>').format(x, y, middle, y, middle, to_y, to_x, to_y)
    tip = Markup('<path class="tip" d="M{} {}l-1 -4 8 4 -8 4z"/>').format(to_x, to_y)
    return line + tip
