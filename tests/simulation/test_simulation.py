"""Some seeds of each mode, in other processes: a world replaces parts of `threading`. `make simulate` runs more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.simulation.parts import Finding, Part, Report
from tests.simulation.scenario import MODES, Mode
from tests.simulation.seed_records import SeedRecords

DOCS = Path(__file__).parents[2] / "docs"
SEEDS = int(os.environ.get("ROWCALL_TEST_SEEDS", 20))


def simulate(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.simulation", "--processes=1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_the_promises_hold_in_every_world(mode: Mode) -> None:
    last = simulate(f"--seeds=0-{SEEDS - 1}", f"--mode={mode}")
    assert re.fullmatch(rf"simulate: {SEEDS} seeds \({mode} {SEEDS}\), \d+ points, 0 problems, \d+ s", last)


PLANTED = """
from unittest import mock
from tests.simulation.parts import Part, run_part, _file
from tests.simulation.run import run
from tests.simulation.scenario import MODES, scenario_of
from rowcall.store.ends import attempts

for mode in MODES:  # a world happens again, step by step, from its seed and from its decisions
    for number in range(2):
        scenario = scenario_of(number, mode)
        first = run(scenario, _file(), keeps_trace=True)
        assert len(first.trace) > 100, first.trace
        assert run(scenario, _file(), keeps_trace=True).trace == first.trace
        assert run(scenario, _file(), first.decisions, keeps_trace=True).trace == first.trace

def keep_claims(dialect, fences):
    return (yield from dialect.ask(attempts.queries.TAKE, fences))

with mock.patch.object(attempts, "_take", keep_claims):  # what settles does not take the claim
    report = run_part(Part("safety", 0, 9))
assert report.findings and "a claim of a job that is not pending" in report.findings[0].shown, report
print(report.findings[0].shown)
"""


@pytest.mark.slow
def test_a_world_happens_again_and_a_planted_defect_has_a_short_schedule() -> None:
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([sys.executable, "-c", PLANTED], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) < 12


def test_seeds_are_recorded_once_unless_they_have_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "seeds.json"
    records = SeedRecords(path)
    for first, last in ((0, 9), (20, 29), (10, 14)):
        records.add(Report(Part("safety", first, last), points=100, commits=1, findings=[]), "a1")
    records.add(Report(Part("safety", 15, 19), 100, 1, [Finding("safety 16", "a job is lost")]), "a1")
    records.add(Report(Part("safety", 15, 16), 100, 1, []), "b2")
    again = SeedRecords(path)
    assert [tuple(seeds)[1:] for seeds in again.ranges] == [
        (0, 14, 200, "a1"),
        (15, 16, 100, "b2"),
        (20, 29, 100, "a1"),
    ]
    assert [tuple(part)[1:] for part in again.missing("safety", 5, 36, 5)] == [(17, 19), (30, 34), (35, 36)]
    assert list(again.missing("liveness", 0, 3, 50)) == [Part("liveness", 0, 3)]


def test_the_ranges_of_the_record_do_not_overlap() -> None:
    records = SeedRecords(DOCS / "proof" / "simulation.json")
    assert all(seeds.first <= seeds.last and "dirty" not in seeds.revision for seeds in records.ranges)
    assert [one for one in pairwise(records.ranges) if one[0].mode == one[1].mode and one[0].last >= one[1].first] == []
