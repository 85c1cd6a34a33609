"""`rowcall torture`: kill, stop and cut off workers on your database, and check that no job was lost."""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec
from rich.console import Group
from rich.live import Live

from rowcall.base.text import duration
from rowcall.cli.command import typed_seconds
from rowcall.cli.present.console import console, show
from rowcall.cli.present.text_tables import Table, bar, text
from rowcall.cli.processes import interruptible
from rowcall.domain.config import PATH_ADVICE
from rowcall.domain.errors import InvalidOption, about_option
from rowcall.overview.formats import counted
from rowcall.torture.certificate import Certificate
from rowcall.torture.torture_run import Show, TortureOrder, TortureProgress, TortureRun

SHORTEST_SECONDS, LINE_SECONDS = 1.0, 5.0
_TYPED = {"url": "URL", "table_prefix": "--prefix"}
MOST_SEED = 2**31


@click.command("torture", short_help="Let workers suffer on your database, and check the result.")
@click.argument("url")
@click.option(
    "--seconds",
    type=typed_seconds,
    metavar="DURATION",
    default="60s",
    show_default=True,
    help="How long faults happen.",
)
@click.option("--seed", type=click.IntRange(0, MOST_SEED), metavar="N", help="Repeat the faults of an earlier run.")
@click.option("--workers", type=click.IntRange(2, 100), default=3, show_default=True, help="Worker processes.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Enqueue at least N jobs, evenly over the time (default: as many as the workers run).",
)
@click.option(
    "--faults",
    type=click.IntRange(min=1),
    metavar="N",
    help="About N faults, evenly over the time (default: five a second).",
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the certificate to this file.",
)
@click.option(
    "--prefix",
    metavar="NAME",
    default="rowcall_torture_",
    show_default=True,
    help="Table prefix; it has no tables yet.",
)
@click.option("--restart", metavar="COMMAND", help="A shell command that restarts the server: also a fault.")
def torture_command(
    url: str,
    seconds: float,
    seed: int | None,
    workers: int,
    jobs: int | None,
    faults: int | None,
    json_path: Path | None,
    prefix: str,
    restart: str | None,
) -> None:
    """Run workers and producers on the database URL, disturb them, and check the result.

    Workers are killed, stopped and cut off. Another process locks rows and tables. In the end, a checker compares the
    database with files in which handlers and producers have noted what they did. All tables have a prefix, and are
    removed afterwards, like everything else. Do not use a database that is in production: it is kept busy.

    Exit code 1 if anything was found.

    With --json: {"verdict": "passed" or "failed", "command", "seed", "versions", "seconds", "jobs", "faults",
    "not_possible", "findings": [{"check", "count", "examples"}, …]}.
    """
    if seconds < SHORTEST_SECONDS:
        raise click.UsageError(f"--seconds must be at least {SHORTEST_SECONDS:g}, got {seconds:g}")
    if not hasattr(signal, "SIGSTOP"):
        raise click.UsageError("this system cannot stop a process")
    if restart is not None and url.startswith("sqlite:"):
        raise click.UsageError("--restart is for servers")
    order = TortureOrder(
        url=url,
        prefix=prefix,
        seconds=seconds,
        seed=secrets.randbelow(MOST_SEED) if seed is None else seed,
        workers=workers,
        jobs=jobs,
        faults=faults,
        restart=restart,
    )
    with _certificate_file(json_path) as write, interruptible():
        try:
            with _view() as shown:
                certificate = TortureRun(order, shown).run()
        except InvalidOption as error:
            problem = error.problem.removesuffix(PATH_ADVICE)
            raise click.UsageError(about_option(_TYPED.get(error.option, error.option), problem)) from error
        write(msgspec.json.format(msgspec.json.encode(certificate), indent=2) + b"\n")
    _show(certificate)
    if certificate.findings:
        sys.exit(1)


@contextlib.contextmanager
def _certificate_file(path: Path | None) -> Iterator[Callable[[bytes], object]]:
    """Open the file before the run: a run is too long to find out afterwards that it cannot be written."""
    if path is None:
        yield lambda certificate: None
        return
    try:
        file = path.open("ab")
    except OSError as error:
        raise click.UsageError(f"--json: {path} cannot be written: {error.strerror}") from error
    try:
        with file:
            yield lambda certificate: (file.truncate(0), file.write(certificate))
    finally:
        if not path.stat().st_size:  # the run has not ended
            path.unlink()


@contextlib.contextmanager
def _view() -> Iterator[Show]:
    if not sys.stdout.isatty():
        yield _ProgressLines()
        return
    with Live(console=console(), refresh_per_second=4, transient=True) as live:
        yield lambda progress: live.update(_picture(progress))


class _ProgressLines:
    """Prints a line for each phase, and one every few seconds."""

    def __init__(self) -> None:
        self._phase, self._next_at = "", 0.0

    def __call__(self, progress: TortureProgress) -> None:
        if progress.phase != self._phase or progress.seconds >= self._next_at:
            self._phase, self._next_at = progress.phase, progress.seconds + LINE_SECONDS
            show(_line(progress))


def _line(progress: TortureProgress) -> str:
    return (
        f"{duration(progress.seconds):>7}  {progress.phase}: {progress.done:,} of {progress.enqueued:,} jobs done,"
        f" {progress.faults.total():,} faults"
    )


def _picture(progress: TortureProgress) -> Group:
    return Group(text(_line(progress), "bold"), text(""), _faults_table(dict(progress.faults)))


def _faults_table(faults: dict[str, int]) -> Table:
    table = Table("fault", "times", "", right=("times",))
    most = max(faults.values(), default=1)
    for kind, count in sorted(faults.items()):
        table.add_row(kind, count, text(f"{bar(count, most, 24):24}", "yellow"))
    return table


def _show(certificate: Certificate) -> None:
    jobs, versions = certificate.jobs, certificate.versions
    show(_faults_table(certificate.faults))
    show("")
    for kind, reason in certificate.not_possible.items():
        show(f"{kind}: not possible here ({reason})", style="dim")
    show(
        f"{jobs.acknowledged:,} jobs acknowledged, {jobs.succeeded:,} succeeded, {jobs.failed:,} failed as planned;"
        f" {jobs.attempts:,} attempts, {jobs.lost:,} of them lost with their workers"
    )
    show(f"{versions.database}, Rowcall {versions.rowcall}, Python {versions.python}, {versions.host}", style="dim")
    for finding in certificate.findings:
        show(f"{finding.check}: {counted(finding.count, 'time')}", style="bold red")
        for example in finding.examples:
            show(f"  {example}")
    faults, seconds = sum(certificate.faults.values()), duration(certificate.seconds)
    if certificate.findings:
        show(
            f"FAILED: {counted(len(certificate.findings), 'finding')} after {faults:,} faults in {seconds}",
            style="bold red",
        )
    else:
        show(f"passed: no finding after {faults:,} faults in {seconds}", style="bold green")
    show(f"repeat these faults: --seed {certificate.seed}", style="dim")
