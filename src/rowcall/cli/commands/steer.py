"""`rowcall retry`, `cancel`, `delete`, `reschedule` and `set-priority`: what becomes of each job that is meant."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime

import click
import msgspec

from rowcall.app import Rowcall
from rowcall.base.text import printable
from rowcall.cli.filters import demand_yes, filter_options, given_filter, print_count, yes_option
from rowcall.cli.present.output import console, moment, print_json, text
from rowcall.cli.target import existing, json_option, split_app, url_option
from rowcall.domain.errors import InvalidOption, JobNotFound, RowcallError, StoreUnavailable, WrongState
from rowcall.domain.job import FINISHED, WAITING, Status
from rowcall.overview.formats import typed_rate, typed_seconds

_words = click.argument("words", nargs=-1, metavar="[APP] ID…")


class Outcome(msgspec.Struct, kw_only=True, frozen=True):
    """`status` is the job's state now, or null where there is no such job."""

    id: int
    ok: bool
    status: str | None = None
    error: str | None = None
    said: str = ""


@click.command("retry", short_help="Run finished jobs again.")
@_words
@filter_options
@click.option("--error-code", metavar="CODE", help="Jobs with this code, or with all that begin so: TIMEOUT:*")
@click.option("--rate", type=typed_rate, metavar="N", help="So many a second become due.")
@yes_option
@url_option
@json_option
def retry_command(words: tuple[str, ...], yes: bool, url: str | None, as_json: bool, **chosen: object) -> None:
    """Run finished jobs again, with as many attempts more as their task has: those that are named, or all that fit;
    failed ones unless --status says otherwise.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}, or {"count"} of those that fit. Exit code 1 if any of
    those that are named could not be done.
    """

    def retry(jobs: Rowcall, job_id: int) -> Outcome:
        job = jobs.retry(job_id)
        more = job.max_attempts - job.attempt
        said = f"is {job.status} again, with {more} {'attempt' if more == 1 else 'attempts'} more"
        said += f" ({job.attempt} of {job.max_attempts} used)"
        return Outcome(id=job_id, ok=True, status=job.status, said=said)

    app, ids = split_app(words, ids_wanted=False)
    if given := given_filter(ids, chosen):
        with existing(app, url) as jobs:
            demand_yes(jobs, "retry", "retried", given, [Status.FAILED], yes)
            print_count(jobs.retry(**given), "will run again", as_json)
        return
    _steer(words, url, as_json, retry)


@click.command("cancel", short_help="Cancel jobs that wait or run.")
@_words
@filter_options
@click.option("--reason", metavar="TEXT", help="Kept with the job.")
@yes_option
@url_option
@json_option
def cancel_command(
    words: tuple[str, ...], reason: str | None, yes: bool, url: str | None, as_json: bool, **chosen: object
) -> None:
    """Cancel jobs that are named, or all that fit: those that wait at once, and those that run are asked to end, which
    takes as long as their handlers do.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}, or {"count"} of those that fit. Exit code 1 if any of
    those that are named could not be done.
    """

    def cancel(jobs: Rowcall, job_id: int) -> Outcome:
        job = jobs.cancel(job_id, reason)
        said = f"is asked to end (it runs on {job.worker})" if job.status is Status.RUNNING else "is cancelled"
        return Outcome(id=job_id, ok=True, status=job.status, said=said)

    app, ids = split_app(words, ids_wanted=False)
    if given := given_filter(ids, chosen):
        with existing(app, url) as jobs:
            demand_yes(jobs, "cancel", "cancelled", given, (*WAITING, Status.RUNNING), yes)
            print_count(jobs.cancel(reason=reason, **given), "cancelled, or asked to end", as_json)
        return
    _steer(words, url, as_json, cancel)


@click.command("delete")
@_words
@url_option
@json_option
def delete_command(words: tuple[str, ...], url: str | None, as_json: bool) -> None:
    """Delete jobs that are not running, with their history.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if any of them could not be done.
    """

    def delete(jobs: Rowcall, job_id: int) -> Outcome:
        jobs.delete(job_id)
        return Outcome(id=job_id, ok=True, said="is deleted")

    _steer(words, url, as_json, delete)


