"""Measure Rowcall next to the bare databases and next to other queues, print the tables, and write docs/benchmarks."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from benchmarks.bench import MYSQL_SETTINGS, Bench
from benchmarks.database import Kind
from benchmarks.experiments import EXPERIMENTS
from benchmarks.machine import facts
from benchmarks.report.drains import Comparison, what_slows, what_you_get
from benchmarks.report.page import add_earlier, write
from benchmarks.report.sections import measured_sections
from benchmarks.report.table import FIGURE_HEADINGS, TARGET_HEADINGS, figure_rows, target_rows, text_table
from benchmarks.run import Results, run
from benchmarks.sizes import FULL, QUICK
from benchmarks.workers import ROOT
from rowcall.testing.mysql import INSTALL_ADVICE, MysqlServer, find_server
from rowcall.testing.postgres import DURABLE_SETTINGS, PostgresServer

PUBLISHED = ROOT / "docs" / "benchmarks"
TRIED = ROOT / "build" / "benchmarks"


def main() -> int:
    options = arguments()
    if options.list:
        print("\n".join(f"{experiment.name:<18} {experiment.title}" for experiment in EXPERIMENTS))
        return 0
    # only a whole run is worth publishing, or parts at full size next to an earlier one
    partly = options.quick or options.only or options.database
    output: Path = options.output or (TRIED if partly and not options.update else PUBLISHED)
    results, machine = measure(options)
    if options.update:
        machine = {**add_earlier(results, output), **machine}
    show(results)
    write(results, machine, output)
    path = output.relative_to(ROOT) if output.is_relative_to(ROOT) else output
    print(f"Written to {path} after {results.seconds:.0f} s.")
    if options.quick:
        print("A quick run shows that all works; its figures mean nothing.")
    return 1 if results.failures else 0


def measure(options: argparse.Namespace) -> tuple[Results, dict[str, str]]:
    chosen = [
        experiment
        for experiment in EXPERIMENTS
        if (not options.only or experiment.name in options.only)
        and (not options.database or experiment.kind == options.database)
    ]
    with tempfile.TemporaryDirectory(prefix="rowcall-bench-", dir=options.folder) as name, ExitStack() as stack:
        folder = Path(name)
        server = None
        if any(experiment.kind == "postgres" for experiment in chosen):
            folder.chmod(0o711)  # a server that root starts runs as another user
            server = stack.enter_context(PostgresServer(folder / "postgres", settings=DURABLE_SETTINGS))
        mysql = None
        if any(experiment.kind == "mysql" for experiment in chosen):
            if find_server() is None:
                say(f"MariaDB is not measured: no server is installed ({INSTALL_ADVICE})")
                chosen = [experiment for experiment in chosen if experiment.kind != "mysql"]
            else:
                folder.chmod(0o711)
                mysql = stack.enter_context(MysqlServer(folder / "mysql", settings=MYSQL_SETTINGS))
        machine = facts(folder, server, mysql)
        for fact_name, fact in machine.items():
            say(f"{fact_name}: {fact}")
        bench = Bench(QUICK if options.quick else FULL, folder, server, mysql)
        return run(chosen, bench, options.rounds, say), machine


def show(results: Results) -> None:
    measured = results.measured
    show_compared(what_you_get(measured))
    for section in measured_sections(measured):
        print(f"\n{section.heading}\n")
        print(text_table(figure_rows(section.labels, measured), FIGURE_HEADINGS))
        print()
        targets = [target for target in section.targets if target.spread(measured) is not None]
        print(text_table(target_rows(targets, measured), TARGET_HEADINGS))
    show_compared(what_slows(measured))
    print()
    for name, text in results.failures.items():
        print(f"{name} could not be measured: {text}")


def show_compared(sections: list[Comparison]) -> None:
    for section in sections:
        print(f"\n{section.heading}\n\n{text_table(section.rows, section.headings)}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [experiment.name for experiment in EXPERIMENTS]
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all works")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="only these experiments")
    parser.add_argument("--database", choices=get_args(Kind), help="only the experiments on this database")
    parser.add_argument("--list", action="store_true", help="name the experiments, and end")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often each runs (5, with --quick 2)")
    parser.add_argument("--folder", type=Path, help="where to put the databases: a folder on the disk to measure")
    parser.add_argument(
        "--output", type=Path, help="where to write to (docs/benchmarks; parts of it: build/benchmarks)"
    )
    parser.add_argument(
        "--update", action="store_true", help="write into docs/benchmarks, and keep what other experiments measured"
    )
    options = parser.parse_args()
    if options.update and options.quick:
        parser.error("--update publishes figures, and those of --quick mean nothing")
    if options.rounds is None:
        options.rounds = 2 if options.quick else 5
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    return options


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
