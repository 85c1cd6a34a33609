"""The layers of tests that may notice a defect: commands that end with 0 if they have noticed nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rowcall.base.clock import SYSTEM_CLOCK
from tests.shared_postgres import OTHER_SERVER

PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line")
SOUND = (
    *PYTEST,
    "tests/store/test_statements.py",
    "-k",
    "test_every_statement_can_be_prepared and rowcall_",
)
"""A defect is no mistake that every statement would show."""
FAULT_SHARES = {"sqlite": ("--calls", "2", "--share", "20"), "postgres": ("--calls", "8", "--share", "25")}
"""One call of this many, and one case of this many. Each call also runs once without a fault."""
SEEDS = ("0-9", "10-49")
"""A defect is mostly noticed by the first ones."""
STORM_JOBS = 3000
LONGEST_SECONDS, LONGEST_TEST_SECONDS = 400.0, 60.0
"""A defect may make a layer wait for ever: what takes longer has noticed it."""


class Layer(NamedTuple):
    name: str
    commands: tuple[tuple[str, ...], ...]
    needs: str
    """A file of the repository without which the layer is not there yet."""


def layers(kit: str = "Fence", calls: str = "", patience: float = 1) -> list[Layer]:
    """Return all layers. `kit`, `calls`: see `Defect`. `patience`: how often the usual time a test may take."""
    timeout = f"--timeout={LONGEST_TEST_SECONDS * patience:g}"
    tests = [test for name in kit.split() for test in _tests_of(name)]
    faults = [
        ("-m", "tests.faults", database, "--stop", "--at-once", "1", *(("--only", calls) if calls else share))
        for database, share in FAULT_SHARES.items()
    ]
    storms = [
        ("-m", "tests.crash.all_actions", database, "--jobs", str(STORM_JOBS)) for database in ("sqlite", "postgres")
    ]
    simulation = [("-m", "tests.simulation", "--seeds", seeds, "--mode", "both", "--processes", "1") for seeds in SEEDS]
    return [
        Layer("kit", ((*PYTEST, timeout, *tests),), "tests/conformance/suite.py"),
        Layer("models", (("-m", "tests.planted.models"),), "tests/planted/models.py"),
        Layer("faults", tuple(faults), "tests/faults/__main__.py"),
        Layer("simulation", tuple(simulation), "tests/simulation/__main__.py"),
        Layer("storm", tuple(storms), "tests/crash/all_actions.py"),
    ]


def _tests_of(name: str) -> list[str]:
    if "/" in name:
        return [name]
    return [f"tests/conformance/test_{database}.py::Test{name}" for database in ("sqlite", "postgres")]


class Ran(NamedTuple):
    """What a layer said about a tree."""

    noticed: bool
    seconds: float
    output: str


def run(commands: Sequence[Sequence[str]], tree: Path, server_url: str, patience: float = 1) -> Ran:
    """Run the commands of a layer against a copy of the repository, until one notices something."""
    timer = SYSTEM_CLOCK.timer
    began, output = timer(), ""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        OTHER_SERVER: server_url,
    }
    for command in commands:
        if _stopping.is_set():
            raise Interrupted
        code, output = _run([sys.executable, *command], tree, environment, LONGEST_SECONDS * patience)
        if code:
            return Ran(True, timer() - began, output)
    return Ran(False, timer() - began, output)


def _run(command: list[str], tree: Path, environment: Mapping[str, str], seconds: float) -> tuple[int, str]:
    with subprocess.Popen(
        command,
        cwd=tree,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        _running.add(process.pid)
        try:
            output, _ = process.communicate(timeout=seconds)
            if _stopping.is_set():
                raise Interrupted
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return 1, f"it took longer than {seconds:.0f} s"
        finally:
            # also the workers that it has started: a defect may leave them behind
            _running.discard(process.pid)
            _kill(process.pid)


class Interrupted(Exception):
    """Ctrl-C came while a layer ran."""


_running: set[int] = set()
"""The groups of processes of the layers that run now."""
_stopping = threading.Event()


def interrupt(number: int, frame: object) -> None:
    """End the layers that run now, and start no others. A handler of a signal."""
    _stopping.set()
    for group in tuple(_running):
        _kill(group)
    raise KeyboardInterrupt


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
