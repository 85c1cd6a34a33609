"""`rowcall retry`, `cancel` and `delete`: what becomes of each job that is named."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click
import msgspec

from rowcall.app import Rowcall
from rowcall.cli.output import console, print_json, text
from rowcall.cli.target import existing, json_option, split_app, url_option
from rowcall.errors import JobNotFound, RowcallError, StoreUnavailable, WrongState
from rowcall.job import FINISHED, Status

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
@url_option
@json_option
def retry_command(words: tuple[str, ...], url: str | None, as_json: bool) -> None:
    """Run finished jobs again, with as many attempts more as their task has.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if any of them could not be done.
    """

    def retry(jobs: Rowcall, job_id: int) -> Outcome:
        job = jobs.retry(job_id)
        more = job.max_attempts - job.attempt
        said = f"is {job.status} again, with {more} {'attempt' if more == 1 else 'attempts'} more"
        said += f" ({job.attempt} of {job.max_attempts} used)"
        return Outcome(id=job_id, ok=True, status=job.status, said=said)

    _steer(words, url, as_json, retry)


@click.command("cancel")
@_words
@url_option
@click.option("--reason", metavar="TEXT", help="Kept with the job.")
@json_option
def cancel_command(words: tuple[str, ...], url: str | None, reason: str | None, as_json: bool) -> None:
    """Cancel jobs that are waiting.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if any of them could not be done.
    """

    def cancel(jobs: Rowcall, job_id: int) -> Outcome:
        job = jobs.cancel(job_id, reason)
        return Outcome(id=job_id, ok=True, status=job.status, said="is cancelled")

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
    except RowcallError as error:
        return Outcome(id=job_id, ok=False, error=str(error))


def explained(error: WrongState) -> str:
    """What the job's state means for whoever asked, and what to do."""
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
            click.echo(f"error: {outcome.error}", err=True)
