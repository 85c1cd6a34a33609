"""The plan of faults: which one comes next, after how long, and on whom. It depends on the seed and the kinds only."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import NamedTuple

SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS = 0.05, 0.35
MEAN_GAP_SECONDS = (SHORTEST_GAP_SECONDS + LONGEST_GAP_SECONDS) / 2


class FaultKind(StrEnum):
    KILL_WORKER = "worker killed"
    KILL_PRODUCER = "producer killed"
    END_WORKER = "worker ended by SIGTERM"
    STOP_WORKER = "worker stopped past its lease"
    PAUSE_WORKER = "worker stopped briefly"
    LOCK = "foreign lock"
    SNAPSHOT = "old snapshot"
    CHECKPOINT = "checkpoint"
    FULL_DISK = "full disk"
    CUT = "connections cut"
    LOSE_REPLY = "replies lost"
    FREEZE = "network frozen"
    RESTART = "server restarted"


WEIGHTS = {
    FaultKind.KILL_WORKER: 12,
    FaultKind.KILL_PRODUCER: 4,
    FaultKind.END_WORKER: 2,
    FaultKind.STOP_WORKER: 3,
    FaultKind.PAUSE_WORKER: 15,
    FaultKind.LOCK: 15,
    FaultKind.SNAPSHOT: 5,
    FaultKind.CHECKPOINT: 8,
    FaultKind.FULL_DISK: 8,
    FaultKind.CUT: 20,
    FaultKind.LOSE_REPLY: 15,
    FaultKind.FREEZE: 3,
    FaultKind.RESTART: 1,
}
DURATIONS = {
    FaultKind.PAUSE_WORKER: (0.05, 1.0),
    FaultKind.LOCK: (0.02, 0.5),
    FaultKind.SNAPSHOT: (0.5, 3.0),
    FaultKind.FULL_DISK: (0.2, 1.0),
    FaultKind.FREEZE: (0.1, 1.0),
}
"""Seconds. A stop lasts as long as the lease requires."""


class Fault(NamedTuple):
    """It follows the fault before by `after_seconds`. A remainder of `choice` chooses among what is there."""

    kind: FaultKind
    after_seconds: float
    lasts_seconds: float
    choice: int


def plan(seed: int, kinds: Collection[FaultKind]) -> Iterator[Fault]:
    """Yield the faults of a seed, without end."""
    chance = random.Random(seed)
    possible = [kind for kind in FaultKind if kind in kinds]
    weights = [WEIGHTS[kind] for kind in possible]
    while True:
        kind = chance.choices(possible, weights)[0]
        gap = chance.uniform(SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS)
        yield Fault(kind, gap, chance.uniform(*DURATIONS.get(kind, (0.0, 0.0))), chance.getrandbits(32))
