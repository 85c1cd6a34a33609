"""`rowcall demo`: thousands of jobs, two worker processes, one of them killed halfway, nothing lost."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from rowcall.cli.command import Answer, answering_command
from rowcall.cli.demo.report import show_report
from rowcall.cli.demo.run import run
from rowcall.cli.processes import interruptible


@answering_command("demo", "Watch thousands of jobs, a killed worker, and nothing lost.")
def demo_command() -> Answer:
    """Watch Rowcall work: thousands of jobs, two worker processes, one killed halfway, nothing lost.

    Uses a temporary file, takes five to ten seconds, and leaves nothing behind. Exit code 1 if a job was lost.

    With --json: {"kinds": [{"kind", "enqueued", "succeeded", "attempts", "retried", "recovered", "lost"}, …],
    "enqueued", "lost", "killed_pid", "seconds"}.
    """
    with interruptible(), tempfile.TemporaryDirectory(prefix="rowcall-demo-") as folder:
        log_path = Path(folder, "workers.log")
        report = run(Path(folder, "demo.db"), log_path, quiet=click.get_current_context().params["as_json"])
        log = log_path.read_text(errors="replace")
    if report.lost:
        click.echo(f"error: {report.lost} jobs did not succeed; log of the workers:\n{log}", err=True)
    return Answer(report, lambda: show_report(report), not report.lost)
