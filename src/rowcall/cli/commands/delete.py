"""`rowcall delete`: delete jobs with their history."""

from __future__ import annotations

from rowcall.app import Rowcall
from rowcall.cli.act_on_ids import act_on
from rowcall.cli.command import Answer, job_ids, queue_command
from rowcall.cli.target import Target


@queue_command("delete", words="ID…", parse=job_ids)
def command(target: Target, words: list[int]) -> Answer:
    """Delete jobs that are not running, with their history.

    With --json: {"jobs": [{"id", "ok", "status", "error"}, …]}. Exit code 1 if a job could not be deleted.
    """

    def delete(jobs: Rowcall, job_id: int) -> tuple[None, str]:
        jobs.delete(job_id)
        return None, "deleted"

    return act_on(target, words, delete)
