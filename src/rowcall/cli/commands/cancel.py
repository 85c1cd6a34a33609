"""`rowcall cancel`: cancel jobs that wait or run."""

from __future__ import annotations

import click

from rowcall.app import Rowcall
from rowcall.cli.act_on_ids import act_on
from rowcall.cli.command import Answer, optional_job_ids, queue_command
from rowcall.cli.filters import act_on_matching, filter_options, given_filter
from rowcall.cli.target import Target
from rowcall.domain.job import WAITING, Job, Status


@queue_command("cancel", "Cancel jobs that wait or run.", words="[ID…]", parse=optional_job_ids)
@filter_options
@click.option("--reason", metavar="TEXT", help="Stored with the job.")
def command(target: Target, words: list[int], reason: str | None, yes: bool, **options: object) -> Answer:
    """Cancel the jobs with the given ids, or all that match a filter.

    Waiting jobs are cancelled at once. Running jobs are asked to stop, which takes as long as their handlers need.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}, or {"count"} with a filter. Exit code 1 if a given job
    could not be cancelled.
    """

    def cancel(jobs: Rowcall, job_id: int) -> tuple[Job, str]:
        job = jobs.cancel(job_id, reason)
        running = job.status is Status.RUNNING
        return job, f"is running on {job.worker}: it was asked to stop" if running else "cancelled"

    given = given_filter(words, options)
    if given:
        act, said = lambda: target.jobs.cancel(reason=reason, **given), "cancelled, or asked to stop"
        return act_on_matching(target, "cancel", given, (*WAITING, Status.RUNNING), yes, act, said)
    return act_on(target, words, cancel)
