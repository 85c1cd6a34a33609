"""Measure Rowcall next to other queues, each by the command of its docs; print the table, and write docs/benchmarks."""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.bench import Bench, Experiment
from benchmarks.contestants.field import PEERS, Peer
from benchmarks.field.installing import NotInstalled, installed
from benchmarks.field.measures import MEASURES, Measure
from benchmarks.machine import field_facts
from benchmarks.report.field import PAGE, Outcome, add_earlier_outcome, text_of, write_field
from benchmarks.run import Results, run
from benchmarks.sizes import FULL, QUICK
from benchmarks.workers import ROOT
from rowcall.testing.postgres import DURABLE_SETTINGS, PostgresServer

PUBLISHED = ROOT / "docs" / "benchmarks"
TRIED = ROOT / "build" / "benchmarks"
ROUNDS = 3


def main() -> int:
    options = arguments()
    if options.list:
        print("\n".join(f"{peer.name:<20} {peer.service:<12} {peer.shown}" for peer in PEERS))
        return 0
    if options.page:
        write_again(options.output or PUBLISHED, options.note)
        return 0
    began = time.monotonic()
    outcome = measured(options)
    results = outcome.results
    failures = len(results.failures)
    peers = {name.partition("/")[0] for name in {*results.dates, *results.failures}}
    measures = {name.partition("/")[2] for name in {*results.dates, *results.failures}}
    last = (
        f"bench-field: {len(peers)} queues, {len(measures)} measures, {len(outcome.not_installed)} not installed,"
        f" {failures} failed, {time.monotonic() - began:,.0f} s"
    )
    partly = options.quick or options.only or options.measures or options.kill_seconds
    output: Path = options.output or (TRIED if partly and not options.update else PUBLISHED)
    if options.update:
        add_earlier_outcome(outcome, output)
    write_field(outcome, output)
    print(f"\n{text_of(outcome)}\n")
    for name, text in results.failures.items():
        print(f"{name} failed: {text}")
    print(f"Written to {output.relative_to(ROOT) if output.is_relative_to(ROOT) else output}/{PAGE}.")
    if options.quick:
        print("A quick run shows that all works; its figures mean nothing.")
    print(last)
    return 1 if failures or not peers else 0


def write_again(folder: Path, note: str) -> None:
    """Write the page from the figures that are there."""
    outcome = Outcome(Results(ROUNDS, FULL), {}, note=note)
    add_earlier_outcome(outcome, folder)
    write_field(outcome, folder)


def measured(options: argparse.Namespace) -> Outcome:
    """Install the queues, and take every measure of each, in rounds."""
    peers, not_installed = [], {}
    for peer in PEERS:
        if options.only and peer.name not in options.only:
            continue
        try:
            installed(peer)
            peers.append(peer)
        except NotInstalled as error:
            not_installed[peer.name] = str(error)
            say(f"{peer.name} is not installed: {error}")
    measures = [measure for measure in MEASURES if not options.measures or measure.name in options.measures]
    with tempfile.TemporaryDirectory(prefix="rowcall-field-", dir=options.folder) as name, ExitStack() as stack:
        folder = Path(name)
        server = None
        if any(peer.service == "PostgreSQL" for peer in peers):
            folder.chmod(0o711)  # a server that root starts runs as another user
            server = stack.enter_context(PostgresServer(folder / "postgres", settings=DURABLE_SETTINGS))
        machine = field_facts(folder, server)
        for fact_name, fact in machine.items():
            say(f"{fact_name}: {fact}")
        sizes = QUICK if options.quick else FULL
        if options.kill_seconds is not None:
            sizes = dataclasses.replace(sizes, field_kill_seconds=options.kill_seconds)
        results = run(experiments(peers, measures), Bench(sizes, folder, server), options.rounds, say)
    return Outcome(results, machine, not_installed, options.note)


def experiments(peers: Sequence[Peer], measures: Sequence[Measure]) -> list[Experiment]:
    """Each measure of one queue after the other, so that the queues are compared within the same minutes."""
    return [
        Experiment(
            f"{peer.name}/{measure.name}",
            f"{peer.name}, {measure.title}",
            lambda bench, peer=peer, measure=measure: measure.take(peer, bench),  # type: ignore[misc]
            share="one" if measure.once else "all",
        )
        for measure in measures
        for peer in peers
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.field", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all works")
    parser.add_argument("--only", type=names_of(PEERS), metavar="A,B", help="only these queues")
    parser.add_argument("--measures", type=names_of(MEASURES), metavar="A,B", help="only these measures")
    parser.add_argument("--page", action="store_true", help="write the page again from its figures, and end")
    parser.add_argument("--note", default="", help="a sentence for the page about the circumstances of the run")
    parser.add_argument("--list", action="store_true", help="name the queues, and end")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"how often most are measured ({ROUNDS}, quick: 1)")
    parser.add_argument(
        "--kill-seconds", type=float, metavar="N", help="for how long workers are killed (60, quick: 5)"
    )
    parser.add_argument("--folder", type=Path, help="where to put the databases: a folder on the disk to measure")
    parser.add_argument("--output", type=Path, help="where to write to (docs/benchmarks; parts: build/benchmarks)")
    parser.add_argument(
        "--update", action="store_true", help="write into docs/benchmarks, and keep what other runs measured"
    )
    options = parser.parse_args()
    if options.update and options.quick:
        parser.error("--update publishes figures, and those of --quick mean nothing")
    if options.rounds is None:
        options.rounds = 1 if options.quick else ROUNDS
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    return options


class names_of:  # noqa: N801
    """Reads names with commas in between."""

    def __init__(self, known: Sequence[Peer] | Sequence[Measure]) -> None:
        self._known = [item.name for item in known]

    def __call__(self, text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in self._known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(self._known)}")
        return names


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no worker is left
    sys.exit(main())
