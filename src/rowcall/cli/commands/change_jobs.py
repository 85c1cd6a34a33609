"""`rowcall retry`, `cancel`, `complete`, `edit`, `delete`, `reschedule` and `set-priority`: change jobs by their ids.

All but `complete` and `edit` also take a filter, and ask at a terminal before they change all jobs that match.
`retry` also asks before a job runs again that has succeeded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import click
import msgspec

from rowcall.actions import CANCEL, DELETE, RESCHEDULE, RETRY, SET_PRIORITY, Action
from rowcall.base.text import one_line, printable
from rowcall.cli.command import (
    Answer,
    F,
    given_options,
    job_ids,
    job_options,
    optional_job_ids,
    queue_command,
    selecting_options,
    typed_object,
    typed_option,
    typed_seconds,
    typed_time,
    warn,
)
from rowcall.cli.present.console import show
from rowcall.cli.target import Target
from rowcall.domain.errors import InvalidArguments, InvalidOption, RowcallError, StoreUnavailable, WrongState
from rowcall.domain.job import Job, Status
from rowcall.domain.payload import WRONG_RESULT_CODE
from rowcall.operations.inspect import get_rows
from rowcall.operations.job_actions import checked_bulk
from rowcall.overview.formats import counted, moment
from rowcall.overview.matching import Selection

_NOT_FILTERS = {"limit", "rate"}
_yes_option = click.option("--yes", is_flag=True, help="Do not ask first.")
_limit_option = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N jobs.")
_status_option = click.option(
    "--status", metavar="STATE", multiple=True, help="Only jobs in this state; may be given several times."
)
_all_option = click.option("--all", is_flag=True, help="Every job, without a filter.")


def _filters(function: F) -> F:
    for option in (_yes_option, _limit_option, _all_option, selecting_options, _status_option):
        function = option(function)
    return function


@queue_command("retry", "Run finished jobs again.", words="[ID…]", parse=optional_job_ids)
@_filters
@click.option("--rate", type=float, metavar="N", help="Release N jobs per second.")
@click.option("--from-step", metavar="NAME", help="Keep the steps before this one, and run the rest again.")
def retry_command(target: Target, words: list[int], from_step: str | None, yes: bool, **options: object) -> Answer:
    """Run finished jobs again: those with the given ids, or all that match a filter.

    A filter selects failed jobs, unless --status names another state. Each job gets as many new attempts as its task
    allows. A job that has succeeded loses its result, so the command asks at a terminal, unless --yes is given.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}, or {"count"} with a filter. Exit code 1 if a given job
    could not be retried.
    """

    def describe(job: Job) -> str:
        left = counted(job.max_attempts - job.attempt, "attempt")
        return f"is {job.status} again: {left} left ({job.attempt} of {job.max_attempts} used)"

    if not _given_filter(words, options):
        _confirm_again(target, words, yes)
    elif from_step is not None:
        raise click.UsageError("--from-step needs the ids of jobs")
    given = {} if from_step is None else {"from_step": from_step}
    return _change(target, RETRY, words, yes, options, describe, **given)


@queue_command("cancel", "Cancel jobs that wait or run.", words="[ID…]", parse=optional_job_ids)
@_filters
@click.option("--reason", metavar="TEXT", help="Reason to store with the job.")
def cancel_command(target: Target, words: list[int], reason: str | None, yes: bool, **options: object) -> Answer:
    """Cancel the jobs with the given ids, or all that match a filter.

    Waiting jobs are cancelled at once. Running jobs are asked to stop, which takes as long as their handlers need.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}, or {"count"} with a filter. Exit code 1 if a given job
    could not be cancelled.
    """

    def describe(job: Job) -> str:
        running = job.status is Status.RUNNING
        return f"is running on {job.worker}: it was asked to stop" if running else "cancelled"

    return _change(target, CANCEL, words, yes, options, describe, reason=reason)


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

    def complete(job_id: int) -> Job:
        target.jobs.complete(job_id, value)
        return target.jobs.get(job_id)

    return _act_on(words, complete, lambda _: "completed")


class _Edit(NamedTuple):
    job_id: int
    arguments: dict[str, object] | None


def _edit_words(words: tuple[str, ...]) -> _Edit:
    if not 1 <= len(words) <= 2:
        raise click.UsageError("give the id of one job, and its new arguments, if any, as one JSON object")
    [job_id] = optional_job_ids(words[:1])
    return _Edit(job_id, typed_object(words[1]) if len(words) == 2 else None)


@queue_command("edit", "Change the arguments and options of a waiting job.", words="ID [JSON]", parse=_edit_words)
@job_options
@click.option("--no-tags", is_flag=True, help="Remove all tags.")
def edit_command(target: Target, words: _Edit, no_tags: bool, **options: object) -> Answer:
    """Change a waiting job: all its arguments, as one JSON object, its tags, or its options.

    The arguments are checked as in an enqueue. Tags that are given replace the former ones.

    \b
        rowcall edit app:jobs 7 '{"to": "ann@example.com"}' --tag vip --delay 0

    With --json: {"jobs": [{"id", "ok", "status", "error"}]}. Exit code 1 if the job could not be changed.
    """
    changes = given_options(options)
    if no_tags and "tags" in changes:
        raise click.UsageError("give --tag or --no-tags, not both")
    if no_tags:
        changes["tags"] = ()

    def describe(job: Job) -> str:
        changed = [*(["arguments"] if words.arguments is not None else []), *changes]
        return f"is {job.status}, with new {', '.join(name.replace('_', ' ') for name in changed)}"

    return _act_on([words.job_id], lambda job_id: target.jobs.edit(job_id, words.arguments, **changes), describe)


@queue_command("delete", "Delete jobs that are not running.", words="[ID…]", parse=optional_job_ids)
@_filters
def delete_command(target: Target, words: list[int], yes: bool, **options: object) -> Answer:
    """Delete jobs that are not running, with their history: those with the given ids, or all that match a filter.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}, or {"count"} with a filter. Exit code 1 if a given job
    could not be deleted.
    """
    return _change(target, DELETE, words, yes, options, lambda _: "deleted")


@queue_command("reschedule", "Change the time of waiting jobs.", words="[ID…]", parse=optional_job_ids)
@click.option("--delay", type=typed_seconds, metavar="DURATION", help="Run after this time: 90s, 5m, 1h, 2d, …")
@click.option("--run-at", metavar="TIME", help="Run at this time, with a time zone: 2026-01-02T09:00+00:00.")
@_filters
def reschedule_command(
    target: Target, words: list[int], delay: float | None, run_at: str | None, yes: bool, **options: object
) -> Answer:
    """Change the time at which waiting jobs run, of the given ids or of all that match: give --delay or --run-at.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}, or {"count"} with a filter. Exit code 1 if a given job
    could not be rescheduled.
    """
    if (delay is None) == (run_at is None):
        raise click.UsageError(f"give --delay or --run-at{', not both' if run_at is not None else ''}")
    at = None if run_at is None else _time(run_at)

    def describe(job: Job) -> str:
        return f"is {job.status} for {moment(job.run_at)} UTC"

    return _change(target, RESCHEDULE, words, yes, options, describe, run_at=at, delay=delay)


@queue_command("set-priority", "Change the priority of jobs within their queue.", words="[ID…]", parse=optional_job_ids)
@click.option("--priority", type=int, required=True, metavar="N", help="The new priority; higher runs first.")
@_filters
def set_priority_command(target: Target, words: list[int], priority: int, yes: bool, **options: object) -> Answer:
    """Change the priority of jobs within their queue: of the given ids, or of all that match a filter.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}, or {"count"} with a filter. Exit code 1 if a given job
    could not be changed.
    """
    return _change(
        target, SET_PRIORITY, words, yes, options, lambda job: f"has priority {job.priority}", priority=priority
    )


def _time(given: str) -> datetime:
    try:
        return typed_time(given)
    except click.BadParameter as error:
        raise click.UsageError(f"--run-at: {error.message}") from None


class ActionResult(msgspec.Struct, kw_only=True, frozen=True):
    """`status` is the job's state now, or null if there is no such job."""

    id: int
    ok: bool
    status: str | None = None
    error: str | None = None


