"""`rowcall top`: queues and everything else on one screen that stays up to date, most urgent first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import NamedTuple

import click
import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from rowcall.base.clock import Clock
from rowcall.base.text import NOTHING, duration
from rowcall.cli.command import Answer, local_option, queue_command, window_option
from rowcall.cli.commands.errors import error_groups, errors_table, failing, failing_heading, failing_table
from rowcall.cli.commands.retention import retention_line
from rowcall.cli.commands.retries import attempts_table
from rowcall.cli.commands.stats import pace_table, paused_text, rates_text, states_table, states_text
from rowcall.cli.commands.stuck import in_progress, in_progress_as_json, stuck_table, worker_states
from rowcall.cli.present.console import NARROW_COLUMNS, console, show
from rowcall.cli.present.findings import attention_text, findings
from rowcall.cli.present.text_tables import Table, bar_width, first_of, sparkline, text
from rowcall.cli.processes import interruptible, reading_keys
from rowcall.cli.target import Target
from rowcall.domain.attention import Finding
from rowcall.domain.errors import RowcallError
from rowcall.domain.job import (
    ErrorGroup,
    Failing,
    InProgress,
    Pace,
    RetentionReport,
    Retries,
    Stats,
    Status,
    WorkerInfo,
)
from rowcall.operations.stats import throughput
from rowcall.overview.attention.queue_waits import QueueWait, queue_waits
from rowcall.overview.formats import counted, in_one_unit, to_the_second
from rowcall.overview.liveness import Liveness, database_time
from rowcall.overview.scrub import scrubbed

REFRESH_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 10.0
REDRAWS_PER_SECOND = 2
SHOWN = 20
LATE_SECONDS = 3.0
ROWS = (8, 5, 3, 1)
"""Of each table, as far as there is room."""
FINDINGS = ((SHOWN, SHOWN), (8, 8), (8, 3), (8, 1), (5, 1), (3, 1), (3, 0), (1, 0))
"""How many are shown, and of how many what to do."""
TALL_LINES, SHORT_LINES = 40, 30
SPARKLINE_SECONDS, SPARKLINE_WIDTH = 3600.0, 12
_GAP = 4
_BAR_WIDTH = 24
_SHORT_UNITS = {"per second": "s", "per minute": "min", "per hour": "h"}
PARTS = ("attention", "queues", "running", "errors", "tasks", "totals")
"""The key of each part is its number, from 1."""


@queue_command("top", "Watch queues and everything else on one live screen.")
@window_option
@click.option("--once", is_flag=True, help="Print one screen and exit, as if the output were not a terminal.")
@local_option
def top_command(target: Target, window: float, once: bool, zone: tzinfo | None) -> Answer:
    """Watch what needs attention, queues and why their jobs wait, running jobs, failures, tasks and totals.

    The screen is refreshed every second, until q or Ctrl-C. Keys 1 to 6 show one part on the whole screen, 0 shows
    all. If the database does not answer, it says so and tries again.

    With --json: {"stats": {…}, "waits": {"mail": [{"reason", "sentence", "job_id"}, …], …}, "attention": [{"code",
    "severity", "message", "evidence", "advice", "link", "since"}, …], "stuck": [{…}, …], "retries": {…}, "errors":
    [{…}, …], "failing": [{…}, …], "retention": {…}, "workers": {"alive", "gone", "silent", "stopped", "running",
    "concurrency", "buffered"}}, each as the command of that name prints it. "waits" says why due jobs of each queue
    wait, most urgent first.
    """
    snapshot = _snapshot(target, window, zone)
    live = not once and sys.stdout.isatty()
    return Answer(
        _data(snapshot), lambda: _watch(target, window, zone) if live else show(whole(snapshot, console().width))
    )


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    now: datetime
    zone: tzinfo | None = UTC
    window: float
    stats: Stats
    waits: Mapping[str, Sequence[QueueWait]]
    ended: Mapping[str, Sequence[int]]
    """How many attempts ended in each part of the last hour, by queue."""
    stuck: list[InProgress]
    retries: Retries
    errors: list[ErrorGroup]
    failing: list[Failing]
    retention: RetentionReport
    attention: list[Finding]
    workers: dict[str, Liveness]
    registered: list[WorkerInfo]

    @property
    def busy(self) -> dict[str, int]:
        """How many jobs the workers that are alive run, of how many at most, and how many they have buffered."""
        alive = [worker for worker in self.registered if self.workers[worker.name] == Liveness.ALIVE]
        return {name: sum(getattr(worker, name) for worker in alive) for name in ("running", "concurrency", "buffered")}


def _snapshot(target: Target, window: float, zone: tzinfo | None) -> Snapshot:
    workers = target.jobs.workers()
    failures = target.queue.declared.failures
    waits = target.queue.run(queue_waits(target.queue))
    return Snapshot(
        name=target.queue.database.name,
        now=database_time(target.queue),
        zone=zone,
        window=window,
        waits={name: [scrubbed(failures, one) for one in reasons] for name, reasons in waits.items()},
        ended=_ended(target),
        stats=target.jobs.stats(window=window),
        stuck=in_progress(target, SHOWN),
        retries=target.jobs.retries(),
        errors=error_groups(target, SHOWN),
        failing=failing(target, window, SHOWN),
        retention=target.jobs.retention(),
        attention=findings(target),
        workers=worker_states(target, workers),
        registered=workers,
    )


def _ended(target: Target) -> dict[str, list[int]]:
    by_queue: dict[str, list[int]] = {}
    for (named, _), counts in target.queue.run(throughput(target.queue, window=SPARKLINE_SECONDS)).items():
        ended = [failed + other for failed, other in zip(counts.failed, counts.others, strict=True)]
        former = by_queue.get(named, [0] * len(ended))
        by_queue[named] = [one + other for one, other in zip(former, ended, strict=True)]
    return by_queue


def _watch(target: Target, window: float, zone: tzinfo | None) -> None:
    clock = target.queue.clock
    screen = Screen(_snapshot(target, window, zone), clock)
    live = Live(screen, console=console(), screen=True, refresh_per_second=REDRAWS_PER_SECOND)

    def choose(key: str) -> None:
        if screen.choose(key):
            live.refresh()

    try:
        with interruptible(), reading_keys(choose), live:
            while True:
                began = clock.monotonic()
                try:
                    screen.update(_snapshot(target, window, zone))
                except RowcallError as error:
                    screen.fail(error)
                took = clock.monotonic() - began
                clock.sleep(max(REFRESH_SECONDS - took, min(took, LONGEST_PAUSE_SECONDS)))  # busy half the time at most
    except KeyboardInterrupt:
        pass  # the way to leave


def _data(snapshot: Snapshot) -> dict[str, object]:
    states = list(snapshot.workers.values())
    return {
        "stats": snapshot.stats,
        "waits": snapshot.waits,
        "stuck": in_progress_as_json(snapshot.stuck, snapshot.workers),
        "retries": msgspec.to_builtins(snapshot.retries, str_keys=True),
        "errors": snapshot.errors,
        "failing": snapshot.failing,
        "retention": snapshot.retention,
        "attention": snapshot.attention,
        "workers": {**{state.value: states.count(state) for state in Liveness}, **snapshot.busy},
    }


class Section(NamedTuple):
    """A part of the screen, in several sizes: alone on the screen, and next to others, the largest one first.

    `share` is its part of the lines at most.
    """

    part: str
    sizes: Sequence[Callable[[], RenderableType]]
    share: float = 1.0


class Screen:
    """Draws the last snapshot, and how old it is, at the size that the terminal has now."""

    def __init__(self, snapshot: Snapshot, clock: Clock) -> None:
        self._clock = clock
        self._snapshot = snapshot
        self._taken_at = clock.monotonic()
        self._error: RowcallError | None = None
        self._part: str | None = None

    def update(self, snapshot: Snapshot) -> None:
        self._snapshot, self._taken_at, self._error = snapshot, self._clock.monotonic(), None

    def fail(self, error: RowcallError) -> None:
        self._error = error

    def choose(self, key: str) -> bool:
        """Show the part of a key, or all of them; return whether the key has a meaning."""
        parts = {"0": None, **{str(number): part for number, part in enumerate(PARTS, 1)}}
        if key not in parts:
            return False
        self._part = parts[key]
        return True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        flowing = options.update(height=None)
        lines = console.render_lines(Group(*self._head()), flowing, pad=False)
        left: set[str] = set()
        for section in sections(self._snapshot, options.max_width, height):
            if self._part is not None and section.part != self._part:
                continue
            room = height - 1 - len(lines)  # the last line has the keys
            if self._part is None:
                room = min(room, round(height * section.share))
            for draw in section.sizes[1:] if self._part is None else section.sizes:
                more = console.render_lines(Group(Text(), draw()), flowing, pad=False)
                if len(more) <= room:
                    lines += more
                    break
            else:
                left.add(section.part)
        lines = lines[: height - 1]
        lines += [[]] * (height - 1 - len(lines))
        lines += console.render_lines(_keys(self._part, left), options.update(height=1, no_wrap=True), pad=False)[:1]
        for number, line in enumerate(lines):
            if number:
                yield Segment.line()
            yield from line

    def _head(self) -> Iterator[RenderableType]:
        yield head(self._snapshot)
        silent = self._clock.monotonic() - self._taken_at
        if self._error is not None:
            problem = str(self._error).splitlines()[0]
            yield text(f"no answer for {duration(silent)}, trying again: {problem}", "bold red")
        elif silent > LATE_SECONDS:
            yield text(f"no answer for {duration(silent)}", "yellow")


def _keys(chosen: str | None, left: set[str]) -> Text:
    """Return the line of keys: with a plus, what has no room."""
    line = text("0 all", "dim" if chosen is None else "")
    for number, part in enumerate(PARTS, 1):
        style = "reverse" if part == chosen else "bold" if part in left else "dim"
        line.append("  ")
        line.append_text(text(f"{number} {part}{'+' if part in left else ''}", style))
    line.append("  q quit", "dim")
    return line


def whole(snapshot: Snapshot, width: int) -> Group:
    """Return everything, at any height."""
    parts: list[RenderableType] = [head(snapshot)]
    for section in sections(snapshot, width, TALL_LINES):
        parts += [Text(), section.sizes[1]()]
    return Group(*parts)


def head(snapshot: Snapshot) -> Text:
    states = list(snapshot.workers.values())
    alive = states.count(Liveness.ALIVE)
    line = text(f"{snapshot.name}  {to_the_second(snapshot.now, snapshot.zone)}  ", "bold")
    line.append_text(text(counted(alive, "worker"), "bold" if alive else "bold red"))
    for state in (Liveness.SILENT, Liveness.GONE):
        if states.count(state):
            line.append_text(text(f", {states.count(state)} {state}", "bold red"))
    if alive:
        busy = snapshot.busy
        line.append_text(text(f", running {busy['running']:,} of {busy['concurrency']:,}", "bold"))
        if busy["buffered"]:
            line.append_text(text(f", {busy['buffered']:,} buffered", "bold"))
    return line


def sections(snapshot: Snapshot, width: int, height: int) -> Iterator[Section]:
    """Yield sections, most important first."""
    if snapshot.attention:
        sizes = [partial(attention_text, snapshot.attention, *size) for size in FINDINGS]
        yield Section("attention", sizes, share=0.4)
    yield _sized("queues", lambda rows: queues_table(snapshot, rows), share=0.6)
    short, wide = height < SHORT_LINES, width >= NARROW_COLUMNS
    yield _sized("totals", lambda rows: _totals(snapshot, short, wide))
    if snapshot.stuck:
        yield _headed(
            *("running", "running, longest without a heartbeat first"),
            lambda rows: stuck_table(snapshot.stuck[:rows], snapshot.workers),
        )
    if snapshot.failing:
        heading = failing_heading(snapshot.window)
        yield _headed("errors", heading, lambda rows: failing_table(snapshot.failing[:rows]))
    if snapshot.errors:
        heading = "failed, most frequent error first"
        yield _headed("errors", heading, lambda rows: errors_table(snapshot.errors[:rows], snapshot.now))
    if paces := snapshot.stats.pace_by_type:
        heading = f"tasks in the last {duration(snapshot.stats.window)}"
        yield _headed("tasks", heading, lambda rows: pace_table("task", paces, rows)[0])
    if not wide and not short and snapshot.retries.by_attempts:
        yield _sized("totals", lambda rows: attempts_table(snapshot.retries, bar_width(width), rows))
    if not short:
        yield _sized("totals", lambda rows: text(retention_line(snapshot.retention)))


def queues_table(snapshot: Snapshot, most: int) -> RenderableType:
    """Return a row for each queue: its pending jobs, how fast jobs arrive and are done, and why they wait."""
    stats = snapshot.stats
    ages, paces = stats.oldest_waiting_by_queue, stats.pace_by_queue
    pauses = {one.name: f"paused by {one.actor}" for one in stats.paused if one.kind == "queue"}
    names = sorted(
        {*stats.by_queue, *paces, *pauses},
        key=lambda name: (-ages.get(name, 0), -_pending(stats, name), -_done(paces.get(name, Pace())), name),
    )
    arrived = [paces.get(name, Pace()).arrived / max(stats.arrival_window, 1) for name in names]
    done = [_done(paces.get(name, Pace())) / max(stats.window, 1) for name in names]
    rates, unit = in_one_unit(*arrived, *done)
    per = _SHORT_UNITS[unit]
    numbers = ("pending", "oldest", f"in/{per}", f"out/{per}")
    shown = Table("queue", *numbers, "last hour", "why they wait", right=numbers, notes=("why they wait",))
    rows, _ = first_of(names, most)
    for place, name in enumerate(rows):
        reasons = [one.sentence for one in snapshot.waits.get(name, ())] or [pauses.get(name, "")]
        more = f" (and {counted(len(reasons) - 1, 'other reason')})" if len(reasons) > 1 else ""
        shown.add_row(
            name,
            _pending(stats, name),
            duration(ages[name]) if name in ages else text(NOTHING, "dim"),
            rates[place],
            rates[len(names) + place],
            text(sparkline(snapshot.ended.get(name, ()), SPARKLINE_WIDTH), "green"),
            text(f"{reasons[0]}{more}", "yellow" if reasons[0] else ""),
        )
    if not names:
        return text("no queue has a job", "dim")
    left = len(names) - len(rows)
    return Group(shown, text(f"and {counted(left, 'more queue')}", "dim")) if left else shown


def _pending(stats: Stats, queue: str) -> int:
    return stats.by_queue.get(queue, {}).get(Status.PENDING, 0)


def _done(pace: Pace) -> int:
    return pace.succeeded + pace.failed


def _totals(snapshot: Snapshot, short: bool, wide: bool) -> Group:
    """Return counts by state, and rates. Next to them are counts by attempts, if there is room."""
    stats = snapshot.stats
    parts: list[RenderableType] = [rates_text(stats)]
    if tasks := [one for one in stats.paused if one.kind == "task"]:
        parts.append(paused_text(tasks))
    if short:
        return Group(*parts, states_text(stats))
    states: RenderableType = states_table(stats, _BAR_WIDTH if wide else 12)
    if wide and snapshot.retries.by_attempts:
        both = Grid.grid(padding=(0, _GAP, 0, 0))
        both.add_row(states, attempts_table(snapshot.retries, _BAR_WIDTH, len(stats.by_status) + 1))
        states = both
    return Group(*parts, Text(), states)


def _headed(part: str, heading: str, draw: Callable[[int], RenderableType]) -> Section:
    return _sized(part, lambda rows: Group(text(heading, "bold"), draw(rows)))


def _sized(part: str, draw: Callable[[int], RenderableType], share: float = 1.0) -> Section:
    """Return a section of which `draw` returns at most that many rows."""
    return Section(part, [partial(draw, rows) for rows in (SHOWN, *ROWS)], share)
