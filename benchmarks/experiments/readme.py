"""What the README's command drains, without log lines, and with other choices of them: in turns."""

from __future__ import annotations

from functools import partial

from benchmarks.app import enqueue_jobs, open_app
from benchmarks.bench import Bench, Figures, in_turns
from benchmarks.draining import drain_rate

OPTIONS: dict[str, tuple[str, ...]] = {
    "default": (),
    "silent": ("--log-level=warning",),
    "failures": ("--log-jobs=failures",),
    "all": ("--log-jobs=all",),
    "all_json": ("--log-jobs=all", "--log-format=json"),
}
"""Options of `rowcall work app:jobs`."""


def measure(bench: Bench) -> Figures:
    return in_turns({name: partial(_drain, bench, options) for name, options in OPTIONS.items()})


def _drain(bench: Bench, options: tuple[str, ...]) -> float:
    with bench.fresh_site() as site:
        app = open_app(site.url)
        with app.jobs:
            ids = enqueue_jobs(app.noop_async, bench.sizes.readme_jobs)
        return drain_rate(site, ids, options=options)
