"""The options of `rowcall retry` and `cancel` that select many jobs, and the question before it is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click

from rowcall.app import Rowcall
from rowcall.cli.command import Answer
from rowcall.cli.present.console import show
from rowcall.cli.target import Target
from rowcall.cli.unknown_names import unknown_name
from rowcall.domain.job import Status
from rowcall.overview.formats import counted

F = TypeVar("F", bound=Callable[..., Any])

_NOT_FILTERS = {"limit", "rate"}
_OPTIONS = (
    click.option("--status", metavar="STATE", help="Jobs in this state."),
    click.option("--queue", metavar="NAME", help="Jobs of this queue."),
    click.option("--type", metavar="NAME", help="Jobs of this task."),
    click.option("--tag", metavar="TAG", help="Jobs with this tag."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N jobs."),
    click.option("--yes", is_flag=True, help="Do not ask before acting on all matching jobs."),
)


def filter_options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def given_filter(ids: list[int], options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options of a filter; wrong use unless there are either ids or a filter."""
    given = {name: value for name, value in options.items() if value is not None}
    said = " and ".join(typed(name) for name in given)
    if ids and given:
        raise click.UsageError(f"give job ids or {said}, not both")
    if not ids and not given:
        raise click.UsageError("give job ids, or a filter such as --queue")
    if given and given.keys() <= _NOT_FILTERS:
        raise click.UsageError(f"{said} alone matches every job; add --status, --queue, --type or --tag")
    return given


def typed(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def act_on_matching(
    target: Target,
    verb: str,
    given: Mapping[str, Any],
    statuses: Collection[Status],
    yes: bool,
    act: Callable[[], int],
    said: str,
) -> Answer:
    """Ask once at a terminal, then act. `statuses` are selected unless the filter names one."""
    if not yes and sys.stdin.isatty():
        named = " ".join(f"{typed(name)} {value}" for name, value in given.items())
        matching = _count(target.jobs, given, statuses)
        now = "" if matching is None else f" (now {matching:,})"
        if not click.confirm(f"{verb} all jobs with {named}{now}?", err=True):
            click.echo("nothing was changed", err=True)
            sys.exit(1)
    count = act()
    hint = "" if count else unknown_name(target, given.get("queue"), given.get("type"))
    if hint:
        click.echo(f"warning: {hint}", err=True)
    return Answer({"count": count}, lambda: show(f"{counted(count, 'job')} {said}"))


def _count(jobs: Rowcall, given: Mapping[str, Any], statuses: Collection[Status]) -> int | None:
    """Return how many jobs match now, if counts by state, queue and type can show it."""
    if "tag" in given or "error_code" in given or {"queue", "type"} <= given.keys():
        return None
    wanted = [given["status"]] if "status" in given else statuses
    stats = jobs.stats()
    match given:
        case {"queue": str(queue)}:
            counts = stats.by_queue.get(queue, {})
        case {"type": str(kind)}:
            counts = stats.by_type.get(kind, {})
        case _:
            counts = stats.by_status
    count = sum(counts.get(status, 0) for status in wanted)
    limit: int | None = given.get("limit")
    return count if limit is None else min(count, limit)
