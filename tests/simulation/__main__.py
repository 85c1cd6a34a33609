"""Run worlds by their seeds: `python -m tests.simulation --seeds 0-199 --mode both`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tests.simulation.parts import Finding, Part, Report, run_part
from tests.simulation.scenario import MODES, Mode

SEEDS_AT_ONCE = 50
PROGRESS_SECONDS = 10
MOST_SHOWN = 5


def main() -> None:
    arguments = _arguments()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets must be the same in each run
        again = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    began = time.monotonic()
    parts = list(_parts(arguments.seeds, MODES if arguments.mode == "both" else [arguments.mode]))
    seeds: Counter[str] = Counter()
    findings: list[Finding] = []
    points, told_at = 0, began
    for report in _reports(parts, arguments.processes):
        seeds[report.part.mode] += report.part.last - report.part.first + 1
        points += report.points
        for finding in report.findings:
            findings.append(finding)
            if len(findings) <= MOST_SHOWN:
                print(f"! {finding.name}: {finding.shown}", flush=True)
        if findings and arguments.first:
            break
        if time.monotonic() - told_at >= PROGRESS_SECONDS:
            told_at = time.monotonic()
            print(f"{seeds.total()} seeds, {len(findings)} problems, {told_at - began:.0f} s", flush=True)
    if len(findings) > MOST_SHOWN:
        print("! also", ", ".join(finding.name for finding in findings[MOST_SHOWN:]))
    shares = ", ".join(f"{mode} {seeds[mode]}" for mode in MODES if seeds[mode])
    seconds = time.monotonic() - began
    print(f"simulate: {seeds.total()} seeds ({shares}), {points} points, {len(findings)} problems, {seconds:.0f} s")
    sys.exit(bool(findings))


def _parts(seeds: tuple[int, int], modes: Sequence[Mode]) -> Iterator[Part]:
    first, last = seeds
    for begin in range(first, last + 1, SEEDS_AT_ONCE):
        for mode in modes:
            yield Part(mode, begin, min(last, begin + SEEDS_AT_ONCE - 1))


def _reports(parts: list[Part], processes: int) -> Iterator[Report]:
    if processes == 1 or len(parts) == 1:
        yield from map(run_part, parts)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        futures = [pool.submit(run_part, part) for part in parts]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=_range, default=(0, 199), help="one, or the first and the last: 0-199")
    parser.add_argument("--mode", choices=(*MODES, "both"), default="both")
    parser.add_argument("--first", action="store_true", help="stop soon after the first problem")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
