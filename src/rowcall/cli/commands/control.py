"""`rowcall retry`, `cancel`, `complete`, `delete`, `reschedule` and `set-priority`: change jobs by their ids.

`retry` and `cancel` also take a filter, and ask at a terminal before they change all jobs that match.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

import click
import msgspec

from rowcall.app import Rowcall
from rowcall.base.text import one_line, printable
from rowcall.cli.command import (
    Answer,
    job_ids,
    optional_job_ids,
    queue_command,
    selecting_options,
    typed_option,
    typed_seconds,
    warn,
)
from rowcall.cli.present.console import show
from rowcall.cli.target import Target
from rowcall.domain.errors import InvalidOption, RowcallError, StoreUnavailable, WrongState
from rowcall.domain.job import WAITING, Job, Status
from rowcall.overview.formats import counted, moment

Act = Callable[[Rowcall, int], tuple[Job | None, str]]
"""Acts on one job; returns its new state, and what to print after its id."""

_NOT_FILTERS = {"limit", "rate"}
_yes_option = click.option("--yes", is_flag=True, help="Do not ask before changing all matching jobs.")
_limit_option = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N jobs.")
_status_option = click.option("--status", metavar="STATE", help="Only jobs in this state.")


@queue_command("retry", "Run finished jobs again.", words="[ID…]", parse=optional_job_ids)
@click.option("--error-code", metavar="CODE", help="Only jobs with this error code, such as TIMEOUT:API or TIMEOUT:*.")
@_status_option
@selecting_options
@_limit_option
@_yes_option
@click.option("--rate", type=float, metavar="N", help="Release N jobs per second.")
def retry_command(target: Target, words: list[int], yes: bool, **options: object) -> Answer:
    """Run finished jobs again: those with the given ids, or all that match a filter.

    A filter selects failed jobs, unless --status names another state. Each job gets as many new attempts as its task
    allows.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}, or {"count"} with a filter. Exit code 1 if a given job
    could not be retried.
    """

    def retry(jobs: Rowcall, job_id: int) -> tuple[Job, str]:
        job = jobs.retry(job_id)
        left = counted(job.max_attempts - job.attempt, "attempt")
        return job, f"is {job.status} again: {left} left ({job.attempt} of {job.max_attempts} used)"

    if given := _given_filter(words, options):
        _confirm(target, "retry", given, [Status.FAILED], yes)
        return _counted(target, given, target.jobs.retry(**given), "will run again")
    return _act_on(target, words, retry)


@queue_command("cancel", "Cancel jobs that wait or run.", words="[ID…]", parse=optional_job_ids)
@_status_option
@selecting_options
@_limit_option
@_yes_option
@click.option("--reason", metavar="TEXT", help="Reason to store with the job.")
def cancel_command(target: Target, words: list[int], reason: str | None, yes: bool, **options: object) -> Answer:
    """Cancel the jobs with the given ids, or all that match a filter.

    Waiting jobs are cancelled at once. Running jobs are asked to stop, which takes as long as their handlers need.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}, or {"count"} with a filter. Exit code 1 if a given job
    could not be cancelled.
    """

    def cancel(jobs: Rowcall, job_id: int) -> tuple[Job, str]:
        job = jobs.cancel(job_id, reason)
        running = job.status is Status.RUNNING
        return job, f"is running on {job.worker}: it was asked to stop" if running else "cancelled"

    if given := _given_filter(words, options):
        _confirm(target, "cancel", given, (*WAITING, Status.RUNNING), yes)
        return _counted(target, given, target.jobs.cancel(reason=reason, **given), "cancelled, or asked to stop")
    return _act_on(target, words, cancel)


@queue_command("complete", "Complete waiting jobs without running them.", words="ID…", parse=job_ids)
@click.option("--result", metavar="JSON", help="Result of the jobs, as JSON.")
def complete_command(target: Target, words: list[int], result: str | None) -> Answer:
    """Complete waiting jobs by hand, for approvals: they succeed without a run, and jobs that wait for them start.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if a job could not be completed.
    """
    try:
        value = None if result is None else msgspec.json.decode(result)
    except msgspec.DecodeError as error:
        raise click.UsageError(f"--result must be JSON: {error}") from error

    def complete(jobs: Rowcall, job_id: int) -> tuple[Job, str]:
        jobs.complete(job_id, value)
        return jobs.get(job_id), "completed"

    return _act_on(target, words, complete)


@queue_command("delete", words="ID…", parse=job_ids)
def delete_command(target: Target, words: list[int]) -> Answer:
    """Delete jobs that are not running, with their history.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if a job could not be deleted.
    """

    def delete(jobs: Rowcall, job_id: int) -> tuple[None, str]:
        jobs.delete(job_id)
        return None, "deleted"

    return _act_on(target, words, delete)


@queue_command("reschedule", "Change the time of waiting jobs.", words="ID…", parse=job_ids)
@click.option("--delay", type=typed_seconds, metavar="DURATION", help="Run after this time: 90s, 5m, 1h, 2d, …")
@click.option("--run-at", metavar="TIME", help="Run at this time, with a time zone: 2026-01-02T09:00+00:00.")
def reschedule_command(target: Target, words: list[int], delay: float | None, run_at: str | None) -> Answer:
    """Change the time at which waiting jobs run: give --delay or --run-at.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if a job could not be rescheduled.
    """
    if (delay is None) == (run_at is None):
        raise click.UsageError(f"give --delay or --run-at{', not both' if run_at is not None else ''}")
    at = None if run_at is None else _time(run_at)

    def reschedule(jobs: Rowcall, job_id: int) -> tuple[Job, str]:
        job = jobs.reschedule(job_id, run_at=at, delay=delay)
        return job, f"is {job.status} for {moment(job.run_at)} UTC"

    return _act_on(target, words, reschedule)


@queue_command("set-priority", "Change the priority of jobs within their queue.", words="ID…", parse=job_ids)
@click.option("--priority", type=int, required=True, metavar="N", help="The new priority; higher runs first.")
def set_priority_command(target: Target, words: list[int], priority: int) -> Answer:
    """Change the priority of jobs within their queue.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if a job could not be changed.
    """

    def set_priority(jobs: Rowcall, job_id: int) -> tuple[Job, str]:
        job = jobs.set_priority(job_id, priority)
        return job, f"has priority {job.priority}"

    return _act_on(target, words, set_priority)


def _time(given: str) -> datetime:
    example = "write it as 2026-01-02T09:00Z, or with +01:00 instead of Z"
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise click.UsageError(f"--run-at: {given!r} is not a time; {example}") from None
    if found.tzinfo is None:
        raise click.UsageError(f"--run-at: {given!r} has no time zone; {example}")
    return found


class Outcome(msgspec.Struct, kw_only=True, frozen=True):
    """`status` is the job's state now, or null if there is no such job."""

    id: int
    ok: bool
    status: str | None = None
    error: str | None = None


