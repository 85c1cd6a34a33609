"""`rowcall tasks`: the declared tasks, their options, and the jobs of each."""

from __future__ import annotations

from rowcall.base.text import duration
from rowcall.cli.command import Answer, queue_command
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import table_of, text
from rowcall.cli.target import Target, declaring, has_tables
from rowcall.domain.job import WAITING, Status
from rowcall.overview.tasks import TaskOverview, fails_at_once, tasks_of


@queue_command("tasks", "List the declared tasks, their options, and the jobs of each.", opened=declaring)
def tasks_command(target: Target) -> Answer:
    """List the tasks of APP, their options, and how many jobs of each there are.

    Tasks that APP does not declare are listed if there are jobs of them. Arguments in brackets are optional. A task
    whose exceptions are never retried has 1 attempt; only after the death of a worker, it has up to max_attempts.

    With --json: {"tasks": [{"name", "declared", "function", "arguments", "optional", "aliases", "on", "queue",
    "priority", "max_attempts", "timeout", "retry", "runs_in", "batch", "tags", "limits", "jobs": {"blocked", …}}, …]},
    with null for options of a task that APP does not declare.
    """
    counts = target.jobs.stats().by_type if has_tables(target) else {}
    tasks = tasks_of(target.queue, counts)
    return Answer({"tasks": tasks}, lambda: _show(target, tasks))


def _show(target: Target, tasks: list[TaskOverview]) -> None:
    declared = [task for task in tasks if task.declared]
    if not tasks:
        show(f"{target.app} declares no task" if target.app is not None else "no jobs")
        return
    columns = {
        "task": lambda task: task.name,
        "queue": lambda task: task.queue,
        "attempts": lambda task: 1 if fails_at_once(task.retry) else task.max_attempts,
        "timeout": lambda task: duration(task.timeout),
        "waiting": lambda task: sum(task.jobs[status] for status in WAITING),
        "running": lambda task: task.jobs[Status.RUNNING],
        "failed": lambda task: task.jobs[Status.FAILED],
        "arguments": lambda task: text("") if task.arguments is None else _arguments(task),
    }
    numbers = ("attempts", "timeout", "waiting", "running", "failed")
    if declared:
        show(table_of(declared, columns, right=numbers, whole=("task", "queue")))
    others = [task for task in tasks if not task.declared]
    if others:
        known = {name: cell for name, cell in columns.items() if name in ("task", "waiting", "running", "failed")}
        heading = "tasks of jobs in the database" if target.app is None else f"not declared by {target.app}"
        show(f"\n{heading}" if declared else heading, style="bold")
        show(table_of(others, known, right=numbers, whole=("task",)))


def _arguments(task: TaskOverview) -> str:
    optional = task.optional or ()
    return ", ".join(f"[{name}]" if name in optional else name for name in task.arguments or ())
