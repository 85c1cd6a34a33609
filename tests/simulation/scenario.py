"""A scenario: all that a seed says about a world, but for the decisions at its points."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple

from tests.simulation.workload import STEERING, Operation, workload

Mode = Literal["safety", "liveness"]
MODES: tuple[Mode, ...] = ("safety", "liveness")
FAULTY_SECONDS = 4.0
PRODUCERS = 2


class Scenario(NamedTuple):
    seed: str
    mode: Mode
    workers: int
    concurrency: int
    operations: Sequence[Operation]

    def by_caller(self) -> dict[str, list[Operation]]:
        """Return what each process calls: producers, and people with a dashboard."""
        found: dict[str, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            name = "people" if operation.name in STEERING else f"app{operation.number % PRODUCERS}"
            found[name].append(operation)
        return found


def scenario_of(number: int, mode: Mode) -> Scenario:
    seed = f"{mode} {number}"
    chance = random.Random(seed)
    return Scenario(
        seed, mode, chance.choice((1, 2, 2, 3)), chance.choice((1, 2, 4)), workload(chance, FAULTY_SECONDS * 0.8)
    )
