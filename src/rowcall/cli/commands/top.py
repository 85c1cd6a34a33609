"""`rowcall top`: everything on one screen that stays up to date."""

from __future__ import annotations

import sys

import click
import msgspec

from rowcall.cli.command import Answer, queue_command
from rowcall.cli.commands.errors import error_groups
from rowcall.cli.commands.stuck import in_progress, in_progress_as_json, worker_states
from rowcall.cli.interrupt import interruptible
from rowcall.cli.options import window_option
from rowcall.cli.present.console import console, show
from rowcall.cli.present.top_view import Screen, Snapshot, whole
from rowcall.cli.target import Target
from rowcall.domain.errors import RowcallError
from rowcall.overview.liveness import Liveness, database_time

REFRESH_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 10.0
REDRAWS_PER_SECOND = 2
SHOWN = 10


@queue_command("top", "Watch everything on one live screen.")
@window_option
@click.option("--once", is_flag=True, help="Print one screen and exit, as into a pipe.")
def command(target: Target, window: float, once: bool) -> Answer:
    """Watch counts, rates, running jobs, errors, retries and retention on one screen, until Ctrl-C.

    The screen is refreshed every second. If the database does not answer, it says so and tries again. The last line
    names what a short terminal has no room for.

    With --json: {"stats": {…}, "stuck": [{…}, …], "retries": {…}, "errors": [{…}, …], "retention": {…},
    "workers": {"alive", "gone", "silent"}}, once, each as the command of that name prints it.
    """
    snapshot = _snapshot(target, window)
    live = not once and sys.stdout.isatty()
    return Answer(_data(snapshot), lambda: _watch(target, window) if live else show(whole(snapshot, console().width)))


def _snapshot(target: Target, window: float) -> Snapshot:
    return Snapshot(
        name=target.queue.database.name,
        now=database_time(target.queue),
        stats=target.jobs.stats(window=window),
        stuck=in_progress(target, SHOWN),
        retries=target.jobs.retries(),
        errors=error_groups(target, SHOWN),
        retention=target.jobs.retention(),
        workers=worker_states(target),
    )


def _watch(target: Target, window: float) -> None:
    from rich.live import Live

    clock = target.queue.clock
    screen = Screen(_snapshot(target, window), clock)
    try:
        with interruptible(), Live(screen, console=console(), screen=True, refresh_per_second=REDRAWS_PER_SECOND):
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
        "retention": snapshot.retention,
        "workers": {state.value: states.count(state) for state in Liveness},
    }