@click.command("reschedule", short_help="Give waiting jobs another time.")
@_words
@click.option("--delay", type=typed_seconds, metavar="DURATION", help="From now on: 90s, 5m, 1h, 2d, …")
@click.option("--run-at", metavar="TIME", help="With a time zone: 2026-01-02T09:00+00:00")
@url_option
@json_option
def reschedule_command(
    words: tuple[str, ...], delay: float | None, run_at: str | None, url: str | None, as_json: bool
) -> None:
    """Give jobs that are waiting another time.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if any of them could not be done.
    """
    at = None if run_at is None else _time(run_at)
    if delay is None and at is None:
        raise click.UsageError("give --delay or --run-at")
    if delay is not None and at is not None:
        raise click.UsageError("both --delay and --run-at were given, and only one can be")

    def reschedule(jobs: Rowcall, job_id: int) -> Outcome:
        job = jobs.reschedule(job_id, run_at=at, delay=delay)
        return Outcome(id=job_id, ok=True, status=job.status, said=f"is {job.status}, for {moment(job.run_at)} UTC")

    _steer(words, url, as_json, reschedule)


@click.command("set-priority", short_help="Let jobs run before or after others of their queue.")
@_words
@click.option("--priority", type=int, required=True, metavar="N", help="Higher runs first.")
@url_option
@json_option
def set_priority_command(words: tuple[str, ...], priority: int, url: str | None, as_json: bool) -> None:
    """Let jobs run before or after others of their queue.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if any of them could not be done.
    """

    def set_priority(jobs: Rowcall, job_id: int) -> Outcome:
        job = jobs.set_priority(job_id, priority)
        return Outcome(id=job_id, ok=True, status=job.status, said=f"has the priority {job.priority}")

    _steer(words, url, as_json, set_priority)


def _time(given: str) -> datetime:
    example = "write it such as 2026-01-02T09:00Z, or with +01:00 in place of Z"
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise click.UsageError(f"--run-at: {given!r} is no time; {example}") from None
    if found.tzinfo is None:
        raise click.UsageError(f"--run-at: {given!r} has no time zone; {example}")
    return found


def _steer(words: tuple[str, ...], url: str | None, as_json: bool, act: Callable[[Rowcall, int], Outcome]) -> None:
    app, ids = split_app(words)
    with existing(app, url) as jobs:
        outcomes = [_outcome(jobs, job_id, act) for job_id in ids]
    if as_json:
        print_json({"jobs": [_as_json(outcome) for outcome in outcomes]})
    else:
        _print(outcomes)
    if not all(outcome.ok for outcome in outcomes):
        sys.exit(1)


def _outcome(jobs: Rowcall, job_id: int, act: Callable[[Rowcall, int], Outcome]) -> Outcome:
    try:
        return act(jobs, job_id)
    except StoreUnavailable:
        raise  # the others would meet the same
    except JobNotFound as error:
        return Outcome(id=job_id, ok=False, error=str(error))
    except WrongState as error:
        return Outcome(id=job_id, ok=False, status=error.status, error=explained(error))
    except InvalidOption:
        raise  # what was given is wrong for all of them
    except RowcallError as error:
        return Outcome(id=job_id, ok=False, error=str(error))


def explained(error: WrongState) -> str:
    """What the job's state means for whoever asked, and what to do."""
    if error.problem:
        return str(error)
    said = f"cannot {error.move} job {error.job_id}: it is {error.status}"
    if error.status == Status.RUNNING:
        return f"{said}; wait until it has ended, or stop its worker first"
    if error.status in FINISHED:
        return f"{said} already"
    return f"{said}, and will run by itself" if error.move == "retry" else said


def _as_json(outcome: Outcome) -> dict[str, object]:
    return {"id": outcome.id, "ok": outcome.ok, "status": outcome.status, "error": outcome.error}


def _print(outcomes: list[Outcome]) -> None:
    out = console()
    for outcome in outcomes:
        if outcome.ok:
            out.print(text(f"job {outcome.id} {outcome.said}"))
        else:
            click.echo(f"error: {printable(str(outcome.error))}", err=True)
