"""Commands about a queue: all have [APP], --url and --json, and print one answer."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from rowcall.actions import BulkRetryOptions
from rowcall.base.text import one_line, seconds_from_text, whole_number
from rowcall.cli.present.console import print_json
from rowcall.cli.target import Target, existing
from rowcall.domain.config import URL_FORMS

F = TypeVar("F", bound=Callable[..., Any])

_SELECTING = BulkRetryOptions.__annotations__.keys()
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SHOWN_LENGTH = 200


class Answer(NamedTuple):
    """`data` is printed with --json, or called to print it; else `show` prints it for people. The exit code is 1 unless
    it is `ok`.
    """

    data: object
    show: Callable[[], None]
    ok: bool = True


def answering_command(name: str, short_help: str | None = None) -> Callable[[Callable[..., Answer]], click.Command]:
    """Declare a command with --json, whose function returns an `Answer`."""

    def declare(function: Callable[..., Answer]) -> click.Command:
        @functools.wraps(function)
        def run(as_json: bool, **options: Any) -> None:
            answer = function(**options)
            if as_json and callable(answer.data):
                answer.data()
            elif as_json:
                print_json(answer.data)
            else:
                answer.show()
            if not answer.ok:
                sys.exit(1)

        command = click.command(name, short_help=short_help)(run)
        said = "Print one JSON object instead of text."
        command.params.append(click.Option(["--json", "as_json"], is_flag=True, help=said))
        return command

    return declare


def queue_command(
    name: str,
    short_help: str | None = None,
    *,
    words: str | None = None,
    parse: Callable[[tuple[str, ...]], object] = tuple,
    opened: Callable[[str | None, str | None], Target] = existing,
    needs_code: bool = False,
) -> Callable[[Callable[..., Answer]], click.Command]:
    """Declare a command with [APP] and --url.

    Its function gets a `Target`, its options, and its `words`, checked by `parse` beforehand. With `needs_code`,
    there is no --url: only an app has handlers.
    """

    def declare(function: Callable[..., Answer]) -> click.Command:
        @functools.wraps(function)
        def run(app: str | tuple[str, ...] | None, url: str | None = None, **options: Any) -> Answer:
            if isinstance(app, tuple):
                app, rest = split_app(app, url)
                options["words"] = parse(rest)
                if parse is optional_job_ids and not rest and not given_options(options).keys() & _SELECTING:
                    raise click.UsageError("give job ids, or a filter such as --queue")
            target = opened(app, url)
            if needs_code and target.app is None:
                target.jobs.close()
                raise click.UsageError(f"name the app, whose handlers are called: rowcall {name} app:jobs")
            with target.jobs:
                return function(target, **options)

        command = answering_command(name, short_help)(run)
        named = f"[APP] {words or ''}".rstrip()
        command.params.insert(0, click.Argument(["app"], required=False, nargs=-1 if words else 1, metavar=named))
        said = f"Database: {URL_FORMS}."
        if not needs_code:
            command.params.insert(-1, click.Option(["--url"], metavar="URL", help=said))
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
    return list(dict.fromkeys(map(_job_id, words)))


def one_job_id(words: tuple[str, ...]) -> int:
    first, *others = job_ids(words)
    if others:
        raise click.UsageError("give one job id")
    return first


def _job_id(word: str) -> int:
    if (job_id := whole_number(word)) is None:
        advice = "; APP comes first, and not together with --url" if ":" in word else ""
        raise click.UsageError(f"{word!r} is not a job id{advice}")
    return job_id


def typed_seconds(typed: str) -> float:
    """
    >>> typed_seconds("90"), typed_seconds("5m"), typed_seconds("1.5h")
    (90.0, 300.0, 5400.0)
    """
    seconds = seconds_from_text(typed)
    if seconds is None:
        raise click.BadParameter(f"{typed!r} is not a duration; write seconds, or 90s, 5m, 1h, 2d")
    return seconds


def given_options(options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options that were typed."""
    return {name: value for name, value in options.items() if not (value is None or value == () or value is False)}


