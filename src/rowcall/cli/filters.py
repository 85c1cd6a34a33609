"""The options of `rowcall retry` and `cancel` that mean many jobs, and the question before it is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click

from rowcall.app import Rowcall
from rowcall.cli.present.output import console, print_json, text
from rowcall.domain.job import Status
from rowcall.overview.formats import counted

F = TypeVar("F", bound=Callable[..., Any])

yes_option = click.option("--yes", is_flag=True, help="Do not ask before doing it to all that fit.")
_NO_FILTERS = {"limit", "rate"}
_OPTIONS = (
    click.option("--status", metavar="STATE", help="Jobs in this state."),
    click.option("--queue", metavar="NAME", help="Jobs of this queue."),
    click.option("--type", metavar="NAME", help="Jobs of this task."),
    click.option("--tag", metavar="TAG", help="Jobs with this tag."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="So many at most."),
)


def filter_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given_filter(ids: list[int], chosen: Mapping[str, object]) -> dict[str, Any]:
    """What was given of a filter; wrong use unless there are either ids or that."""
    given = {name: value for name, value in chosen.items() if value is not None}
    if ids and given:
        said = " and ".join(typed(name) for name in given)
        are = "goes" if len(given) == 1 else "go"
        raise click.UsageError(f"both ids and {said} were given, and only one can be: {said} {are} with jobs that fit")
    if not ids and not given:
        raise click.UsageError("name at least one job by its id, or many by a filter such as --queue")
    if given and given.keys() <= _NO_FILTERS:
        said = " and ".join(typed(name) for name in given)
        raise click.UsageError(f"{said} alone would mean every job: give --status, --queue, --type or --tag, too")
    return given


def typed(name: str) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')}"


def demand_yes(
    jobs: Rowcall, verb: str, past: str, given: Mapping[str, Any], statuses: Collection[Status], yes: bool
) -> None:
    """Whoever sits at a terminal is asked once; a script has meant it. `statuses` are those that are meant, unless one
    is given."""
    if yes or not sys.stdin.isatty():
        return
    said = " ".join(f"{typed(name)} {value}" for name, value in given.items())
    count = _count(jobs, given, statuses)
    now = "" if count is None else f" ({count:,} now)"
    if not click.confirm(f"{verb} all jobs that fit {said}{now}?", err=True):
        click.echo(f"nothing was {past}", err=True)
        sys.exit(1)


def _count(jobs: Rowcall, given: Mapping[str, Any], statuses: Collection[Status]) -> int | None:
    """How many jobs fit by now, where counts by state, queue and type tell."""
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


def print_count(count: int, said: str, as_json: bool) -> None:
    if as_json:
        print_json({"count": count})
    else:
        console().print(text(f"{counted(count, 'job')} {said}"))