def _act_on(target: Target, ids: list[int], act: Act) -> Answer:
    """Act on each job; one that cannot be done does not stop the others."""
    outcomes, said = [], {}
    for job_id in ids:
        status: str | None = None
        error: str | None = None
        try:
            job, said[job_id] = act(target.jobs, job_id)
            status = None if job is None else job.status
        except (StoreUnavailable, InvalidOption):
            raise  # the other jobs would fail alike
        except WrongState as wrong:
            status, error = wrong.status, str(wrong)
        except RowcallError as problem:
            error = str(problem)
        outcomes.append(Outcome(id=job_id, ok=error is None, status=status, error=error))

    def print_outcomes() -> None:
        for outcome in outcomes:
            if outcome.ok:
                show(one_line(f"job {outcome.id} {said[outcome.id]}"))
            else:
                click.echo(f"error: {printable(str(outcome.error))}", err=True)

    return Answer({"jobs": outcomes}, print_outcomes, all(outcome.ok for outcome in outcomes))


def _given_filter(ids: list[int], options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options of a filter; wrong use unless there are either ids or a filter."""
    given = {name: value for name, value in options.items() if value is not None}
    said = " and ".join(map(typed_option, given))
    if ids and given:
        raise click.UsageError(f"give job ids or {said}, not both")
    if not ids and not given:
        raise click.UsageError("give job ids, or a filter such as --queue")
    if given and given.keys() <= _NOT_FILTERS:
        raise click.UsageError(f"{said} alone matches every job; add --status, --queue, --type or --tag")
    return given


def _confirm(target: Target, verb: str, given: Mapping[str, Any], statuses: Collection[Status], yes: bool) -> None:
    """Ask at a terminal. `statuses` are selected unless the filter names one."""
    if yes or not sys.stdin.isatty():
        return
    named = " ".join(f"{typed_option(name)} {value}" for name, value in given.items())
    matching = _count(target.jobs, given, statuses)
    now = "" if matching is None else f" (now {matching:,})"
    if not click.confirm(f"{verb} all jobs with {named}{now}?", err=True):
        click.echo("nothing was changed", err=True)
        sys.exit(1)


def _counted(target: Target, given: Mapping[str, Any], count: int, said: str) -> Answer:
    if not count:
        warn(target.unknown_name(given.get("queue"), given.get("type")))
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
        case {"type": str(task)}:
            counts = stats.by_type.get(task, {})
        case _:
            counts = stats.by_status
    count = sum(counts.get(status, 0) for status in wanted)
    limit: int | None = given.get("limit")
    return count if limit is None else min(count, limit)
