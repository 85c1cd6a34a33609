"""Single enqueues by one process, timed, while two workers drain and three more processes enqueue without pause."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from benchmarks.app import App, open_app
from benchmarks.bench import Bench, Figures
from benchmarks.fill import filling, make_queue
from benchmarks.noop import NUMBER, TO
from benchmarks.observer import Observer
from benchmarks.statistics import percentile
from benchmarks.workers import ROOT, ProcessFailed, command, worker_processes
from rowcall import RowcallError

PRODUCERS = 3
STOP_SECONDS = 30.0


def measure(bench: Bench) -> Figures:
    with bench.fresh_site() as site:
        make_queue(site.url)
        with filling(site.url) as fill:
            fill.waiting(bench.sizes.crowd_backlog, "noop_async", priority=1)
        app = open_app(site.url)
        with (
            app.jobs,
            closing(Observer(site.url)) as observer,
            worker_processes(site, 2) as workers,
            producers(site.url) as counts,
        ):
            observer.wait_for_workers(2, workers[0])
            millis, errors = _enqueue(bench, app)
            left = observer.waiting()
    return {
        "p99.9_ms": percentile(millis, 99.9),
        "p50_ms": percentile(millis, 50),
        "most_ms": max(millis),
        "errors": errors + counts["errors"],
        "enqueues": len(millis),
        "others_enqueued": counts["enqueued"],
        "left_waiting": left,
    }


def _enqueue(bench: Bench, app: App) -> tuple[list[float], int]:
    millis: list[float] = []
    errors = 0
    deadline = time.monotonic() + bench.sizes.crowd_seconds
    while len(millis) < bench.sizes.crowd_enqueues and time.monotonic() < deadline:
        began = time.perf_counter()
        try:
            app.noop_async.enqueue(NUMBER, TO)
        except RowcallError as error:
            errors += 1
            print(f"an enqueue failed: {error}", file=sys.stderr)
        millis.append((time.perf_counter() - began) * 1000)
    return millis, errors


@contextmanager
def producers(url: str) -> Iterator[dict[str, int]]:
    """Three processes that enqueue; the counts are complete once they have ended."""
    counts = {"enqueued": 0, "errors": 0}
    started = [
        subprocess.Popen(command("producer", [url]), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(PRODUCERS)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()  # it has enqueued its first job
        yield counts
    finally:
        for process in started:
            process.terminate()
        outputs = [_output(process) for process in started]
    for output in outputs:
        for name, count in json.loads(output).items():
            counts[name] += count


def _output(process: subprocess.Popen[bytes]) -> bytes:
    try:
        output, complaints = process.communicate(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise ProcessFailed(f"a producer did not stop within {STOP_SECONDS:.0f} s") from None
    if process.returncode:
        raise ProcessFailed(f"a producer ended with {process.returncode}: {complaints.decode()[-2000:]}")
    return output
