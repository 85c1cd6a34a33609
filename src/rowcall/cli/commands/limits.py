"""`rowcall limits`: list limits; set the numbers of one without a deploy, or reset them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import click

from rowcall.base.text import one_line
from rowcall.cli.command import Answer, queue_command, typed_seconds
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import table_of, text
from rowcall.cli.target import Target
from rowcall.domain.limits import LimitInfo
from rowcall.overview.formats import ago, at_least
from rowcall.overview.limits import allowed_text, declared_text, hold_text, used_text
from rowcall.overview.liveness import database_time

MOST_COUNTED = 1000
_ACTIONS = ("set", "reset")


def _parsed(words: tuple[str, ...]) -> tuple[str, ...]:
    if words and words[0] not in _ACTIONS:
        raise click.UsageError(f"{words[0]!r} is not an action; write: set NAME, or: reset NAME")
    if words and len(words) != 2:
        raise click.UsageError(f"write one name after {words[0]}, got {len(words) - 1}")
    return words


@queue_command(
    "limits", "List limits; set or reset the numbers of one.", words="[set NAME | reset NAME]", parse=_parsed
)
@click.option("--concurrency", type=int, metavar="N", help="With set: how many jobs may run at once.")
@click.option("--rate", type=int, metavar="N", help="With set: how many jobs may start within --per.")
@click.option("--per", type=typed_seconds, metavar="DURATION", help="With set: the period of the rate: 10s, 1m, 1h, …")
def limits_command(
    target: Target, words: tuple[str, ...], concurrency: int | None, rate: int | None, per: float | None
) -> Answer:
    """List all limits: what is allowed, what is used, how many jobs wait, and who changed the numbers.

    "set NAME" replaces the numbers that the code declares, for all workers at once, until "reset NAME". What is not
    given stays as it is. The reset also ends what handlers asked for with hold=, and closes breakers.

    With --json: {"limits": [{"name", "concurrency", "rate", "per", "declared_concurrency", "declared_rate",
    "declared_per", "is_set", "changed_at", "changed_by", "running", "started", "waiting", "since",
    "held_until", "held_by", "held_reason", "is_open", "by_key": [{"value", "running", "started", "waiting",
    "since", "held_until", "is_open"}, …]}, …]}; with set: {"limit": {…}}; with reset:
    {"name", "was_set"}. Exit code 1 if there is no such limit, or if it was not set.
    """
    numbers = {"--concurrency": concurrency, "--rate": rate, "--per": per}
    typed = [option for option, value in numbers.items() if value is not None]
    if typed and words[:1] != ("set",):
        raise click.UsageError(f"{typed[0]} belongs to: rowcall limits set NAME")
    if not words:
        return _list(target)
    action, name = words
    label = f"limit {one_line(name)}"
    if action == "reset":
        was_set = target.jobs.reset_limit(name)
        said = f"{label} has its declared numbers again" if was_set else f"{label} was neither set nor held"
        return Answer({"name": name, "was_set": was_set}, lambda: show(said), was_set)
    if not typed:
        raise click.UsageError("give --concurrency, or --rate and --per")
    limit = target.jobs.set_limit(name, concurrency=concurrency, rate=rate, per=per)
    return Answer({"limit": limit}, lambda: show(f"{label}: {allowed_text(limit)}; declared: {declared_text(limit)}"))


def _list(target: Target) -> Answer:
    limits, now = target.jobs.limits(), database_time(target.queue)
    return Answer({"limits": limits}, lambda: _show(limits, now) if limits else show("no limits"))


def _show(limits: list[LimitInfo], now: datetime) -> None:
    columns: dict[str, Callable[[LimitInfo], object]] = {
        "limit": lambda limit: limit.name,
        "allowed": allowed_text,
        "used": lambda limit: "; ".join(filter(None, (used_text(limit), hold_text(limit)))),
        "waiting": lambda limit: text(
            at_least(limit.waiting, limit.waiting >= MOST_COUNTED), "yellow" if limit.waiting else ""
        ),
        "since": lambda limit: None if limit.since is None else ago(limit.since, now),
        "declared": lambda limit: declared_text(limit) if limit.is_set else None,
        "changed": lambda limit: _changed(limit, now),
    }
    show(table_of(limits, columns, right=("waiting",), whole=("limit", "since")))


def _changed(limit: LimitInfo, now: datetime) -> str | None:
    return None if limit.changed_at is None else f"{ago(limit.changed_at, now)} by {limit.changed_by}"