def typed_option(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def warn(doubt: str) -> None:
    """Print a warning, unless the text is empty."""
    if doubt:
        click.echo(f"warning: {one_line(doubt)}", err=True)


def typed_time(typed: str) -> datetime:
    example = "write it as 2026-01-02T09:00Z, or with +01:00 instead of Z"
    try:
        moment = datetime.fromisoformat(typed)
    except ValueError:
        raise click.BadParameter(f"{typed!r} is not a time; {example}") from None
    if moment.tzinfo is None:
        raise click.BadParameter(f"{typed!r} has no time zone; {example}")
    return moment


def typed_object(typed: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(typed, type=dict[str, object])
    except NOT_JSON:
        typed = typed if len(typed) <= _SHOWN_LENGTH else f"{typed[:_SHOWN_LENGTH]}..."
        raise click.BadParameter(f"{typed!r} is not a JSON object; write it as '{{\"customer\": 7}}'") from None


def selecting_options(function: F) -> F:
    """Add the filters of `list`, without the status."""
    for option in (
        click.option("--payload", type=typed_object, metavar="JSON", help="Only jobs with these values of arguments."),
        click.option("--finished-before", type=typed_time, metavar="TIME", help="Only jobs that ended before."),
        click.option("--finished-after", type=typed_time, metavar="TIME", help="Only jobs that ended at it or later."),
        click.option("--created-before", type=typed_time, metavar="TIME", help="Only jobs enqueued before."),
        click.option("--created-after", type=typed_time, metavar="TIME", help="Only jobs enqueued at it or later."),
        click.option(
            "--error-code", metavar="CODE", help="Only jobs with this error code; TIMEOUT:* for all that begin so."
        ),
        click.option("--worker", metavar="NAME", help="Only jobs whose latest attempt is of this worker."),
        click.option("--chain", type=click.IntRange(min=1), metavar="ID", help="Only steps of this chain."),
        click.option("--batch", type=click.IntRange(min=1), metavar="ID", help="Only jobs of this batch."),
        click.option("--parent", type=click.IntRange(min=1), metavar="ID", help="Only children of this job."),
        click.option("--key", metavar="KEY", help="Only jobs with this key; needs --type."),
        click.option("--tag", metavar="TAG", help="Only jobs with this tag."),
        click.option("--type", metavar="NAME", help="Only jobs of this task."),
        click.option("--queue", metavar="NAME", help="Only jobs of this queue."),
    ):
        function = option(function)
    return function


def job_options(function: F) -> F:
    """Add the options that a job is enqueued with, and that `edit` can change."""
    for option in (
        click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; may be given several times."),
        click.option("--expires-in", type=typed_seconds, metavar="DURATION", help="The same, after this time."),
        click.option("--expires-at", type=typed_time, metavar="TIME", help="Cancel it unless it has started by then."),
        click.option("--timeout", type=typed_seconds, metavar="DURATION", help="Longest time of an attempt."),
        click.option("--max-attempts", type=int, metavar="N", help="Attempts until it fails for good."),
        click.option("--run-at", type=typed_time, metavar="TIME", help="Run at this time: 2026-01-02T09:00+00:00."),
        click.option("--delay", type=typed_seconds, metavar="DURATION", help="Run after this time: 90s, 5m, 1h, 2d, …"),
        click.option("--priority", type=int, metavar="N", help="Higher runs first."),
        click.option("--queue", metavar="NAME", help="The queue of the job."),
    ):
        function = option(function)
    return function


local_option = click.option(
    "--local",
    "zone",
    is_flag=True,
    callback=lambda ctx, option, chosen: None if chosen else UTC,
    help="Show times in the time zone of this machine, not in UTC.",
)
limit_option = click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", default=20, show_default=True, help="Show at most N rows."
)
window_option = click.option(
    "--window",
    type=typed_seconds,
    metavar="DURATION",
    default="5m",
    show_default=True,
    help="Period of the rates and percentiles: 90s, 5m, 1h, 2d, …",
)
