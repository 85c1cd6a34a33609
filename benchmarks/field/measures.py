"""What is measured of each queue. Each measure begins with an empty database, and returns figures.

The jobs are run by the worker as its docs start it. A drain begins and ends with a job that writes down when it
started: the time runs from the first of them until another process sees that no job is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.bench import Bench, Figures
from benchmarks.contestants.field import Peer
from benchmarks.field.history import make_old
from benchmarks.field.kills import measure_kills, measure_recovery
from benchmarks.field.place import Enqueued, Place, opened
from benchmarks.statistics import percentile

SINGLE_SECONDS = 2.0
SINGLE_AT_ONCE = 100
SETTLE_DOWN_SECONDS = 3.0
SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS = 0.05, 0.15
LONGEST_PICK_UP_SECONDS = 30.0
FIRST, LAST = 0, 1


def measure_enqueue(peer: Peer, bench: Bench) -> Figures:
    """Jobs per second of one producer, while no worker runs."""
    figures = {}
    with opened(peer, bench) as place:
        done = seconds = 0.0
        while seconds < SINGLE_SECONDS * bench.sizes.field_share:
            enqueued = checked(place.enqueue("noop", SINGLE_AT_ONCE))
            done, seconds = done + enqueued.done, seconds + enqueued.seconds
        figures["single"] = done / seconds
        if peer.bulk:
            enqueued = checked(place.enqueue_many("noop", bench.sizes.field_bulk_jobs))
            figures["bulk"] = enqueued.done / enqueued.seconds
    return figures


def measure_drain(peer: Peer, bench: Bench) -> Figures:
    with opened(peer, bench) as place:
        return {"rate": drain_rate(place, "noop", jobs_of(peer.jobs, bench))}


def measure_slow(peer: Peer, bench: Bench) -> Figures:
    with opened(peer, bench) as place:
        return {"rate": drain_rate(place, "slow", jobs_of(peer.slow_jobs, bench))}


def measure_old(peer: Peer, bench: Bench) -> Figures:
    """The same drain next to finished jobs."""
    if peer.history is None:
        return {}
    with opened(peer, bench) as place:
        make_old(place, bench.sizes.finished_jobs)
        return {"rate": drain_rate(place, "noop", jobs_of(peer.jobs, bench))}


def measure_pickup(peer: Peer, bench: Bench) -> Figures:
    """From just before a job is enqueued until its handler starts, in an idle worker."""
    with opened(peer, bench) as place:
        started_worker(place)
        called_ns = {}
        for number in range(1, bench.sizes.field_pick_ups + 1):
            time.sleep(bench.chance.uniform(SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS))
            called_ns[number] = time.monotonic_ns()
            checked(place.enqueue("stamp", first=number))
        place.wait(lambda: len(place.witnessed("stamp")) > len(called_ns), LONGEST_PICK_UP_SECONDS)
        begun = {line.number: line.monotonic_ns for line in place.witnessed("stamp")}
    millis = [(begun[number] - called) / 1e6 for number, called in called_ns.items()]
    return {"p50_ms": percentile(millis, 50), "p99_ms": percentile(millis, 99)}


def measure_idle(peer: Peer, bench: Bench) -> Figures:
    """Of all processes of a worker that has run one job and waits for more."""
    with opened(peer, bench) as place:
        started_worker(place)
        time.sleep(SETTLE_DOWN_SECONDS * bench.sizes.field_share)
        cpu_before, began = place.worker_cpu_seconds(), time.monotonic()
        time.sleep(bench.sizes.idle_seconds)
        seconds = time.monotonic() - began
        used = place.worker_cpu_seconds() - cpu_before
        return {"cpu_percent": used / seconds * 100, "memory_mb": place.worker_megabytes()}


def drain_rate(place: Place, what: str, count: int) -> float:
    """Jobs per second. The worker starts when all jobs are in the queue."""
    checked(place.enqueue("stamp", first=FIRST))
    checked(place.enqueue_many(what, count))
    checked(place.enqueue("stamp", first=LAST))
    place.start_worker()
    place.wait(lambda: len(place.witnessed("stamp")) == 2)
    ended = place.wait(lambda: place.left() == 0)
    began = next(line.monotonic_ns for line in place.witnessed("stamp") if line.number == FIRST) / 1e9
    if failed := place.failed():
        raise RuntimeError(f"{failed} jobs failed: {place.output()}")
    return (count + 1) / (ended - began)


def started_worker(place: Place) -> None:
    """Start a worker, and wait until it has run a job."""
    checked(place.enqueue("stamp"))
    place.start_worker()
    place.wait(lambda: bool(place.witnessed("stamp")))


def checked(enqueued: Enqueued) -> Enqueued:
    if enqueued.error:
        raise RuntimeError(f"a job was not enqueued: {enqueued.error}")
    return enqueued


def jobs_of(count: int, bench: Bench) -> int:
    return max(10, round(count * bench.sizes.field_share))


@dataclass(frozen=True)
class Measure:
    """`once`: it takes long, or counts what happens, so one round is enough."""

    name: str
    title: str
    take: Callable[[Peer, Bench], Figures]
    once: bool = False


MEASURES = (
    Measure("enqueue", "enqueue", measure_enqueue),
    Measure("drain", "drain of no-ops", measure_drain),
    Measure("slow", "drain of jobs of 5 ms", measure_slow),
    Measure("pickup", "pick-up", measure_pickup),
    Measure("idle", "idle worker", measure_idle, once=True),
    Measure("old", "drain with old rows", measure_old),
    Measure("recovery", "recovery after SIGKILL", measure_recovery, once=True),
    Measure("kills", "jobs under kills", measure_kills, once=True),
)
