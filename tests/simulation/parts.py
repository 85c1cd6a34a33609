"""Runs a part of the seeds in one process."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import logging
from functools import cache
from typing import NamedTuple

from tests.command_line import check_interrupt
from tests.simulation.database import MemoryFile
from tests.simulation.run import run
from tests.simulation.scenario import Mode, scenario_of
from tests.simulation.shrink import WORLDS_AT_ONCE, Shrinker

LONGEST_SECONDS = 600
"""Of real time, for these worlds."""


class Part(NamedTuple):
    mode: Mode
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.mode} {self.first}-{self.last}"


class Finding(NamedTuple):
    name: str
    shown: str


class Report(NamedTuple):
    part: Part
    points: int
    commits: int
    findings: list[Finding]


@cache
def _file() -> MemoryFile:
    return MemoryFile()


def run_part(part: Part) -> Report:
    """Run the worlds of a part, and make the schedule of the first one that fails short."""
    logging.disable()
    atexit.unregister(logging.shutdown)  # handlers that were made in a world have simulated locks
    gc.disable()  # a world leaves cycles: they are collected between worlds
    gc.collect()
    gc.freeze()
    points = commits = 0
    findings: list[Finding] = []
    for number in range(part.first, part.last + 1):
        check_interrupt()
        if (number - part.first) % WORLDS_AT_ONCE == 0:
            faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
            gc.collect()
        scenario = scenario_of(number, part.mode)
        result = run(scenario, _file())
        points += result.points
        commits += result.commits
        if result.problems:
            shrinker = Shrinker(scenario, result, _file())
            if not findings:
                shrinker.shrink()
            findings.append(Finding(f"{part.mode} {number}", shrinker.shown()))
    faulthandler.cancel_dump_traceback_later()
    return Report(part, points, commits, findings)