def _change(
    target: Target,
    action: Action,
    ids: list[int],
    yes: bool,
    options: Mapping[str, object],
    describe: Callable[[Any], str],
    **parameters: object,
) -> Answer:
    """Act on the jobs with these ids, or on all that fit the filter in the options."""
    act = getattr(target.jobs, action.name)
    if not (filters := _given_filter(ids, options)):
        return _act_on(ids, lambda job_id: act(job_id, **parameters), describe)
    _confirm(target, action, filters, yes)
    count = act(**parameters, **filters)
    if not count:
        warn(target.unknown_name(filters.get("queue"), filters.get("type")))
    return Answer({"count": count}, lambda: show(f"{counted(count, 'job')} {action.done}"))


def _act_on(ids: list[int], act: Callable[[int], Job | None], describe: Callable[[Any], str]) -> Answer:
    """Act on each job; one that cannot be done does not stop the others. `describe` says what comes after its id."""
    results, messages = [], {}
    for job_id in ids:
        status: str | None = None
        error: str | None = None
        try:
            job = act(job_id)
            messages[job_id], status = describe(job), None if job is None else job.status
        except (StoreUnavailable, InvalidOption):
            raise  # the other jobs would fail in the same way
        except InvalidArguments as misfit:
            if misfit.error_code != WRONG_RESULT_CODE:  # the result may fit the task of another job
                raise
            error = str(misfit)
        except WrongState as wrong:
            status, error = wrong.status, str(wrong)
        except RowcallError as problem:
            error = str(problem)
        results.append(ActionResult(id=job_id, ok=error is None, status=status, error=error))

    def print_results() -> None:
        for result in results:
            if result.ok:
                show(one_line(f"job {result.id} {messages[result.id]}"))
            else:
                click.echo(f"error: {printable(str(result.error))}", err=True)

    return Answer({"jobs": results}, print_results, all(result.ok for result in results))


