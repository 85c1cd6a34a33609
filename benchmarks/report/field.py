"""The page about the field: two tables, pictures, and how each queue was run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.contestants.field import PEERS, Peer
from benchmarks.report.bars import Bar, draw
from benchmarks.report.page import raw
from benchmarks.report.table import between, markdown_table, short, text_table
from benchmarks.run import Results
from benchmarks.sizes import FULL
from benchmarks.statistics import spread

FIGURES, PAGE = "field.json", "field.md"


@dataclass
class Outcome:
    results: Results
    machine: dict[str, str]
    not_installed: dict[str, str] = field(default_factory=dict)
    note: str = ""
    """What readers should know about the circumstances."""


class Column(NamedTuple):
    heading: str
    figure: str
    more_is_better: bool = True


SPEED = (
    Column("single enqueue, jobs/s", "enqueue.single"),
    Column("bulk enqueue, jobs/s", "enqueue.bulk"),
    Column("no-ops, jobs/s", "drain.rate"),
    Column("jobs of 5 ms, jobs/s", "slow.rate"),
    Column("no-ops next to 1,000,000 old rows, jobs/s", "old.rate"),
    Column("pick-up p50, ms", "pickup.p50_ms", more_is_better=False),
    Column("pick-up p99, ms", "pickup.p99_ms", more_is_better=False),
    Column("idle worker, % of a core", "idle.cpu_percent", more_is_better=False),
    Column("memory, MB", "idle.memory_mb", more_is_better=False),
)
KILLS = ("enqueued", "kills", "lost", "failed", "stuck", "twice")
KILL_HEADINGS = (
    *(
        "queue",
        "on",
        "the job runs again after",
        "enqueued",
        "kills",
        "lost",
        "failed, never run",
        "stuck",
        "run twice",
    ),
)
FATES = {"lost": "never: lost", "failed": "never: it ends as failed", "stuck": "not within {:.0f} s: stuck"}
PICTURES = {
    "field-drains.svg": (SPEED[2], "Draining no-op jobs by the command of the docs, jobs per second"),
    "field-pickups.svg": (SPEED[6], "From enqueue to the start of the handler, p99, ms (less is better)"),
}

HOW = """\
Each queue is the latest release in its own environment. Its worker runs by the command that its docs show, with
its defaults. The table above has the settings that differ. Each commit is on disk before it counts: SQLite with
`synchronous=full`, PostgreSQL with `fsync=on`, Redis with `appendonly yes` and `appendfsync always`. Redis's default is
faster, and may lose the last seconds in a power cut.

- **Enqueue**: one producer, no worker. Single: one call after the other. Bulk: 10,000 jobs by the queue's call for many
  jobs, 1,000 in each; empty if it has none.
- **Drain**: all jobs are in the queue when the worker starts. The time runs from the start of the first job until
  another process sees that none is left, so the start of the worker is not counted. The numbers of jobs differ, so that
  each drain takes some seconds.
- **Jobs of 5 ms** sleep for that time. A queue that runs one job at a time cannot do 200 a second.
- **Old rows**: the same drain of no-ops next to 1,000,000 finished jobs, for queues that keep finished jobs.
- **Pick-up**: from just before `enqueue` until the handler starts in an idle worker, 100 jobs, 50 to 150 ms apart.
- **Idle worker**: all its processes, over 10 s, after it has run a job. Memory that processes share is counted once.
- **Recovery**: the worker and all its processes are killed by SIGKILL within a job, and started again at once. The time
  runs from the kill until the job begins again.
- **Kills**: jobs of 50 ms are enqueued one by one, at most 25 a second on average. Every 2 to 5 s the worker is killed
  by SIGKILL and started again. Each job appends a line to a file at its end. After the last kill, the worker stays
  until the queue is empty, or until there was no progress for 90 s.
