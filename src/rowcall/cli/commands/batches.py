"""`rowcall batches`: list batches, show one, seal it, cancel its jobs, or retry the failed ones."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import datetime

import click

from rowcall.base.text import one_line
from rowcall.cli.command import Answer, limit_option, queue_command
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import Table, table_of, text
from rowcall.cli.target import Target
from rowcall.domain.batches import BatchInfo
from rowcall.overview.formats import ago, counted, exact
from rowcall.overview.liveness import database_time

_ACTIONS = ("seal", "cancel", "retry")
_TIMES = ("created_at", "sealed_at", "finished_at")


def _parsed(words: tuple[str, ...]) -> tuple[str, int] | None:
    """Return what to do with which batch: with its id alone, show it."""
    if not words:
        return None
    action, *more = words if words[0] in _ACTIONS else ("show", *words)
    if len(more) != 1 or not more[0].isdecimal():
        raise click.UsageError(f"write the id of a batch, alone or after one of {', '.join(_ACTIONS)}")
    return action, int(more[0])


@queue_command(
    "batches", "List batches; show, seal, cancel or retry one.", words="[[seal | cancel | retry] ID]", parse=_parsed
)
@limit_option
@click.option("--cursor", metavar="CURSOR", help="Continue from the next_cursor of an earlier page.")
def batches_command(target: Target, words: tuple[str, int] | None, limit: int, cursor: str | None) -> Answer:
    """List batches with their counts, newest first, or show one.

    "seal ID" lets no more jobs be added, "cancel ID" cancels the jobs that have not ended, and "retry ID" runs the
    failed ones again.

    With --json: {"batches": [{"id", "name", "status", "total", "waiting", "running", "succeeded", "failed",
    "cancelled", "progress", …}, …], "next_cursor": "…" or null}; of one batch: {"batch": {…}}, after a change with
    "changed", the number of jobs.
    """
    if words is None:
        page, now = target.jobs.list_batches(limit=limit, cursor=cursor), database_time(target.queue)

        def print_page() -> None:
            if page.batches:
                _show_list(page.batches, now)
            else:
                show("no batches")
            if page.next_cursor is not None:
                show(f"\nmore: add --cursor {shlex.quote(page.next_cursor)}", style="dim")

        return Answer({"batches": page.batches, "next_cursor": page.next_cursor}, print_page)
    action, batch_id = words
    batch = target.jobs.get_batch(batch_id)
    if action == "show":
        info = batch.counts()
        return Answer({"batch": info}, lambda: _show(info))
    if action == "seal":
        changed, outcome = 0, "sealed" if batch.seal() else "was sealed already"
    elif action == "cancel":
        changed = batch.cancel()
        outcome = f"{counted(changed, 'job')} cancelled, or asked to stop"
    else:
        changed = batch.retry()
        outcome = f"{counted(changed, 'job')} will run again"
    return Answer({"batch": batch.counts(), "changed": changed}, lambda: show(f"batch {batch_id}: {outcome}"))


def _show_list(batches: list[BatchInfo], now: datetime) -> None:
    columns: dict[str, Callable[[BatchInfo], object]] = {
        "id": lambda batch: str(batch.id),
        "batch": lambda batch: one_line(batch.name),
        "status": lambda batch: batch.status,
        "ended": _ended,
        "failed": lambda batch: text(f"{batch.failed:,}", "red" if batch.failed else ""),
        "running": lambda batch: batch.running,
        "made": lambda batch: ago(batch.created_at, now),
    }
    show(table_of(batches, columns, right=("id", "ended", "failed", "running"), whole=("status", "made")))


def _ended(batch: BatchInfo) -> str:
    return f"{batch.ended:,} of {batch.total:,}"


def _show(batch: BatchInfo) -> None:
    show(text(f"batch {batch.id}  {one_line(batch.name)}  ", "bold"), text(batch.status))
    show(f"{_ended(batch)} jobs have ended ({100 * batch.progress:.0f} %)")
    shown = Table("field", "value", whole=("field",), headings=False)
    for name, value in batch.to_dict().items():
        if name not in ("id", "name", "status", "progress") and value is not None:
            given = getattr(batch, name)
            shown.add_row(text(name, "dim"), exact(given) if name in _TIMES else given)
    show(shown)
    show(f"\njobs: rowcall jobs --batch {batch.id}", style="dim")