def _given_filter(ids: list[int], options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options of a filter; wrong use unless there are either ids or a filter."""
    filters = given_options(options)
    named = " and ".join(map(typed_option, filters))
    if ids and filters:
        raise click.UsageError(f"give job ids or {named}, not both")
    if filters and filters.keys() <= _NOT_FILTERS:
        raise click.UsageError(f"{named} alone matches every job; add --status, --queue, --type or --tag")
    return filters


def _confirm(target: Target, action: Action, filters: Mapping[str, Any], yes: bool) -> None:
    """Ask at a terminal, unless the action would be refused."""
    if yes or not sys.stdin.isatty():
        return
    meant = target.queue.run(checked_bulk(target.queue, None, action, filters)).job_filter
    matching = target.queue.run(Selection(filters, meant.statuses or ()).count(target.queue))
    named = " ".join(_typed(name, one) for name, value in filters.items() for one in _each(value))
    _ask(f"{action.verb} all jobs with {named} (now {matching})?")


def _confirm_again(target: Target, ids: list[int], yes: bool) -> None:
    """Ask at a terminal before jobs that have succeeded run again."""
    if yes or not sys.stdin.isatty():
        return
    found = target.queue.run(get_rows(target.queue, ids))
    succeeded = [str(job.id) for job in found if job.status is Status.SUCCEEDED]
    if len(succeeded) == 1:
        _ask(f"job {succeeded[0]} has succeeded; run it again, and lose its result?")
    elif succeeded:
        _ask(f"jobs {', '.join(succeeded)} have succeeded; run them again, and lose their results?")


def _ask(question: str) -> None:
    if not click.confirm(question, err=True):
        click.echo("nothing was changed", err=True)
        sys.exit(1)


def _each(value: object) -> Sequence[object]:
    return value if isinstance(value, tuple) else (value,)


def _typed(name: str, value: object) -> str:
    if value is True:
        return typed_option(name)
    typed = msgspec.json.encode(value).decode() if isinstance(value, dict) else value
    return f"{typed_option(name)} {one_line(str(typed))}"