- **Lost**: `enqueue` returned, there is no line, and the queue does not know the job any more. **Stuck**: there is no
  line, and the queue still has the job. **Run twice**: there is more than one line, because the kill came between the
  line and the commit. Only a queue that never runs a job again can avoid it.
"""


def add_earlier_outcome(outcome: Outcome, folder: Path) -> None:
    """Add what an earlier run measured, or could not, and this one did not try."""
    path = folder / FIGURES
    if not path.exists():
        return
    content = json.loads(path.read_text(encoding="utf-8"))
    outcome.machine = outcome.machine or content["machine"]
    outcome.note = outcome.note or content["note"]
    results = outcome.results
    tried = {*results.dates, *results.failures}
    results.dates |= {name: date for name, date in content["dates"].items() if name not in tried}
    results.failures |= {name: text for name, text in content["failures"].items() if name not in tried}
    results.measured |= {
        name: figure["values"] for name, figure in content["figures"].items() if name.partition(".")[0] not in tried
    }
    peers_tried = {name.partition("/")[0] for name in tried}
    outcome.not_installed |= {
        name: reason for name, reason in content["not installed"].items() if name not in peers_tried
    }


def write_field(outcome: Outcome, folder: Path) -> None:
    """Write field.md, its pictures and field.json into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    measured = outcome.results.measured
    for name, (column, title) in PICTURES.items():
        bars = [
            Bar(peer.name, value, f"{short(value)} ({peer.service})", peer.ours)
            for peer in PEERS
            if (value := value_of(peer, column.figure, measured))
        ]
        if bars:
            bars.sort(key=lambda bar: -bar.value if column.more_is_better else bar.value)
            (folder / name).write_text(draw(title, bars), encoding="utf-8")
    (folder / PAGE).write_text(page(outcome), encoding="utf-8")
    content = json.loads(raw(outcome.results, outcome.machine))
    content |= {"failures": outcome.results.failures, "not installed": outcome.not_installed, "note": outcome.note}
    (folder / FIGURES).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def page(outcome: Outcome) -> str:
    results = outcome.results
    most = max((len(values) for values in results.measured.values()), default=0)
    medians = "One round" if most < 2 else f"Medians of up to {most} rounds"
    days = ", ".join(sorted({*results.dates.values()}))
    paragraphs = [
        "# The field",
        *(
            []
            if results.sizes.field_share == FULL.field_share
            else ["**A trial run with small sizes: do not use these figures.**"]
        ),
        f"Rowcall next to other queues, on the same machine, by `make bench-field`, measured on {days}. The best of"
        " each column is bold. Compare the figures with each other: all depend on the machine."
        f" [{FIGURES}]({FIGURES}) has the figures of every round."
        " To change this page, edit `benchmarks/`.",
        *([outcome.note] if outcome.note else []),
        "## Speed",
        f"{medians}. More is better, except for the last four columns.",
        markdown_table(speed_rows(results.measured, bold="**"), speed_headings()),
        *better_elsewhere(results.measured),
        *(f"![{title}]({name})" for name, (_, title) in PICTURES.items()),
        "## Killed workers",
        markdown_table(kill_rows(results), KILL_HEADINGS),
        *(f"Not installed: {name}: {reason}." for name, reason in outcome.not_installed.items()),
        *(f"Failed: {name}: {reason}" for name, reason in results.failures.items()),
        "## How each queue ran",
        markdown_table(run_rows(), ("queue", "installed", "worker", "settings", "jobs of a killed worker")),
        "## Machine",
        "\n".join(f"- {name}: {fact}" for name, fact in outcome.machine.items()),
        "## Method",
        HOW.rstrip(),
    ]
    if most > 1:
        rows = markdown_table(spread_rows(results.measured), speed_headings())
        paragraphs += ["## Spread", "Minimum and maximum of the rounds, where there were several.", rows]
    return "\n\n".join(paragraphs) + "\n"


