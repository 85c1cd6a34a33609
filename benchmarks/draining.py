"""How fast worker processes drain.

The clock runs from the first claim, as its row says, until another process sees that the last job is settled. So the
start of the workers' processes is not counted, and every commit but the first is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from benchmarks.bench import Bench, Site
from benchmarks.flow_app import FlowApp, open_flow_app
from benchmarks.observer import Observer
from benchmarks.workers import worker_processes


def drain_rate(
    site: Site,
    ids: range,
    *,
    processes: int = 1,
    options: Sequence[str] = (),
    settled_down: bool = True,
    flows: bool = False,
) -> float:
    """Jobs per second of this many processes of `rowcall work`, with these options, for these jobs.

    They are in the table already, or come of those.
    """
    if settled_down:
        settle_down(site)
    with closing(Observer(site.url)) as observer:
        with worker_processes(site, processes, options=options, flows=flows) as workers:
            observer.wait_until_written(ids[-1], workers[0])
            ended = observer.wait_until_settled(ids, workers[0])
        return observer.succeeded(ids) / (ended - observer.first_claim(ids))


def flow_drain(bench: Bench, enqueue: Callable[[FlowApp], range]) -> float:
    """Jobs per second of one worker for the jobs that `enqueue` writes into an empty database."""
    with bench.fresh_site() as site:
        app = open_flow_app(site.url)
        with app.jobs:
            ids = enqueue(app)
        return drain_rate(site, ids, flows=True)


def settle_down(site: Site) -> None:
    """Let the database do what it would have done on its own, given a minute."""
    with closing(Observer(site.url)) as observer:
        observer.settle_down()
