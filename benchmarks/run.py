"""Runs the experiments, round by round: one of each, then one of each again, so that a slow minute affects all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from benchmarks.bench import Bench, Experiment
from benchmarks.sizes import Sizes


@dataclass
class Results:
    rounds: int
    sizes: Sizes
    measured: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    dates: dict[str, str] = field(default_factory=dict)
    """When each experiment was measured."""


def run(experiments: Sequence[Experiment], bench: Bench, rounds: int, say: Callable[[str], None]) -> Results:
    """Measure all. An experiment that fails is named in the results, and the others continue."""
    results = Results(rounds, bench.sizes)
    began = time.monotonic()
    for number in range(rounds):
        say_in_round = partial(_say_in_round, say, f"[{number + 1}/{rounds}]")
        for experiment in experiments:
            if number < experiment.rounds(rounds) and experiment.name not in results.failures:
                _measure(experiment, bench, results, say_in_round)
    results.seconds = time.monotonic() - began
    return results


def _measure(experiment: Experiment, bench: Bench, results: Results, say: Callable[[str], None]) -> None:
    began = time.monotonic()
    try:
        figures = experiment.measure(bench.on(experiment.kind))
    except Exception as error:
        results.failures[experiment.name] = f"{type(error).__name__}: {error}"
        say(f"{experiment.title}: FAILED, {type(error).__name__}: {error}")
        return
    results.dates[experiment.name] = f"{datetime.now(UTC):%Y-%m-%d}"
    for name, value in figures.items():
        results.measured.setdefault(f"{experiment.name}.{name}", []).append(value)
    shown = ", ".join(f"{name} {_short(value)}" for name, value in figures.items())
    say(f"{experiment.title} ({time.monotonic() - began:.0f} s): {shown}")


def _say_in_round(say: Callable[[str], None], mark: str, text: str) -> None:
    say(f"{mark} {text}")


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
