"""`rowcall export`: jobs with all that belongs to them, one JSON object on each line."""

from __future__ import annotations

from typing import Any

import click

from rowcall.cli.command import Answer, given_options, queue_command, selecting_options
from rowcall.cli.commands.jobs import job_as_json
from rowcall.cli.present.console import print_json
from rowcall.cli.target import Target
from rowcall.domain.job import Status
from rowcall.operations.export import exported

JOBS_AT_ONCE = 200
READ_AT_ONCE = 10  # each may have streams of 16 MiB


@queue_command("export", "Print jobs with their attempts and steps, as lines of JSON.")
@click.option(
    "--status",
    type=click.Choice([status.value for status in Status]),
    multiple=True,
    help="Only jobs in this state; may be given several times.",
)
@selecting_options
@click.option("--order", type=click.Choice(["newest", "oldest"]), default="oldest", help="Which jobs come first.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Export at most N jobs.")
@click.option("--scrub", is_flag=True, help="Print types instead of values, so that others may read it.")
def export_command(target: Target, limit: int | None, scrub: bool, **options: Any) -> Answer:
    """Print jobs with their attempts, steps, logs, streams and signals, for archives and bug reports: one JSON object
    on each line.

    With --scrub, arguments, results, keys, tags, values, and what errors and logs say are replaced by their types; the
    names of tasks and arguments, error codes, and the frames of tracebacks stay.

    With --json: {"job": {…}, "attempts": […], "steps": […], "log": […], "streams": […], "signals": […]} on each line,
    as without it.
    """

    def print_lines() -> None:
        cursor, left = None, limit
        while left is None or left > 0:
            most = JOBS_AT_ONCE if left is None else min(JOBS_AT_ONCE, left)
            page = target.jobs.list(**given_options(options), limit=most, cursor=cursor)
            for start in range(0, len(page.jobs), READ_AT_ONCE):
                for one in target.queue.run(exported(target.queue, page.jobs[start : start + READ_AT_ONCE])):
                    shown = one.without_values() if scrub else one
                    print_json({**shown._asdict(), "job": job_as_json(shown.job)})
            cursor, left = page.next_cursor, None if left is None else left - len(page.jobs)
            if cursor is None:
                break

    return Answer(print_lines, print_lines)
