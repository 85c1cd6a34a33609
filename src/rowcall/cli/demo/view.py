"""The demo while it runs: bars on a terminal, one line per second in a pipe."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import click
import msgspec

from rowcall.cli.present.cells import bar, text
from rowcall.cli.present.console import console
from rowcall.cli.present.tables import table
from rowcall.overview.formats import counted

if TYPE_CHECKING:
    from rich.console import Group

LINE_SECONDS = 1.0
_STYLES = {"quick": "green", "slow": "yellow", "flaky": "magenta", "delayed": "cyan"}


class Progress(msgspec.Struct, kw_only=True, frozen=True):
    """What the demo has done so far."""

    seconds: float
    enqueued: Mapping[str, int]
    done: Mapping[str, int]
    running: int
    workers: int
    events: list[str]


Show = Callable[[Progress], None]


@contextlib.contextmanager
def view(*, quiet: bool) -> Iterator[Show]:
    if quiet:
        yield lambda progress: None
    elif sys.stdout.isatty():
        with _live() as show:
            yield show
    else:
        yield _Lines()


class _Lines:
    """Prints one line per second, and one for each event."""

    def __init__(self) -> None:
        self._said = 0
        self._next_at = 0.0

    def __call__(self, progress: Progress) -> None:
        for line in progress.events[self._said :]:
            click.echo(line)
        self._said = len(progress.events)
        if progress.seconds >= self._next_at or sum(progress.done.values()) == sum(progress.enqueued.values()):
            self._next_at = progress.seconds + LINE_SECONDS
            click.echo(_line(progress))


def _line(progress: Progress) -> str:
    done, enqueued = sum(progress.done.values()), sum(progress.enqueued.values())
    return (
        f"{progress.seconds:5.1f} s  {done:6,} of {enqueued:,} done, {progress.running:3} running,"
        f" {counted(progress.workers, 'worker')}"
    )


@contextlib.contextmanager
def _live() -> Iterator[Show]:
    from rich.live import Live

    with Live(console=console(), refresh_per_second=10) as live:
        yield lambda progress: live.update(_picture(progress))


def _picture(progress: Progress) -> Group:
    from rich.console import Group

    bars = table("kind", "done", "of", "", right=("done", "of"))
    for kind, enqueued in progress.enqueued.items():
        done = progress.done.get(kind, 0)
        bars.add_row(kind, done, enqueued, text(f"{bar(done, enqueued, 40):40}", _STYLES.get(kind, "")))
    return Group(bars, text(""), text(_line(progress)), *(text(line, "bold") for line in progress.events), text(""))
