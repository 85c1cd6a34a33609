"""Makes a failing schedule short: leaves out decisions and operations as long as the same problem is found."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.simulation.database import MemoryFile
from tests.simulation.decisions import Decision
from tests.simulation.run import Result, run
from tests.simulation.scenario import Scenario

T = TypeVar("T")

WORLDS_AT_ONCE = 10
"""Between two garbage collections."""
MOST_RUNS = 250
MOST_SECONDS = 15
"""Of CPU time."""


def title(problem: str) -> str:
    """What two problems must have in common to be the same."""
    return problem.partition(":")[0]


class Shrinker:
    def __init__(self, scenario: Scenario, found: Result, file: MemoryFile) -> None:
        self._file = file
        self._title = title(found.problems[0])
        self.scenario = scenario
        self.result = found
        self._runs = 0
        self._ends_at = time.process_time() + MOST_SECONDS

    def shrink(self) -> None:
        """Leave out as much as possible: first the decisions, as operations change the numbers of points."""
        self._try(self.scenario, self.result.decisions)  # a replay must find the same: otherwise nothing is left out
        for _ in range(2):
            self._leave_out(sorted(self.result.decisions.items()), lambda left: self._try(self.scenario, dict(left)))
            self._leave_out(
                self.scenario.operations,
                lambda left: self._try(self.scenario._replace(operations=left), self.result.decisions),
            )

    def _try(self, scenario: Scenario, decisions: dict[int, Decision]) -> bool:
        """Return whether the same problem is found, and keep what led to it."""
        if self._runs >= MOST_RUNS or time.process_time() > self._ends_at:
            return False
        self._runs += 1
        if self._runs % WORLDS_AT_ONCE == 0:
            gc.collect()
        result = run(scenario, self._file, decisions)
        if not any(title(problem) == self._title for problem in result.problems):
            return False
        self.scenario, self.result = scenario, result
        return True

    def _leave_out(self, items: Sequence[T], is_enough: Callable[[Sequence[T]], bool]) -> None:
        size = len(items)
        while size and items:
            at = 0
            while at < len(items):
                left = [*items[:at], *items[at + size :]]
                if is_enough(left):
                    items = left
                else:
                    at += size
            size //= 2

    def shown(self) -> str:
        """Return the short schedule as text."""
        scenario, result = self.scenario, self.result
        lines = [
            *result.problems[:3],
            f"with {scenario.workers} workers of {scenario.concurrency} slots, after {self._runs} shorter tries:",
            *(f"  operation {operation}" for operation in scenario.operations),
            *(f"  point {number}: {what}" for number, what in sorted(result.shown.items())),
        ]
        return "\n".join(lines)
