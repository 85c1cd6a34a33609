"""Runs a scenario from its begin to its end, and says what was wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

from tests.crash.storm import leftovers, terms
from tests.crash.storm.journal import attempts_in, changes_in, edges_in, effects_in, follows_in, starts_in
from tests.crash.storm.records import Records
from tests.simulation import app
from tests.simulation.app import witness
from tests.simulation.checks import CHECKS, CHECKS_OF_ROWS, STEADY_CHECKS
from tests.simulation.database import MemoryFile
from tests.simulation.decisions import Decision, Decisions
from tests.simulation.scenario import FAULTY_SECONDS, Scenario
from tests.simulation.scheduler import Process
from tests.simulation.world import World

BOUND_SECONDS = 240
"""Of virtual time, in which everything must end once the faults have stopped."""
IDLE_SECONDS = 4
MOST_SECONDS_FOR_IDLE = 20
CHANGED = "select max(seq) from storm_change"
MOST_POINTS_IDLE = 60
"""Of an idle worker, in each virtual second."""
MOST_POINTS_OF_UPKEEP = 150
"""Of its pruning, which comes once a minute."""


class Result(NamedTuple):
    problems: list[str]
    decisions: dict[int, Decision]
    shown: dict[int, str]
    points: int
    commits: int
    trace: list[str]


def run(
    scenario: Scenario, file: MemoryFile, replayed: dict[int, Decision] | None = None, *, keeps_trace: bool = False
) -> Result:
    decisions = Decisions(scenario.seed, replayed)
    world = World(scenario, decisions, file)
    world.scheduler.keeps_trace = keeps_trace
    with mock.patch.object(terms, "SCHEDULES", app.SCHEDULES):
        with world.opened():
            problems = list(_live(world))
        if not problems:
            problems = list(_check(world))
    return Result(
        problems,
        decisions.made,
        decisions.shown,
        world.scheduler.number,
        world.monitor.checks,
        world.scheduler.trace,
    )


def _live(world: World) -> Iterator[str]:
    problems = world.scheduler.problems
    world.begin()
    world.decisions.faulty = True
    world.run_for(FAULTY_SECONDS)
    world.decisions.faulty = False
    if problems:
        yield from problems
        return
    world.heal()
    unfinished: list[object] = []
    for _ in range(BOUND_SECONDS):
        world.run_for(1)
        unfinished = list(world.ask(leftovers.UNFINISHED))
        if problems or (world.is_healed and not unfinished and world.is_cleaned_up):
            break
    if not problems and unfinished:
        yield f"after {BOUND_SECONDS} s without faults, {len(unfinished)} jobs have not ended: {unfinished[:5]}"
    if not problems and world.scenario.mode == "liveness":
        yield from _spinning(world)
    world.stop()
    yield from problems


def _spinning(world: World) -> Iterator[str]:
    """An idle worker runs few statements. A second in which a schedule ticks, or a job ends, is not idle."""
    points: Counter[Process] = Counter()
    idle_seconds = 0
    for _ in range(MOST_SECONDS_FOR_IDLE):
        before, changed = {process: process.points for process in world.living_workers}, world.ask(CHANGED)
        world.run_for(1)
        if world.ask(CHANGED) == changed:
            idle_seconds += 1
            points.update({process: process.points - earlier for process, earlier in before.items()})
        if idle_seconds == IDLE_SECONDS:
            break
    else:
        yield f"only {idle_seconds} of {MOST_SECONDS_FOR_IDLE} seconds were idle"
    for process, count in points.items():
        if count > MOST_POINTS_IDLE * idle_seconds + MOST_POINTS_OF_UPKEEP:
            yield f"{process.name} took {count} points in {idle_seconds} idle seconds"


def _check(world: World) -> Iterator[str]:
    database = world.file.plain
    records = Records(
        witness.notes,
        changes_in(database),
        edges_in(database),
        starts_in(database),
        effects_in(database),
        attempts_in(database),
        follows_in(database),
    )
    for check in CHECKS if world.machine.was_set else (*CHECKS, *STEADY_CHECKS):
        yield from (f"{check.__name__}: {problem}" for problem in check(records))
    for check_rows in CHECKS_OF_ROWS:
        yield from (f"{check_rows.__name__}: {problem}" for problem in check_rows(records, database))
    yield from leftovers.rows_left(database)