def text_of(outcome: Outcome) -> str:
    """Return the tables for a terminal."""
    results = outcome.results
    tables = (
        text_table(speed_rows(results.measured), speed_headings()),
        text_table(kill_rows(results), KILL_HEADINGS),
    )
    return "\n\n".join(tables)


def value_of(peer: Peer, figure: str, measured: Mapping[str, Sequence[float]]) -> float | None:
    values = measured.get(f"{peer.name}/{figure}")
    return median(values) if values else None


def speed_headings() -> list[str]:
    return ["queue", "on", *(column.heading for column in SPEED)]


def speed_rows(measured: Mapping[str, Sequence[float]], bold: str = "") -> list[list[str]]:
    """Return a row for each queue that was measured; the best of each column is in bold."""
    best = {column: _best(column, measured) for column in SPEED}
    return [
        [peer.name, peer.service, *(_cell(peer, column, best[column], measured, bold) for column in SPEED)]
        for peer in _peers(measured)
    ]


def _best(column: Column, measured: Mapping[str, Sequence[float]]) -> Peer | None:
    values = {peer.name: value for peer in PEERS if (value := value_of(peer, column.figure, measured)) is not None}
    if not values:
        return None
    name = (max if column.more_is_better else min)(values, key=values.__getitem__)
    return next(peer for peer in PEERS if peer.name == name)


def _cell(peer: Peer, column: Column, best: Peer | None, measured: Mapping[str, Sequence[float]], bold: str) -> str:
    value = value_of(peer, column.figure, measured)
    if value is None:
        return peer.keeps if column.figure == "old.rate" and peer.history is None else ""
    return f"{bold}{short(value)}{bold}" if peer is best else short(value)


def better_elsewhere(measured: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yield a paragraph about what other queues are better at, on the same service and on any."""
    lines = []
    for column in SPEED:
        for ours in (peer for peer in PEERS if peer.ours):
            own = value_of(ours, column.figure, measured)
            if own is None:
                continue
            better = [
                f"{peer.name} ({peer.service}, {short(value)})"
                for peer in PEERS
                if not peer.ours
                and (value := value_of(peer, column.figure, measured)) is not None
                and (value > own if column.more_is_better else value < own)
            ]
            if better:
                lines.append(f"- {column.heading}: {ours.name} has {short(own)}; better: {', '.join(better)}.")
    if lines:
        yield "Where other queues are better:\n\n" + "\n".join(lines)


def kill_rows(results: Results) -> list[list[str]]:
    """Return a row for each queue: what became of its jobs."""
    return [
        [
            *(peer.name, peer.service, _recovery(peer, results)),
            *(
                "" if count is None else f"{count:,.0f}"
                for count in (value_of(peer, f"kills.{name}", results.measured) for name in KILLS)
            ),
        ]
        for peer in _peers(results.measured)
    ]


def _recovery(peer: Peer, results: Results) -> str:
    seconds = value_of(peer, "recovery.seconds", results.measured)
    if seconds is not None:
        return f"{short(seconds)} s"
    fates = (text for name, text in FATES.items() if value_of(peer, f"recovery.{name}", results.measured))
    return next(fates, "not measured").format(results.sizes.field_patience_seconds)


def run_rows() -> list[list[str]]:
    return [
        [
            peer.name,
            ", ".join(peer.packages).replace("==", " ").replace("@", " "),
            f"`{peer.shown}`",
            peer.settings,
            peer.after_kill,
        ]
        for peer in PEERS
    ]


def spread_rows(measured: Mapping[str, Sequence[float]]) -> list[list[str]]:
    return [
        [
            *(peer.name, peer.service),
            *(
                between(spread(values)) if len(values := measured.get(f"{peer.name}/{column.figure}", ())) > 1 else ""
                for column in SPEED
            ),
        ]
        for peer in _peers(measured)
    ]


def _peers(measured: Mapping[str, Sequence[float]]) -> list[Peer]:
    names = {name.partition("/")[0] for name in measured}
    return [peer for peer in PEERS if peer.name in names]
