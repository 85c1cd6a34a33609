"""The decisions at the points of a world: made by chance and noted, or replayed."""

from __future__ import annotations

import random
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.scheduler import Actor

if TYPE_CHECKING:
    from tests.simulation.world import World

USUAL_POINTS = 1500
"""Of the time in which faults happen."""
FAULTS = {"crash": 4, "pause": 4, "jump": 2, "lose": 3, "slow": 3, "refuse": 3, "reload": 1}


MOST_FAULTS = 16
"""Of one world. Each restart of a worker takes many points."""


class Decision(NamedTuple):
    """What happens at a point: another actor runs, or a fault, with its amount."""

    kind: str
    amount: float = 0

    def __str__(self) -> str:
        return self.kind if self.kind in ("crash", "lose", "refuse", "reload") else f"{self.kind} {self.amount:g}"


class Decisions:
    """`replayed` are decisions by the number of their point; without them, they are made by chance."""

    world: World

    def __init__(self, seed: str, replayed: dict[int, Decision] | None = None) -> None:
        self._chance = random.Random(f"{seed} decisions")
        self._replayed = replayed
        self.made: dict[int, Decision] = {}
        self.shown: dict[int, str] = {}
        self.faulty = False
        """Whether faults happen now."""
        self._switch_share = self._chance.choice((0.01, 0.05, 0.2, 0.5))
        faults = self._chance.choice((0, 1, 3, 6, 12))
        self._left = MOST_FAULTS
        self._fault_share = faults / USUAL_POINTS
        self._kinds = self._chance.sample(sorted(FAULTS), self._chance.randint(1, len(FAULTS)))

    def switch(self, number: int) -> int | None:
        if self._replayed is None:
            return self._chance.randrange(1000) if self._chance.random() < self._switch_share else None
        decision = self._replayed.get(number)
        return int(decision.amount) if decision is not None and decision.kind == "switch" else None

    def note_switch(self, number: int, other: int, chosen: Actor) -> None:
        self.made[number] = Decision("switch", other)
        self.shown[number] = f"{chosen.process.name}, {chosen.name} runs next"

    def fault(self, number: int, actor: Actor, where: str) -> None:
        if not self.faulty:
            return
        if self._replayed is not None:
            decision = self._replayed.get(number)
            if decision is None or decision.kind == "switch":
                return
        elif self._left and self._chance.random() < self._fault_share * _weight(actor, where):
            self._left -= 1
            decision = self._any()
        else:
            return
        self.made[number] = decision
        self.shown[number] = f"{decision} in {actor.process.name}, {actor.name}: {' '.join(where.split())[:100]}"
        self._apply(decision, actor)

    def _any(self) -> Decision:
        chance = self._chance
        (kind,) = chance.choices(self._kinds, [FAULTS[kind] for kind in self._kinds])
        amounts = {"pause": (0.4, 2.5, 4.0, 7.0), "jump": (-60.0, -2.0, 2.0, 20.0), "slow": (0.05, 0.6, 3.0)}
        return Decision(kind, chance.choice(amounts[kind]) if kind in amounts else 0)

    def _apply(self, decision: Decision, actor: Actor) -> None:
        world, process = self.world, actor.process
        is_worker = process in world.workers
        match decision.kind:
            case "crash" if is_worker or process in world.callers:
                world.kill(process)
            case "pause" if is_worker:
                world.freeze(process, decision.amount)
            case "jump":
                world.machine.jump(decision.amount)
            case "lose":
                world.machine.loses_next = True
            case "slow":
                world.scheduler.sleep(decision.amount)
            case "refuse":
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorname = "SQLITE_IOERR"
                world.machine.refused = error
            case "reload" if world.supervisor is not None:
                world.supervisor.reload("the code has changed")


def _weight(actor: Actor, where: str) -> int:
    """Faults are more likely around commits, and in threads that run few statements."""
    return (4 if where in ("commit", "committed") else 1) * (1 if actor.name == "rowcall-loop" else 3)
