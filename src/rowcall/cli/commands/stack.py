"""`rowcall stack`: where the handler of a running job is."""

from __future__ import annotations

import click

from rowcall.base.text import one_line
from rowcall.cli.command import Answer, job_ids, queue_command
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import block, text
from rowcall.cli.target import Target
from rowcall.domain.job import Stack
from rowcall.overview.formats import ago
from rowcall.overview.liveness import database_time
from rowcall.overview.stacks import DEFAULT_TIMEOUT_SECONDS


@queue_command("stack", "Show where the handler of a running job is.", words="ID", parse=job_ids)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=DEFAULT_TIMEOUT_SECONDS,
    show_default=True,
    help="How long to wait for the worker.",
)
def stack_command(target: Target, words: list[int], timeout: float) -> Answer:
    """Show the stack of a running handler, on any host: its worker answers, even if its event loop is blocked.

    The outermost frame comes first, as in a traceback; the last line is where it is now.

    With --json: {"job_id", "type", "attempt", "worker", "started_at",
    "frames": [{"file", "line", "function", "module", "code"}, …]}.
    """
    job_id, *more = words
    if more:
        raise click.UsageError("give one job id")
    stack = target.jobs.stack(job_id, timeout=timeout)
    return Answer(stack, lambda: _show(target, stack))


def _show(target: Target, stack: Stack) -> None:
    started = f", started {ago(stack.started_at, database_time(target.queue))}" if stack.started_at else ""
    show(text(f"job {stack.job_id} {one_line(stack.type)} attempt {stack.attempt} on {stack.worker}{started}"))
    show(block(str(stack)))
