"""Turns of fair jobs. A trigger sets the turn of a job that becomes ready; a claim records how far the turns have come.

A job comes one turn after the last waiting job of its value (`FAIR_TURN` in `rowcall.store.schema`), and one turn after
the job that was claimed last. So the first waiting jobs of all values have the same turn, and are claimed in the order
of their ids. A value that was idle joins the next turn, and cannot overtake jobs that wait for that turn already.
"""

from __future__ import annotations

from collections.abc import Iterable

from rowcall.store.dialect import Dialect
from rowcall.store.queries.claims import Ready
from rowcall.store.queries.order import SERVE
from rowcall.store.schema import HIGHEST_TURN
from rowcall.store.statement import Plan

OF_QUEUE = "[null,"
"""The prefix of the key of jobs that take turns with all jobs of their queue."""


def serve(dialect: Dialect, claimed: Iterable[Ready]) -> Plan[None]:
    """Record the turns of jobs that were just claimed."""
    turns: dict[tuple[str, str, int], int] = {}
    for job in claimed:
        turn = job.turn or 0
        place = job.queue, "" if (job.fair or "").startswith(OF_QUEUE) else job.type, ~job.priority
        if place not in turns or turn > turns[place]:
            turns[place] = min(turn, HIGHEST_TURN)
    # in one order, so that two claims cannot deadlock
    yield from dialect.ask(SERVE, [(*place, turn) for place, turn in sorted(turns.items())])
