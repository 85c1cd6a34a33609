"""Workers that are killed by SIGKILL: how long until a job runs again, and what becomes of the jobs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from benchmarks.bench import Bench, Figures
from benchmarks.contestants.field import Peer
from benchmarks.field.place import Place, opened

LONGEST_GAP_SECONDS = 0.08
SHORTEST_LIFE_SECONDS, LONGEST_LIFE_SECONDS = 2.0, 5.0
LOOK_EVERY_SECONDS = 0.05
NOTHING_LEFT_SECONDS = 3.0
"""How long a worker may still be at a job that its queue has already forgotten."""


def measure_recovery(peer: Peer, bench: Bench) -> Figures:
    """SIGKILL a worker within a job, start it again at once, and wait until the job begins for the second time."""
    with opened(peer, bench) as place:
        place.enqueue("held")
        place.start_worker()
        place.wait(lambda: bool(place.witnessed("held")))
        place.kill_worker()
        killed = time.monotonic()
        place.start_worker()
        _wait_until_quiet(place, "held", lambda: len(place.witnessed("held")) > 1, bench.sizes.field_patience_seconds)
        lines = place.witnessed("held")
        if len(lines) > 1:
            return {"seconds": lines[1].monotonic_ns / 1e9 - killed}
        return {_fate(place): 1}


def measure_kills(peer: Peer, bench: Bench) -> Figures:
    """Enqueue at a steady rate, kill the worker every few seconds, and compare at the end."""
    with opened(peer, bench) as place:
        acknowledged, refused, kills = _kill(place, bench)
        began = time.monotonic()

        def all_done() -> bool:
            return acknowledged <= _ends(place).keys() and place.left() == 0

        _wait_until_quiet(place, "killed", all_done, bench.sizes.field_patience_seconds)
        ends = _ends(place)
        missing = len(acknowledged - ends.keys())
        failed = min(missing, place.failed())
        stuck = min(missing - failed, place.left())
        return {
            "enqueued": len(acknowledged),
            "refused": refused,
            "kills": kills,
            "lost": missing - failed - stuck,
            "failed": failed,
            "stuck": stuck,
            "twice": sum(count > 1 for count in ends.values()),
            "drain_seconds": time.monotonic() - began,
        }


def _kill(place: Place, bench: Bench) -> tuple[set[int], int, int]:
    """Return the numbers of the jobs whose `enqueue` returned, how many calls raised, and how many kills there were."""
    acknowledged: set[int] = set()
    kills = 0
    place.start_worker()
    ends = time.monotonic() + bench.sizes.field_kill_seconds
    next_kill = time.monotonic() + bench.chance.uniform(SHORTEST_LIFE_SECONDS, LONGEST_LIFE_SECONDS)
    number = 0
    while time.monotonic() < ends:
        if not place.enqueue("killed", first=number).error:
            acknowledged.add(number)
        number += 1
        time.sleep(bench.chance.uniform(0, LONGEST_GAP_SECONDS))  # so that a kill comes at any moment of a job
        if time.monotonic() > next_kill:
            place.kill_worker()
            kills += 1
            place.start_worker()
            next_kill = time.monotonic() + bench.chance.uniform(SHORTEST_LIFE_SECONDS, LONGEST_LIFE_SECONDS)
    return acknowledged, number - len(acknowledged), kills


def _wait_until_quiet(place: Place, what: str, done: Callable[[], bool], patience: float) -> None:
    """Wait until it is done, or until there was no progress for some time."""
    lines = 0
    progress = time.monotonic()
    while not done():
        before, lines = lines, len(place.witnessed(what))
        if lines > before:
            progress = time.monotonic()
        if time.monotonic() - progress > (patience if place.left() else NOTHING_LEFT_SECONDS):
            return
        time.sleep(LOOK_EVERY_SECONDS)


def _ends(place: Place) -> Counter[int]:
    """Return how often each job came to its end."""
    return Counter(line.number for line in place.witnessed("killed"))


def _fate(place: Place) -> str:
    """What became of the job that did not run again."""
    if place.failed():
        return "failed"
    return "stuck" if place.left() else "lost"
