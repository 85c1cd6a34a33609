"""`rowcall demo`: thousands of jobs, two worker processes, one of them killed halfway, nothing lost."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import click

from rowcall.app import Rowcall, queue_of
from rowcall.cli.command import Answer, answering_command
from rowcall.cli.commands.dashboard import DEFAULT_HOST, DEFAULT_PORT, can_serve, require_http, serve
from rowcall.cli.demo.report import Report, show_report
from rowcall.cli.demo.run import run
from rowcall.cli.present import log
from rowcall.cli.processes import interruptible
from rowcall.cli.target import url_of
from rowcall.http.server_options import settings


@answering_command("demo", "Watch thousands of jobs, a killed worker, and nothing lost.")
@click.option("--keep", is_flag=True, help="Afterwards, serve the dashboard with its jobs until Ctrl-C.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port of the dashboard; 0 chooses a free one.",
)
def demo_command(keep: bool, port: int) -> Answer:
    """Watch Rowcall work: thousands of jobs, two worker processes, one killed halfway, nothing lost.

    Takes five to ten seconds, and ends with the link to look at its jobs in the dashboard. They are in a file in the
    temporary folder, which --keep and --json remove at the end. Exit code 1 if a job was lost.

    With --json: {"tasks": [{"task", "enqueued", "succeeded", "attempts", "retried", "recovered", "lost"}, …],
    "enqueued", "lost", "killed_pid", "seconds"}.
    """
    quiet = click.get_current_context().params["as_json"]
    if keep and quiet:
        raise click.UsageError("--keep serves the dashboard, and --json prints one object: give one of them")
    if keep:
        require_http()
    with interruptible(), contextlib.ExitStack() as removal:
        folder = Path(tempfile.mkdtemp(prefix="rowcall-demo-"))
        removal.callback(shutil.rmtree, folder)
        path, log_path = folder / "demo.db", folder / "workers.log"
        report = run(path, log_path, quiet=quiet)
        if report.lost:
            log_text = log_path.read_text(errors="replace")
            click.echo(f"error: {report.lost} jobs did not succeed; log of the workers:\n{log_text}", err=True)
        if keep:
            show_report(report)
            _serve(url_of(path), port)
        elif not quiet and can_serve():
            removal.pop_all()  # its link opens the file
    return Answer(report, lambda: None if keep else show_end(report, path), not report.lost)


def show_end(report: Report, path: Path) -> None:
    """Show the report, and the link to look at the jobs."""
    show_report(report)
    click.echo()
    if can_serve():
        click.echo(f"to look at its jobs, run\n  {_program()} dashboard --url {shlex.quote(url_of(path))}")
        click.echo(f"and open http://{DEFAULT_HOST}:{DEFAULT_PORT}/")
    else:
        click.echo("to look at its jobs in the dashboard:\n  pip install 'rowcall[http]' && rowcall demo --keep")


def _program() -> str:
    """Return how to call this program again: that of `make demo` is not on the PATH."""
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m rowcall"
    return path.name if shutil.which(path.name) == str(path) else shlex.quote(str(path))


def _serve(url: str, port: int) -> None:
    with Rowcall(url) as jobs:
        log.set_up("warning")
        click.echo("Ctrl-C ends it and removes its file", err=True)
        serve(queue_of(jobs), settings(), DEFAULT_HOST, port)
