"""The layers of tests that may notice a defect: commands that end with 0 if they have noticed nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rowcall.base.clock import SYSTEM_CLOCK
from tests.shared_postgres import OTHER_SERVER

KIT = """
    Fence Settle Ends Claim ClaimRows ClaimOrder Stage Expiry Retry Keys Steps Signals StepFence Limits RateLimits
    SlotsOfWorkers LimitsOfHandlers OrderedJobs LostWorkers LeasesByHand Outcomes Progress Results Retention Dependencies
    Blockers FailingBlockers ChainRows FixedChains CancelRunning CancelSurvives EndedFromOutside Counts Mismatches
    Schedules ScheduleRaces Transaction Enqueue AsyncTwins ByHand Lifecycle Crash Processes
"""
"""The classes of the conformance kit that are about what the defects break. They run on both databases."""
LOCKS = "tests/store/claims/test_lock_order.py"
FAULT_SHARES = {"sqlite": 40, "postgres": 200}
"""One case of this many."""
STORM_JOBS = 3000
LONGEST_SECONDS = 400.0
"""A defect may make a layer wait for ever: what takes longer has noticed it."""


class Layer(NamedTuple):
    name: str
    commands: tuple[tuple[str, ...], ...]
    needs: str
    """A file of the repository without which the layer is not there yet."""


def layers() -> list[Layer]:
    kit = [
        f"tests/conformance/test_{database}.py::Test{name}"
        for database in ("sqlite", "postgres")
        for name in KIT.split()
    ]
    pytest = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line")
    faults = [
        ("-m", "tests.faults", database, "--share", str(share), "--stop") for database, share in FAULT_SHARES.items()
    ]
    storms = [
        ("-m", "tests.crash.all_actions", database, "--jobs", str(STORM_JOBS)) for database in ("sqlite", "postgres")
    ]
    simulation = ("-m", "tests.simulation", "--seeds", "0-199", "--mode", "both")
    return [
        Layer("kit", ((*pytest, LOCKS, *kit),), "tests/conformance/suite.py"),
        Layer("models", (("-m", "tests.planted.models"),), "tests/planted/models.py"),
        Layer("faults", tuple(faults), "tests/faults/__main__.py"),
        Layer("simulation", (simulation,), "tests/simulation/__main__.py"),
        Layer("storm", tuple(storms), "tests/crash/all_actions.py"),
    ]


class Ran(NamedTuple):
    """What a layer said about a tree."""

    noticed: bool
    seconds: float
    output: str


def run(layer: Layer, tree: Path, server_url: str) -> Ran:
    """Run a layer against a copy of the repository."""
    timer = SYSTEM_CLOCK.timer
    began, output = timer(), ""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        OTHER_SERVER: server_url,
    }
    for command in layer.commands:
        code, output = _run([sys.executable, *command], tree, environment)
        if code:
            return Ran(True, timer() - began, output)
    return Ran(False, timer() - began, output)


def _run(command: list[str], tree: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    with subprocess.Popen(
        command,
        cwd=tree,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=LONGEST_SECONDS)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return 1, f"it took longer than {LONGEST_SECONDS:.0f} s"
        finally:
            # also the workers that it has started: a defect may leave them behind
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
