"""Names of queues and tasks that neither the app nor any job has: they may be misspelt."""

from __future__ import annotations

from rowcall.base.text import did_you_mean
from rowcall.cli.target import Target


def unknown_name(target: Target, queue: str | None, task: str | None) -> str:
    """Return what to say about a queue or a task that is not known, or an empty text."""
    if queue is None and task is None:
        return ""
    stats, declared = target.jobs.stats(), target.queue.tasks
    default = target.queue.config.default_queue
    queues = {*stats.by_queue, *(one.options.queue or default for one in declared.values())}
    for kind, name, known in (("queue", queue, queues), ("task", task, {*stats.by_type, *declared})):
        if name is not None and name not in known:
            nowhere = f"{target.app} does not declare it, and no job has it" if target.app else "no job has it"
            return f"unknown {kind} {name!r}: {nowhere}{did_you_mean(name, known)}"
    return ""
