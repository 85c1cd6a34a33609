"""`rowcall set-priority`: let jobs run before or after others of their queue."""

from __future__ import annotations

import click

from rowcall.app import Rowcall
from rowcall.cli.act_on_ids import act_on
from rowcall.cli.command import Answer, job_ids, queue_command
from rowcall.cli.target import Target
from rowcall.domain.job import Job


@queue_command("set-priority", "Let jobs run before or after others of their queue.", words="ID…", parse=job_ids)
@click.option("--priority", type=int, required=True, metavar="N", help="Higher runs first.")
def command(target: Target, words: list[int], priority: int) -> Answer:
    """Let jobs run before or after others of their queue.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if a job could not be changed.
    """

    def set_priority(jobs: Rowcall, job_id: int) -> tuple[Job, str]:
        job = jobs.set_priority(job_id, priority)
        return job, f"has priority {job.priority}"

    return act_on(target, words, set_priority)
