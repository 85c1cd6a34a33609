"""`rowcall top`: the answers to all five questions on one screen that stays up to date."""

from __future__ import annotations

import sys
import time

import click
import msgspec

from rowcall.app import Rowcall
from rowcall.cli.child_workers import interruptible
from rowcall.cli.commands.errors import error_groups
from rowcall.cli.commands.stats import window_option
from rowcall.cli.commands.stuck import in_progress, worker_states
from rowcall.cli.present.output import console, job_as_json, print_json
from rowcall.cli.present.top_view import Answers, Screen, whole
from rowcall.cli.target import app_argument, existing, json_option, queue_of, url_option
from rowcall.domain.errors import RowcallError
from rowcall.overview.liveness import Liveness, time_there

LOOK_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 10.0
REDRAWS_A_SECOND = 2
SHOWN = 10


@click.command("top", short_help="Watch all of that on one live screen.")
@app_argument
@url_option
@window_option
@click.option("--once", is_flag=True, help="Print one screen and end, as it does in a pipe.")
@json_option
def top_command(app: str | None, url: str | None, window: float, once: bool, as_json: bool) -> None:
    """Watch counts, rates, running jobs, errors, retries and retention on one screen, until Ctrl-C.

    Asks again once a second; while the database is away it says so, and goes on. What a short terminal has no room for
    is named in the last line.

    With --json: {"stats": {…}, "stuck": [{…}, …], "retries": {…}, "errors": [{…}, …], "retention": {…},
    "workers": {"alive", "gone", "silent"}}, once, each as the command of that name prints it.
    """
    with existing(app, url) as jobs:
        if as_json:
            _print_json(_ask(jobs, window))
        elif once or not sys.stdout.isatty():
            out = console()
            out.print(whole(_ask(jobs, window), out.width))
        else:
            _watch(jobs, window)


def _ask(jobs: Rowcall, window: float) -> Answers:
    return Answers(
        name=queue_of(jobs).database.name,
        now=time_there(queue_of(jobs)),
        stats=jobs.stats(window=window),
        stuck=in_progress(jobs, SHOWN),
        retries=jobs.retries(),
        errors=error_groups(jobs, SHOWN),
        retention=jobs.retention(),
        workers=worker_states(jobs),
    )


def _watch(jobs: Rowcall, window: float) -> None:
    from rich.live import Live

    screen = Screen(_ask(jobs, window))
    try:
        with interruptible(), Live(screen, console=console(), screen=True, refresh_per_second=REDRAWS_A_SECOND):
            while True:
                began = time.monotonic()
                try:
                    screen.update(_ask(jobs, window))
                except RowcallError as error:
                    screen.fail(error)
                took = time.monotonic() - began
                time.sleep(max(LOOK_SECONDS - took, min(took, LONGEST_PAUSE_SECONDS)))  # never busy all the time
    except KeyboardInterrupt:
        pass  # that is how one leaves


def _print_json(answers: Answers) -> None:
    states = list(answers.workers.values())
    print_json(
        {
            "stats": answers.stats,
            "stuck": [
                {**job_as_json(job), "worker_state": answers.workers.get(job.worker or "")} for job in answers.stuck
            ],
            "retries": msgspec.to_builtins(answers.retries, str_keys=True),
            "errors": answers.errors,
            "retention": answers.retention,
            "workers": {state.value: states.count(state) for state in Liveness},
        }
    )
