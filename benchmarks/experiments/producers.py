"""What it costs those who enqueue that idle workers are told: eight processes at once, each a job at a time.

By plain SQL, where a trigger tells, and by `enqueue`, which tells after its commit; with the trigger switched off, with
nobody to tell, with an idle worker of another queue, which is told of every job in vain, and beside one that runs them.
"""

from __future__ import annotations

from contextlib import closing, nullcontext
from typing import Literal, NamedTuple

from benchmarks.bench import Bench, Figures, Place
from benchmarks.database import connect
from benchmarks.fill import make_queue
from benchmarks.stamping import idle_worker
from benchmarks.workers import Ask, conversation

PRODUCERS = 8
TRIGGER = "rowcall_job_told"
TABLES = "rowcall_job, rowcall_attempt, rowcall_event, rowcall_job_tag"


class Case(NamedTuple):
    name: str
    way: Literal["plain", "enqueue"]
    trigger: bool = True
    worker_of: str | None = None


CASES = (
    Case("plain_untold", "plain", trigger=False),
    Case("plain_nobody", "plain"),
    Case("plain_elsewhere", "plain", worker_of="elsewhere"),
    Case("enqueue_untold", "enqueue", trigger=False),
    Case("enqueue_nobody", "enqueue"),
    Case("enqueue_elsewhere", "enqueue", worker_of="elsewhere"),
    Case("working_untold", "plain", trigger=False, worker_of="default"),
    Case("working_plain", "plain", worker_of="default"),
    Case("working_enqueue", "enqueue", worker_of="default"),
)
COMPARED = (
    ("plain_nobody", "plain_untold"),
    ("plain_elsewhere", "plain_untold"),
    ("enqueue_nobody", "enqueue_untold"),
    ("enqueue_elsewhere", "enqueue_untold"),
    ("working_plain", "working_untold"),
)


def measure(bench: Bench) -> Figures:
    figures: Figures = {}
    with bench.fresh_place() as place:
        make_queue(place.url)
        with conversation("producers", place.url, PRODUCERS, bench.sizes.producing_seconds) as ask:
            for case in CASES:
                found = _measure(case, place, ask)
                figures |= {f"{case.name}_{name}": value for name, value in found.items()}
    ratios = {f"{case}_ratio": figures[f"{case}_per_second"] / figures[f"{base}_per_second"] for case, base in COMPARED}
    return {**figures, **ratios}


def _measure(case: Case, place: Place, ask: Ask) -> Figures:
    with closing(connect(place.url)) as database:
        database.rows(f"alter table rowcall_job {'enable' if case.trigger else 'disable'} trigger {TRIGGER}")
        database.rows(f"truncate {TABLES}")
    with idle_worker(place, queue=case.worker_of) if case.worker_of else nullcontext():
        return ask(case.way)
