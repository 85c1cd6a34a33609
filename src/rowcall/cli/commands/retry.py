"""`rowcall retry`: run finished jobs again."""

from __future__ import annotations

import click

from rowcall.app import Rowcall
from rowcall.cli.act_on_ids import act_on
from rowcall.cli.command import Answer, optional_job_ids, queue_command
from rowcall.cli.filters import act_on_matching, filter_options, given_filter
from rowcall.cli.target import Target
from rowcall.domain.job import Job, Status
from rowcall.overview.formats import counted


@queue_command("retry", "Run finished jobs again.", words="[ID…]", parse=optional_job_ids)
@click.option("--error-code", metavar="CODE", help="Jobs with this error code, such as TIMEOUT:API or TIMEOUT:*.")
@filter_options
@click.option("--rate", type=float, metavar="N", help="Release N jobs per second.")
def command(target: Target, words: list[int], yes: bool, **options: object) -> Answer:
    """Run finished jobs again: those with the given ids, or all that match a filter.

    A filter selects failed jobs, unless --status names another state. Each job gets as many new attempts as its task
    allows.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}, or {"count"} with a filter. Exit code 1 if a given job
    could not be retried.
    """
    given = given_filter(words, options)
    if given:
        retry = lambda: target.jobs.retry(**given)  # noqa: E731
        return act_on_matching(target, "retry", given, [Status.FAILED], yes, retry, "will run again")
    return act_on(target, words, _retry)


def _retry(jobs: Rowcall, job_id: int) -> tuple[Job, str]:
    job = jobs.retry(job_id)
    left = counted(job.max_attempts - job.attempt, "attempt")
    return job, f"is {job.status} again: {left} left ({job.attempt} of {job.max_attempts} used)"
