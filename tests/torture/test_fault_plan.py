"""The plan of faults depends on the seed and on the kinds that are possible, and on nothing else."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from rowcall.torture.fault_plan import DURATIONS, WEIGHTS, FaultKind, plan


def test_a_seed_repeats_its_faults() -> None:
    kinds = list(FaultKind)
    faults = list(islice(plan(7, kinds), 200))
    assert faults == list(islice(plan(7, kinds[::-1]), 200))
    assert faults != list(islice(plan(8, kinds), 200))


def test_each_possible_kind_comes_and_no_other() -> None:
    possible = {FaultKind.KILL_WORKER, FaultKind.CUT}
    assert Counter(fault.kind for fault in islice(plan(1, possible), 100)).keys() == possible
    assert {fault.kind for fault in islice(plan(1, list(FaultKind)), 2000)} == set(FaultKind) == WEIGHTS.keys()


def test_what_lasts_lasts_as_long_as_planned() -> None:
    for fault in islice(plan(3, list(FaultKind)), 500):
        shortest, longest = DURATIONS.get(fault.kind, (0.0, 0.0))
        assert shortest <= fault.lasts_seconds <= longest
