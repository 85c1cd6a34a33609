"""`rowcall top`: everything on one screen that stays up to date, most urgent first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import click
import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from rowcall.base.clock import Clock
from rowcall.base.text import duration
from rowcall.cli.command import Answer, queue_command, window_option
from rowcall.cli.commands.errors import error_groups, errors_table, failing, failing_heading, failing_table
from rowcall.cli.commands.retention import retention_line
from rowcall.cli.commands.retries import attempts_table
from rowcall.cli.commands.stats import counts_table, flow_text, pace_table, paused_text, states_table, states_text
from rowcall.cli.commands.stuck import (
    ALL_COLUMNS,
    FIRST_COLUMNS,
    in_progress,
    in_progress_as_json,
    stuck_table,
    worker_states,
)
from rowcall.cli.present.console import NARROW_COLUMNS, console, show
from rowcall.cli.present.findings import attention_text, findings
from rowcall.cli.present.text_tables import bar_width, text
from rowcall.cli.processes import interruptible, quit_key
from rowcall.cli.target import Target
from rowcall.domain.attention import Finding
from rowcall.domain.errors import RowcallError
from rowcall.domain.job import ErrorGroup, Failing, InProgress, RetentionReport, Retries, Stats, WorkerInfo
from rowcall.overview.formats import counted, moment
from rowcall.overview.liveness import Liveness, database_time

REFRESH_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 10.0
REDRAWS_PER_SECOND = 2
SHOWN = 10
LATE_SECONDS = 3.0
MOST_ROWS = 8
FEW_ROWS = 3
TALL_LINES, SHORT_LINES = 40, 30
_GAP = 4
_BAR_WIDTH = 24


@queue_command("top", "Watch everything on one live screen.")
@window_option
@click.option("--once", is_flag=True, help="Print one screen and exit, as if the output were not a terminal.")
def top_command(target: Target, window: float, once: bool) -> Answer:
    """Watch what needs attention, counts, rates, running jobs, errors, retries and retention on one screen.

    The screen is refreshed every second, until q or Ctrl-C. If the database does not answer, it says so and tries
    again. The last line names what a short terminal has no room for.

    With --json: {"stats": {…}, "attention": [{"code", "severity", "message", "evidence", "advice", "link", "since"},
    …], "stuck": [{…}, …], "retries": {…}, "errors": [{…}, …], "failing": [{…}, …], "retention": {…}, "workers":
    {"alive", "gone", "silent", "stopped", "running", "concurrency", "buffered"}}, each as the command of that name
    prints it.
    """
    snapshot = _snapshot(target, window)
    live = not once and sys.stdout.isatty()
    return Answer(_data(snapshot), lambda: _watch(target, window) if live else show(whole(snapshot, console().width)))


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    now: datetime
    window: float
    stats: Stats
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


def _snapshot(target: Target, window: float) -> Snapshot:
    workers = target.jobs.workers()
    return Snapshot(
        name=target.queue.database.name,
        now=database_time(target.queue),
        window=window,
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


def _watch(target: Target, window: float) -> None:
    clock = target.queue.clock
    screen = Screen(_snapshot(target, window), clock)
    try:
        with (
            interruptible(),
            quit_key("q"),
            Live(screen, console=console(), screen=True, refresh_per_second=REDRAWS_PER_SECOND),
        ):
            while True:
                began = clock.monotonic()
                try:
                    screen.update(_snapshot(target, window))
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
        "stuck": in_progress_as_json(snapshot.stuck, snapshot.workers),
        "retries": msgspec.to_builtins(snapshot.retries, str_keys=True),
        "errors": snapshot.errors,
        "failing": snapshot.failing,
        "retention": snapshot.retention,
        "attention": snapshot.attention,
        "workers": {**{state.value: states.count(state) for state in Liveness}, **snapshot.busy},
    }


class Section(NamedTuple):
    name: str
    shown: RenderableType


class Screen:
    """Draws the last snapshot, and how old it is, at the size that the terminal has now."""

    def __init__(self, snapshot: Snapshot, clock: Clock) -> None:
        self._clock = clock
        self._snapshot = snapshot
        self._taken_at = clock.monotonic()
        self._error: RowcallError | None = None

    def update(self, snapshot: Snapshot) -> None:
        self._snapshot, self._taken_at, self._error = snapshot, self._clock.monotonic(), None

    def fail(self, error: RowcallError) -> None:
        self._error = error

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(Group(*self._head()), options.update(height=None), pad=False)
        height = options.height or console.height
        left: list[str] = []
        for section in sections(self._snapshot, options.max_width, height):
            more = console.render_lines(Group(Text(), section.shown), options.update(height=None), pad=False)
            # the last line is for the names of what is left out
            if left or len(lines) + len(more) > height - 1:
                left.append(section.name)
            else:
                lines += more
        if left:
            said = text(f"a taller terminal shows {', '.join(left)}", "dim")
            lines += console.render_lines(said, options.update(height=None), pad=False)
        for line in lines[:height]:
            yield from line
            yield Segment.line()

    def _head(self) -> Iterator[RenderableType]:
        yield head(self._snapshot)
        silent = self._clock.monotonic() - self._taken_at
        if self._error is not None:
            problem = str(self._error).splitlines()[0]
            yield text(f"no answer for {duration(silent)}, trying again: {problem}", "bold red")
        elif silent > LATE_SECONDS:
            yield text(f"no answer for {duration(silent)}", "yellow")


def whole(snapshot: Snapshot, width: int) -> Group:
    """Return everything, at any height."""
    parts: list[RenderableType] = [head(snapshot)]
    for section in sections(snapshot, width, TALL_LINES):
        parts += [Text(), section.shown]
    return Group(*parts)


def head(snapshot: Snapshot) -> Text:
    states = list(snapshot.workers.values())
    alive = states.count(Liveness.ALIVE)
    line = text(f"{snapshot.name}  {moment(snapshot.now)[:-4]} UTC  ", "bold")
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
    rows = MOST_ROWS if height >= TALL_LINES else FEW_ROWS
    wide = width >= NARROW_COLUMNS
    if snapshot.attention:
        yield Section("attention", attention_text(snapshot.attention, rows))
    yield Section("rates", flow_text(snapshot.stats))
    if snapshot.stats.paused:
        yield Section("pauses", paused_text(snapshot.stats))
    yield Section(
        "states", states_text(snapshot.stats) if height < SHORT_LINES else _states_and_attempts(snapshot, wide)
    )
    if snapshot.stuck:
        table = stuck_table(snapshot.stuck[:rows], snapshot.workers, ALL_COLUMNS if wide else FIRST_COLUMNS)
        yield _headed("running", "running, longest without a heartbeat first", table)
    if snapshot.failing:
        table = failing_table(snapshot.failing[:rows], wide=wide)
        yield _headed("failing", failing_heading(snapshot.window), table)
    if snapshot.errors:
        table = errors_table(snapshot.errors[:rows], snapshot.now, wide=wide)
        yield _headed("errors", "failed, most frequent error first", table)
    stats = snapshot.stats
    if stats.by_queue:
        yield Section("queues", counts_table("queue", stats.by_queue, stats.oldest_waiting_by_queue, rows)[0])
    if stats.pace_by_type:
        table = pace_table("type", stats.pace_by_type, times=wide, most=rows)[0]
        yield _headed("types", f"last {duration(stats.window)}", table)
    if not wide and snapshot.retries.by_attempts:
        yield Section("retries", attempts_table(snapshot.retries, bar_width(width), rows))
    yield Section("retention", text(retention_line(snapshot.retention)))


def _states_and_attempts(snapshot: Snapshot, wide: bool) -> RenderableType:
    """Return counts by state, and next to them by attempts if there is room."""
    states = states_table(snapshot.stats, _BAR_WIDTH if wide else 12)
    if not wide or not snapshot.retries.by_attempts:
        return states
    both = Table.grid(padding=(0, _GAP, 0, 0))
    both.add_row(states, attempts_table(snapshot.retries, _BAR_WIDTH, len(snapshot.stats.by_status) + 1))
    return both


def _headed(name: str, heading: str, shown: RenderableType) -> Section:
    return Section(name, Group(text(heading, "bold"), shown))
