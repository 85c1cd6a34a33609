"""`rowcall why`: why a job waits, and what to type next."""

from __future__ import annotations

from datetime import tzinfo

from rowcall.cli.command import Answer, local_option, one_job_id, queue_command
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import has_unicode, status_text, text
from rowcall.cli.target import Target
from rowcall.domain.job import Job, Reason, Status, Why
from rowcall.operations.inspect import get_row
from rowcall.overview.reasons import why_in
from rowcall.overview.scrub import scrubbed

_NO_WORKER = (Reason.NO_WORKER, Reason.NO_WORKER_FOR_QUEUE, Reason.NO_WORKER_FOR_TASK, Reason.MISMATCH)


@queue_command("why", "Show why a job waits, and what to do.", words="ID", parse=one_job_id)
@local_option
def why_command(target: Target, words: int, zone: tzinfo | None) -> Answer:
    """Show in one sentence why a job waits, or how it ended, and the command that helps.

    With --json: {"job_id", "status", "reason", "sentence", "until", "error_code", "paused", "limit", "first",
    "blockers": [{"id", "is_chain", "status", "open"}, …], "ahead": {…}, "worker"}. Exit code 1 if there is no such job.
    """
    failures = target.queue.declared.failures
    job = scrubbed(failures, target.queue.run(get_row(target.queue, words)))
    why = scrubbed(failures, target.queue.run(why_in(target.queue, words, zone)))
    return Answer(why, lambda: _show(target, job, why))


def _show(target: Target, job: Job, why: Why) -> None:
    heading = text(f"job {job.id}  {job.type}  ", "bold")
    heading.append_text(status_text(job.status))
    show(heading)
    show(text(why.sentence))
    if helps := _helps(target, job, why):
        show(text(f"{'→' if has_unicode() else '->'} {helps}", "dim"))


def _helps(target: Target, job: Job, why: Why) -> str:
    """Return the command that shows more or ends the wait, or an empty text."""
    if why.reason in _NO_WORKER:
        return target.work_command
    if why.paused is not None:
        words = ("--task", why.paused.name) if why.paused.kind == "task" else (why.paused.name,)
        return target.command("resume", *words)
    if why.blockers:
        return target.command("show", str(why.blockers[0].id)) if not why.blockers[0].is_chain else ""
    if why.first is not None:
        return target.command("show", str(why.first))
    if why.limit is not None:
        return target.command("limits")
    if job.status is Status.RUNNING and job.started_at is not None:
        return target.command("stack", str(job.id))
    if job.status is Status.FAILED:
        return target.command("show", str(job.id))
    if why.reason in (Reason.SCHEDULED, Reason.RETRY):
        return target.command("reschedule", str(job.id), "--delay", "0")
    return ""
