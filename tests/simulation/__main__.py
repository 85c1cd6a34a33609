"""Run worlds by their seeds: `python -m tests.simulation --seeds 0-199 --mode both`.

With a record, seeds that it has are left out, and seeds that have run without a problem are added.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from itertools import zip_longest

from tests.command_line import INTERRUPTED, interrupt_at_sigterm, positive, processes, record_file
from tests.simulation.parts import Finding, Part, Report, run_part
from tests.simulation.scenario import MODES, Mode
from tests.simulation.seed_records import SeedRecords, revision

SEEDS_AT_ONCE = 50
PROGRESS_SECONDS = 10
MOST_SHOWN = 5


def main() -> None:
    arguments = _arguments()
    # the order of sets must be the same in each run; and no handler's traceback needs its columns, which take long
    if os.environ.get("PYTHONHASHSEED") != "0":
        again = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0", "PYTHONNODEBUGRANGES": "1"})
    interrupt_at_sigterm()
    began = time.monotonic()
    records, commit = SeedRecords(arguments.record), revision() if arguments.record else ""
    parts = _parts(arguments.seeds, MODES if arguments.mode == "both" else [arguments.mode], records)
    seeds: Counter[str] = Counter()
    findings: list[Finding] = []
    points, told_at, code = 0, began, 0
    try:
        for report in _reports(parts, arguments.processes):
            seeds[report.part.mode] += report.part.last - report.part.first + 1
            points += report.points
            for finding in report.findings:
                findings.append(finding)
                if len(findings) <= MOST_SHOWN:
                    print(f"! {finding.name}: {finding.shown}", flush=True)
            records.add(report, commit)
            if (findings and arguments.first) or time.monotonic() - began > arguments.seconds:
                break
            if time.monotonic() - told_at >= PROGRESS_SECONDS:
                told_at = time.monotonic()
                print(f"{seeds.total()} seeds, {len(findings)} problems, {told_at - began:.0f} s", flush=True)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if len(findings) > MOST_SHOWN:
        print("! also", ", ".join(finding.name for finding in findings[MOST_SHOWN:]))
    shares = ", ".join(f"{mode} {seeds[mode]}" for mode in MODES if seeds[mode])
    seconds = time.monotonic() - began
    print(f"simulate: {seeds.total()} seeds ({shares}), {points} points, {len(findings)} problems, {seconds:.0f} s")
    sys.exit(code or bool(findings))


def _parts(seeds: tuple[int, int], modes: Sequence[Mode], records: SeedRecords) -> list[Part]:
    """Return parts of the seeds, of each mode in turns."""
    of_modes = (records.missing(mode, *seeds, SEEDS_AT_ONCE) for mode in modes)
    return [part for turn in zip_longest(*of_modes) for part in turn if part]


def _reports(parts: list[Part], count: int) -> Iterator[Report]:
    if count == 1 or len(parts) == 1:
        yield from map(run_part, parts)
        return
    with processes(count, gc.disable) as pool:
        for future in as_completed([pool.submit(run_part, part) for part in parts]):
            yield future.result()


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    seeds = int(first), int(last or first)
    if seeds[0] > seeds[1]:
        raise argparse.ArgumentTypeError(f"the first seed must not be above the last, got {text}")
    return seeds


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=_range, default=(0, 199), help="one, or the first and the last: 0-199")
    parser.add_argument("--mode", choices=(*MODES, "both"), default="both")
    parser.add_argument("--first", action="store_true", help="stop soon after the first problem")
    parser.add_argument("--record", type=record_file, help="a file of the seeds that have run without a problem")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop soon after this time")
    parser.add_argument("--processes", type=positive, default=os.cpu_count() or 1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
