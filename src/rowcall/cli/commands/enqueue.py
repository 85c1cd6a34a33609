"""`rowcall enqueue`: write jobs of a task, with arguments from the command line or from standard input."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import click
import msgspec

from rowcall.cli.command import (
    NOT_JSON,
    Answer,
    F,
    given_options,
    job_options,
    queue_command,
    typed_object,
    typed_seconds,
)
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import first_of, text
from rowcall.cli.target import Target, existing, find
from rowcall.domain.errors import RowcallError
from rowcall.domain.job import Job, Status
from rowcall.operations.enqueue import enqueue_many_by_name
from rowcall.overview.formats import counted, moment
from rowcall.overview.scrub import scrubbed


def _enqueue_options(function: F) -> F:
    for option in (
        click.option(
            "--target", "pushed_to", metavar="URL", help="Push the job to this web address instead of running it."
        ),
        click.option(
            "--on-blocker-failure",
            type=click.Choice(["fail", "run", "wait"]),
            help="What happens if a job of --after fails.",
        ),
        click.option(
            "--after",
            type=click.IntRange(min=1),
            multiple=True,
            metavar="ID",
            help="Wait for this job; may be given several times.",
        ),
        click.option(
            "--on-duplicate",
            type=click.Choice(["return", "replace", "raise"]),
            help="What happens if a job with the key exists.",
        ),
        click.option("--key-window", type=typed_seconds, metavar="DURATION", help="How long the key stays taken."),
        click.option("--key-scope", type=click.Choice(["active", "waiting", "any"]), help="Which jobs take the key."),
        click.option("--key", metavar="KEY", help="Enqueue only one job of the task with this key."),
        job_options,
    ):
        function = option(function)
    return function


def _opened(app: str | None, url: str | None) -> Target:
    """Return the queue. Only an app makes its tables, as its own first enqueue would."""
    target = find(app, url)
    return existing(app, url) if app is None or target.queue.config.in_memory else target


class _Words(NamedTuple):
    """A task, and the arguments of its jobs, by the lines of standard input that they are on."""

    task: str
    rows: dict[int, dict[str, object]]


def _parse(words: tuple[str, ...]) -> _Words:
    if not 1 <= len(words) <= 2:
        raise click.UsageError("give a task, and its arguments as one JSON object, or - to read them")
    return _Words(words[0], {1: {}} if len(words) == 1 else _rows(words[1]))


def _rows(typed: str) -> dict[int, dict[str, object]]:
    """Return the objects that were typed: one, or those of standard input if it is `-`."""
    if typed != "-":
        return {1: typed_object(typed)}
    if sys.stdin is None:
        raise click.UsageError("standard input is closed")
    content = sys.stdin.buffer.read()
    try:
        return {1: msgspec.json.decode(content, type=dict[str, object])}  # perhaps on several lines
    except NOT_JSON:
        rows: dict[int, dict[str, object]] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                rows[number] = msgspec.json.decode(line, type=dict[str, object])
            except NOT_JSON as error:
                where = f"row {len(rows)}: line {number} of standard input"
                raise click.UsageError(f"{where} is not a JSON object: {error}") from None
    return rows


@queue_command("enqueue", "Enqueue jobs of a task.", words="TASK [JSON | -]", parse=_parse, opened=_opened)
@_enqueue_options
def enqueue_command(target: Target, words: _Words, pushed_to: str | None, **options: Any) -> Answer:
    """Enqueue a job of TASK. Its arguments are one JSON object, {} if left out.

    With - they are read from standard input: one object, or several, each on its own line. Several jobs are written
    in one transaction. The arguments are checked as in Python; with --url the tasks are not known, and any name and any
    object is accepted.

    \b
        rowcall enqueue app:jobs send_email '{"to": "ann@example.com"}' --delay 5m

    With --json: {"jobs": [{"id", "type", "queue", …, "duplicate"}, …]}: "duplicate" is true if the job existed.
    """
    if target.app is not None:
        target.jobs.declared_task(words.task)
    job_options = given_options({**options, "target": pushed_to})
    rows = list(words.rows.values())
    try:
        written = target.queue.run(
            enqueue_many_by_name(target.queue, words.task, rows, job_options)  # type: ignore[arg-type]
        )
    except RowcallError as error:
        if error.row is not None:
            error.args = (f"line {list(words.rows)[error.row]} of standard input: {error.args[0]}", *error.args[1:])
        raise
    jobs = [scrubbed(target.queue.declared.failures, job) for job in written]

    def print_jobs() -> None:
        shown, omitted = first_of(jobs)
        for job in shown:
            show(text(described(job)))
        if len(jobs) != 1:
            show(
                f"{counted(sum(not job.duplicate for job in jobs), 'job')} enqueued{f' ({omitted})' if omitted else ''}"
            )

    return Answer({"jobs": [job.to_dict() for job in jobs]}, print_jobs)


def described(job: Job) -> str:
    at = f" for {moment(job.run_at)} UTC" if job.status == Status.SCHEDULED else ""
    existed = ", and existed already" if job.duplicate else ""
    return f"job {job.id} {job.type} is {job.status}{at}{existed}"
