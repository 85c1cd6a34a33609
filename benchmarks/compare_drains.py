"""The drains of `benchmarks.compare`: how fast `rowcall work`, with its defaults, drains a backlog of one kind."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.draining import drain_rate
from benchmarks.workers import environment, report_of

CHUNK = 3_000
"""Backlogs are written in chunks of 1,000, of chains of three."""


class Drain(NamedTuple):
    kind: str
    jobs: int
    processes: int = 1
    queues: str = ""
    """The queues of the worker; all, if there is none."""


DRAINS = {
    "plain": Drain("plain", 90_000),
    "plain_of_two": Drain("plain", 90_000, processes=2),
    "results": Drain("results", 60_000),
    "keyed": Drain("keyed", 36_000),
    "limited": Drain("limited", 30_000),
    "ordered": Drain("ordered", 30_000),
    "fair": Drain("fair", 30_000),
    "batch_handlers": Drain("batch_handlers", 60_000),
    "chains": Drain("chains", 36_000),
    "steps": Drain("steps", 6_000),
    "plain_short": Drain("plain", 30_000),
    "one_attempt": Drain("one_attempt", 30_000),
    "batch": Drain("batch", 30_000),
    "queues": Drain("queues", 30_000),
    "queues_interleaved": Drain("queues_interleaved", 30_000),
    "queues_foreign": Drain("queues_foreign", 30_000, queues="default"),
}
"""As many jobs as drain in about a second."""

BASE = "plain_short"
OF_BASE = ("one_attempt", "batch", "queues", "queues_interleaved", "queues_foreign")
"""Drains that are also shown as a ratio to a plain one of as many jobs, of the same tree and round."""


def rate(name: str, tree: Path, bench: Bench, scale: float) -> float:
    """Write a backlog and drain it, both by the source in a tree. Return jobs per second."""
    drain = DRAINS[name]
    jobs = max(1, round(drain.jobs * scale / CHUNK)) * CHUNK
    with environment(PYTHONPATH=str(tree / "src")), bench.fresh_site() as site:
        ids = report_of("backlog", site.url, drain.kind, jobs)
        options = [f"--processes={drain.processes}"] if drain.processes > 1 else []
        options += [f"--queues={drain.queues}"] if drain.queues else []
        return drain_rate(site, range(int(ids["first"]), int(ids["last"]) + 1), options=options, flows=True)
