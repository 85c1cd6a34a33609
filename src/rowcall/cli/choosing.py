"""The options of `rowcall retry` and `cancel` that mean many jobs, and the question before it is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from rowcall.cli.measures import counted
from rowcall.cli.output import console, print_json, text

F = TypeVar("F", bound=Callable[..., Any])

yes_option = click.option("--yes", is_flag=True, help="Do not ask before doing it to all that fit.")
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
        raise click.UsageError(f"give ids, or a filter such as --{next(iter(given)).replace('_', '-')}, not both")
    if not ids and not given:
        raise click.UsageError("name at least one job by its id, or many by a filter such as --queue")
    return given


def demand_yes(verb: str, given: Mapping[str, object], yes: bool) -> None:
    """Whoever sits at a terminal is asked once; a script has meant it."""
    if yes or not sys.stdin.isatty():
        return
    said = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in given.items())
    click.confirm(f"{verb} all jobs that fit {said}?", abort=True, err=True)


def print_count(count: int, said: str, as_json: bool) -> None:
    if as_json:
        print_json({"count": count})
    else:
        console().print(text(f"{counted(count, 'job')} {said}"))
