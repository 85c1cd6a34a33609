"""Commands about a queue: all have [APP], --url and --json, and print one answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from rowcall.cli.present.console import print_json
from rowcall.cli.target import Target, existing


class Answer(NamedTuple):
    """`data` is printed with --json, else `show` prints it for people. The exit code is 1 unless it is `ok`."""

    data: object
    show: Callable[[], None]
    ok: bool = True


def answer_with(answer: Answer, as_json: bool) -> None:
    if as_json:
        print_json(answer.data)
    else:
        answer.show()
    if not answer.ok:
        sys.exit(1)


def queue_command(
    name: str,
    short_help: str | None = None,
    *,
    words: str | None = None,
    parse: Callable[[tuple[str, ...]], object] = tuple,
    opened: Callable[[str | None, str | None], Target] = existing,
) -> Callable[[Callable[..., Answer]], click.Command]:
    """Declare a command. Its function gets a `Target`, its options, and its `words`, checked by `parse` beforehand."""

    def declare(function: Callable[..., Answer]) -> click.Command:
        def run(app: str | tuple[str, ...] | None, url: str | None, as_json: bool, **options: Any) -> None:
            if isinstance(app, tuple):
                app, rest = split_app(app, url)
                options["words"] = parse(rest)
            target = opened(app, url)
            with target.jobs:
                answer = function(target, **options)
            answer_with(answer, as_json)

        run.__doc__ = function.__doc__
        run.__dict__.update(function.__dict__)
        command = click.command(name, short_help=short_help)(run)
        command.params = [
            click.Argument(["app"], required=False, nargs=-1 if words else 1, metavar=f"[APP] {words or ''}".rstrip()),
            *command.params,
            click.Option(["--url"], metavar="URL", help="sqlite:///app.db, or postgresql://user@host/database."),
            click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object instead of text."),
        ]
        return command

    return declare


def split_app(words: tuple[str, ...], url: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the app, if the first word names one, and the other words."""
    return (words[0], words[1:]) if words and ":" in words[0] and url is None else (None, words)


def job_ids(words: tuple[str, ...]) -> list[int]:
    if not words:
        raise click.UsageError("give the id of at least one job")
    return optional_job_ids(words)


def optional_job_ids(words: tuple[str, ...]) -> list[int]:
    for word in words:
        if not (word.isascii() and word.isdecimal() and 0 < int(word) < 2**63):
            advice = "; APP comes first, and not together with --url" if ":" in word else ""
            raise click.UsageError(f"{word!r} is not a job id{advice}")
    return list(dict.fromkeys(map(int, words)))
