"""The outcome of the demo's jobs, counted from the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from rowcall.app import Rowcall
from rowcall.base.text import duration
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import Table
from rowcall.domain.job import Job, Status

_PAGE = 1000


class TaskReport(msgspec.Struct, kw_only=True, frozen=True):
    """The outcome of the jobs of one task."""

    task: str
    enqueued: int
    succeeded: int
    attempts: int
    retried: int
    recovered: int
    lost: int


class Report(msgspec.Struct, kw_only=True, frozen=True):
    tasks: list[TaskReport]
    enqueued: int
    lost: int
    killed_pid: int | None
    seconds: float


def report_of(jobs: Rowcall, enqueued: Mapping[str, int], killed_pid: int | None, seconds: float) -> Report:
    tasks = [_count(jobs, task, number) for task, number in enqueued.items()]
    lost = sum(task.lost for task in tasks)
    return Report(tasks=tasks, enqueued=sum(enqueued.values()), lost=lost, killed_pid=killed_pid, seconds=seconds)


def _count(jobs: Rowcall, task: str, enqueued: int) -> TaskReport:
    listed = list(_all(jobs, task))
    endings: Counter[str] = Counter()
    for job in listed:
        if job.attempt > 1:
            endings.update(attempt.status for attempt in jobs.attempts(job.id))
    succeeded = sum(job.status == Status.SUCCEEDED for job in listed)
    return TaskReport(
        task=task,
        enqueued=enqueued,
        succeeded=succeeded,
        attempts=sum(job.attempt for job in listed),
        retried=endings["failed"],
        recovered=endings["lost"],
        lost=enqueued - succeeded,
    )


def _all(jobs: Rowcall, task: str) -> Iterator[Job]:
    page = jobs.list(type=task, limit=_PAGE)
    yield from page.jobs
    while page.next_cursor is not None:
        page = jobs.list(type=task, limit=_PAGE, cursor=page.next_cursor)
        yield from page.jobs


_NUMBERS = ("enqueued", "attempts", "retried", "recovered", "succeeded", "lost")


def show_report(report: Report) -> None:
    shown = Table("task", *_NUMBERS, right=_NUMBERS)
    for task in report.tasks:
        shown.add_row(task.task, *(getattr(task, name) for name in _NUMBERS))
    shown.add_row("all", *(sum(getattr(task, name) for task in report.tasks) for name in _NUMBERS), style="bold")
    show(shown)
    show("")
    style = "bold red" if report.lost else "bold green"
    killed = "" if report.killed_pid is None else ", one of two worker processes killed halfway"
    show(f"{report.lost} lost, in {duration(report.seconds)}{killed}", style=style)
    show("recovered: attempts that had begun when their worker was killed; their jobs ran again", style="dim")
