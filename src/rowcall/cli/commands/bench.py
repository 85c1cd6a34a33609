"""`rowcall bench`: measure this machine and its disk, or a server, in a few seconds."""

from __future__ import annotations

from pathlib import Path

import click

from rowcall.base.text import duration
from rowcall.cli.bench.measure import BULK, Figures, in_folder, measure, on_server
from rowcall.cli.command import Answer, answering_command
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import Table
from rowcall.cli.processes import interruptible


@answering_command("bench", "Measure Rowcall on this machine and disk, or on a server.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="Measure on the disk that holds this folder (default: the current folder).",
)
@click.option("--url", metavar="URL", help="Measure on this server.")
def bench_command(folder: Path | None, url: str | None) -> Answer:
    """Measure Rowcall on this machine and disk, or on a server. Takes a few seconds.

    It uses a temporary file, or temporary tables on the server, and removes them.

    With --json: {"enqueue_per_second", "enqueue_many_per_second", "drain_async_per_second", "drain_threads_per_second",
    "pick_up_p50_ms", "pick_up_p99_ms", "seconds"}.
    """
    if folder is not None and url is not None:
        raise click.UsageError("give --folder or --url, not both")
    with interruptible(), in_folder(folder or Path()) if url is None else on_server(url) as scratch:
        figures = measure(scratch)
    return Answer(figures, lambda: _show(figures, scratch.described))


def _show(figures: Figures, where: str) -> None:
    shown = Table("what", "measured", right=("measured",))
    for what, per_second in (
        ("enqueue, one at a time", figures.enqueue_per_second),
        (f"enqueue_many, {BULK:,} at a time", figures.enqueue_many_per_second),
        ("drain, async handlers that do nothing", figures.drain_async_per_second),
        ("drain, sync handlers in threads", figures.drain_threads_per_second),
    ):
        shown.add_row(what, f"{per_second:,.0f} /s")
    shown.add_row("pick-up by an idle worker process, median", f"{figures.pick_up_p50_ms:.1f} ms")
    shown.add_row("pick-up by an idle worker process, p99", f"{figures.pick_up_p99_ms:.1f} ms")
    show(shown)
    show(f"\none process, {where}; took {duration(figures.seconds)}", style="dim")
