"""`rowcall move`: move a queue to another database."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import click

from rowcall.app import config_at
from rowcall.cli.command import Answer, answering_command, typed_seconds
from rowcall.cli.present.console import show
from rowcall.cli.target import existing
from rowcall.moving.mover import MovePlan, Mover, MoveReport, Progress
from rowcall.overview.formats import counted
from rowcall.queue import Backend

SHOWN_EVERY_SECONDS = 1.0


@answering_command("move", "Move a queue to another database.")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option(
    "--wait",
    type=typed_seconds,
    metavar="DURATION",
    default="5m",
    show_default=True,
    help="How long running attempts may take to end.",
)
@click.option(
    "--verify",
    type=click.Choice(["sample", "full"]),
    default="sample",
    show_default=True,
    help="Compare samples, or all rows.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be moved, and write nothing.")
@click.option("--abort", is_flag=True, help="End an interrupted move: FROM continues, and TO is emptied.")
def move_command(source: str, target: str, wait: float, verify: str, dry_run: bool, abort: bool) -> Answer:
    """Move a queue to another database, while producers and workers run. After an interruption, run it again.

    FROM is APP or a URL, TO is the URL of an empty database.

    With --json: {"jobs", "rows", "seconds", "held_ms", "verified": {"counted", "compared"}}: what was copied, for how
    long producers were refused, and how many jobs were counted and compared on both sides.

    With --dry-run --json: {"jobs", "by_status", "running", "copied"}. With --abort --json: {"aborted": true}.
    """
    if dry_run and abort:
        raise click.UsageError("give --dry-run or --abort, not both")
    from_queue = existing(None, source) if "://" in source else existing(source, None)
    with from_queue.jobs as jobs, closing(Backend(lambda: config_at(jobs, target))) as there:
        progress = _Shown(from_queue.queue.clock.timer)
        mover = Mover(from_queue.queue, there, wait_seconds=wait, full=verify == "full", report=progress.note)
        if dry_run:
            would = mover.plan()
            return Answer(would._asdict(), lambda: show(_foretold(would)))
        if abort:
            mover.abort()
            return Answer({"aborted": True}, lambda: show("the move was aborted: nothing was moved"))
        done = mover.run()
    return Answer({**done._asdict(), "verified": done.verified._asdict()}, lambda: show(_said(done)))


class _Shown:
    """Prints each phase, and how far it is, on stderr."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._phase = ""
        self._shown_at = 0.0

    def note(self, progress: Progress) -> None:
        now = self._timer()
        if progress.phase == self._phase and now - self._shown_at < SHOWN_EVERY_SECONDS:
            return
        self._phase, self._shown_at = progress.phase, now
        of = f" of {progress.of:,}" if progress.of else ""
        done = f": {progress.done:,}{of}" if progress.done else ""
        click.echo(f"{progress.phase}{done}{f': {progress.note}' if progress.note else ''}", err=True)


def _said(done: MoveReport) -> str:
    return (
        f"moved {counted(done.jobs, 'job')} ({counted(done.rows, 'row')}) in {done.seconds:.1f} s;"
        f" producers were held up for {done.held_ms:.0f} ms;"
        f" counted {counted(done.verified.counted, 'job')}, compared {done.verified.compared:,}"
    )


def _foretold(would: MovePlan) -> str:
    """
    >>> _foretold(MovePlan(1200, {"succeeded": 1199, "pending": 1}, 0, 1000))
    'would move 1,200 jobs: 1,199 succeeded, 1 pending; no attempt runs; copied already up to job 1,000'
    """
    states = ", ".join(f"{count:,} {status}" for status, count in would.by_status.items())
    running = f"{counted(would.running, 'attempt')} must end first" if would.running else "no attempt runs"
    copied = f"; copied already up to job {would.copied:,}" if would.copied else ""
    return f"would move {counted(would.jobs, 'job')}{f': {states}' if states else ''}; {running}{copied}"
