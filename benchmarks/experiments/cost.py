"""What claims of whole groups save: a plain drain by this code beside the code before, from the history."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bench import Bench, Figures, in_turns
from benchmarks.draining import drain_rate
from benchmarks.workers import ROOT, report_of

BEFORE = "73bfb7d"


def measure(bench: Bench) -> Figures:
    sources = bench.folder / "before"
    if not sources.exists():
        _take_out(sources)
    return in_turns({"before": lambda: _drain_by(sources / "src", bench), "after": lambda: _drain(bench)})


def _drain_by(sources: Path, bench: Bench) -> float:
    with _imported_from(sources):
        return _drain(bench)


def _drain(bench: Bench) -> float:
    jobs = bench.sizes.postgres_drain_jobs if bench.kind == "postgres" else bench.sizes.drain_jobs
    with bench.fresh_site() as site:
        made = report_of("prepare", site.url, jobs)
        ids = range(int(made["first"]), int(made["last"]) + 1)
        return drain_rate(site, ids, options=["--log-level=warning"])  # the code before logged every job


def _take_out(folder: Path) -> None:
    packed = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder)


@contextmanager
def _imported_from(folder: Path) -> Iterator[None]:
    """Processes that are started now import Rowcall from there."""
    kept = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(folder)
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]
        if kept is not None:
            os.environ["PYTHONPATH"] = kept
