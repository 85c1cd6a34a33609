"""The cost of notifications for producers: eight processes enqueue one job at a time.

By plain SQL, where a trigger notifies, and by `enqueue`, which notifies after its commit. Both are compared with the
trigger switched off.
"""

from __future__ import annotations

from contextlib import closing, nullcontext
from typing import Literal, NamedTuple

from benchmarks.bench import Bench, Figures, Site
from benchmarks.database import connect
from benchmarks.fill import filling, make_queue
from benchmarks.stamping import started_worker
from benchmarks.workers import Ask, conversation

PRODUCERS = 8
TRIGGER = "rowcall_job_told"
TABLES = "rowcall_job, rowcall_attempt, rowcall_event, rowcall_job_tag"


class Case(NamedTuple):
    """`worker_of` is the queue that a worker next to them serves, `busy` that it has a backlog for all the time."""

    way: Literal["plain", "enqueue"]
    trigger: bool = True
    worker_of: str | None = None
    busy: bool = False


CASES = {
    "plain_trigger_off": Case("plain", trigger=False),
    "plain_no_worker": Case("plain"),
    "plain_elsewhere": Case("plain", worker_of="elsewhere"),
    "plain_served": Case("plain", worker_of="default"),
    "enqueue_trigger_off": Case("enqueue", trigger=False),
    "enqueue_no_worker": Case("enqueue"),
    "enqueue_elsewhere": Case("enqueue", worker_of="elsewhere"),
    "enqueue_served": Case("enqueue", worker_of="default"),
    "busy_trigger_off": Case("plain", trigger=False, worker_of="default", busy=True),
    "busy_plain": Case("plain", worker_of="default", busy=True),
}
COMPARED = {
    "plain_no_worker": "plain_trigger_off",
    "plain_elsewhere": "plain_trigger_off",
    "enqueue_no_worker": "enqueue_trigger_off",
    "enqueue_elsewhere": "enqueue_trigger_off",
    "busy_plain": "busy_trigger_off",
}


def measure(bench: Bench) -> Figures:
    figures: Figures = {}
    with bench.fresh_site() as site:
        make_queue(site.url)
        with conversation("producers", site.url, PRODUCERS, bench.sizes.producing_seconds) as ask:
            for name, case in CASES.items():
                found = _measure(bench, case, site, ask)
                figures |= {f"{name}_{figure}": value for figure, value in found.items()}
    for name, base in COMPARED.items():
        figures[f"{name}_ratio"] = figures[f"{name}_per_second"] / figures[f"{base}_per_second"]
    return figures


def _measure(bench: Bench, case: Case, site: Site, ask: Ask) -> Figures:
    with closing(connect(site.url)) as database:
        database.rows(f"alter table rowcall_job {'enable' if case.trigger else 'disable'} trigger {TRIGGER}")
        database.rows(f"truncate {TABLES} cascade")
    if case.busy:
        with filling(site.url, indexes_last=False) as fill:
            fill.waiting(bench.sizes.busy_backlog, "noop_async")
    with started_worker(site, queue=case.worker_of) if case.worker_of else nullcontext():
        return ask(case.way)
