"""The demo while it runs: bars that move on a terminal, a line a second in a pipe."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import click
import msgspec

from rowcall.cli.present.output import bar, console, table, text

if TYPE_CHECKING:
    from rich.console import Group

LINE_SECONDS = 1.0
_STYLES = {"quick": "green", "slow": "yellow", "flaky": "magenta", "delayed": "cyan"}


class Progress(msgspec.Struct, kw_only=True, frozen=True):
    """What is seen at one look."""

    seconds: float
    enqueued: Mapping[str, int]
    done: Mapping[str, int]
    running: int
    workers: int
    news: list[str]


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
    """A line a second, and one for each thing that happens."""

    def __init__(self) -> None:
        self._said = 0
        self._next_at = 0.0

    def __call__(self, progress: Progress) -> None:
        for line in progress.news[self._said :]:
            click.echo(line)
        self._said = len(progress.news)
        if progress.seconds >= self._next_at or sum(progress.done.values()) == sum(progress.enqueued.values()):
            self._next_at = progress.seconds + LINE_SECONDS
            click.echo(_line(progress))


def _line(progress: Progress) -> str:
    done, enqueued = sum(progress.done.values()), sum(progress.enqueued.values())
    return (
        f"{progress.seconds:5.1f} s  {done:6,} of {enqueued:,} done, {progress.running:3} running,"
        f" {progress.workers} {'worker' if progress.workers == 1 else 'workers'}"
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
        bars.add_row(kind, f"{done:,}", f"{enqueued:,}", text(f"{bar(done, enqueued, 40):40}", _STYLES.get(kind, "")))
    return Group(bars, text(""), text(_line(progress)), *(text(line, "bold") for line in progress.news), text(""))
