"""What `rowcall top` draws: the most urgent first, and only as much as there is room for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from rowcall.cli.commands.errors import errors_table
from rowcall.cli.commands.retention import retention_line
from rowcall.cli.commands.retries import attempts_table
from rowcall.cli.commands.stats import counts_table, flow_text, pace_table, paused_text, states_table, states_text
from rowcall.cli.commands.stuck import stuck_table
from rowcall.cli.present.output import NARROW_COLUMNS, bar_width, moment, text
from rowcall.domain.errors import RowcallError
from rowcall.domain.job import ErrorGroup, InProgress, RetentionReport, Retries, Stats
from rowcall.overview.formats import counted, duration
from rowcall.overview.liveness import Liveness

LATE_SECONDS = 3.0
MOST_ROWS = 8
FEW_ROWS = 3
TALL_LINES, SHORT_LINES = 40, 30
_GAP = 4
_BAR_WIDTH = 24


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    now: datetime
    stats: Stats
    stuck: list[InProgress]
    retries: Retries
    errors: list[ErrorGroup]
    retention: RetentionReport
    workers: dict[str, Liveness]


class Section(NamedTuple):
    name: str
    shown: RenderableType


class Screen:
    """Draws what was last heard, and how long ago that was, at whatever size the terminal has by then."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._heard_at = time.monotonic()
        self._error: RowcallError | None = None

    def update(self, answers: Answers) -> None:
        self._answers, self._heard_at, self._error = answers, time.monotonic(), None

    def fail(self, error: RowcallError) -> None:
        self._error = error

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(Group(*self._head()), options.update(height=None), pad=False)
        height = options.height or console.height
        left: list[str] = []
        for section in sections(self._answers, options.max_width, height):
            more = console.render_lines(Group(Text(), section.shown), options.update(height=None), pad=False)
            # the last line is kept for the names of what is left out
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
        yield head(self._answers)
        silent = time.monotonic() - self._heard_at
        if self._error is not None:
            said = f"no answer for {duration(silent)}, asking again: {self._error}"
            yield text(said.splitlines()[0], "bold red")
        elif silent > LATE_SECONDS:
            yield text(f"no answer for {duration(silent)}", "yellow")


def whole(answers: Answers, width: int) -> Group:
    """All of it, however many lines that is."""
    parts: list[RenderableType] = [head(answers)]
    for section in sections(answers, width, TALL_LINES):
        parts += [Text(), section.shown]
    return Group(*parts)


def head(answers: Answers) -> Text:
    states = list(answers.workers.values())
    alive = states.count(Liveness.ALIVE)
    said = text(f"{answers.name}  {moment(answers.now)[:-4]} UTC  ", "bold")
    said.append_text(text(counted(alive, "worker"), "bold" if alive else "bold red"))
    for state in (Liveness.SILENT, Liveness.GONE):
        if states.count(state):
            said.append_text(text(f", {states.count(state)} {state}", "bold red"))
    return said


def sections(answers: Answers, width: int, height: int) -> Iterator[Section]:
    """In the order in which they are wanted when there is no room for all."""
    rows = MOST_ROWS if height >= TALL_LINES else FEW_ROWS
    wide = width >= NARROW_COLUMNS
    yield Section("rates", flow_text(answers.stats))
    if answers.stats.paused:
        yield Section("pauses", paused_text(answers.stats))
    yield Section("states", states_text(answers.stats) if height < SHORT_LINES else _beside(answers, wide))
    if answers.stuck:
        found = stuck_table(answers.stuck[:rows], answers.workers, wide=wide)
        yield _headed("running", "running, longest without a sign of life first", found)
    if answers.errors:
        found = errors_table(answers.errors[:rows], answers.now, wide=wide)
        yield _headed("errors", "failed, most frequent reason first", found)
    yield from _flow(answers.stats, wide, rows)
    if not wide and answers.retries.by_attempts:
        yield Section("retries", attempts_table(answers.retries, bar_width(width), rows))
    yield Section("retention", text(retention_line(answers.retention)))


def _flow(stats: Stats, wide: bool, rows: int) -> Iterator[Section]:
    if stats.by_queue:
        found = counts_table("queue", stats.by_queue, stats.oldest_waiting_by_queue, rows)[0]
        yield Section("queues", found)
    if stats.pace_by_type:
        found = pace_table("type", stats.pace_by_type, times=wide, most=rows)[0]
        yield _headed("types", f"the last {duration(stats.window)}", found)


def _beside(answers: Answers, wide: bool) -> RenderableType:
    """Counts by state; by attempts beside them, where there is room."""
    states = states_table(answers.stats, _BAR_WIDTH if wide else 12)
    if not wide or not answers.retries.by_attempts:
        return states
    both = Table.grid(padding=(0, _GAP, 0, 0))
    both.add_row(states, attempts_table(answers.retries, _BAR_WIDTH, len(answers.stats.by_status) + 1))
    return both


def _headed(name: str, heading: str, shown: RenderableType) -> Section:
    return Section(name, Group(text(heading, "bold"), shown))
