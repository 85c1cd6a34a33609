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
    """The outcome of the jobs of one kind."""

    kind: str
    enqueued: int
    succeeded: int
    attempts: int
    retried: int
    recovered: int
    lost: int


class Report(msgspec.Struct, kw_only=True, frozen=True):
    kinds: list[TaskReport]
    enqueued: int
    lost: int
    killed_pid: int | None
    seconds: float


def report_of(jobs: Rowcall, enqueued: Mapping[str, int], killed_pid: int | None, seconds: float) -> Report:
    kinds = [_count(jobs, kind, number) for kind, number in enqueued.items()]
    lost = sum(kind.lost for kind in kinds)
    return Report(kinds=kinds, enqueued=sum(enqueued.values()), lost=lost, killed_pid=killed_pid, seconds=seconds)


def _count(jobs: Rowcall, kind: str, enqueued: int) -> TaskReport:
    listed = list(_all(jobs, kind))
    endings: Counter[str] = Counter()
    for job in listed:
        if job.attempt > 1:
            endings.update(attempt.status for attempt in jobs.attempts(job.id))
    succeeded = sum(job.status == Status.SUCCEEDED for job in listed)
    return TaskReport(
        kind=kind,
        enqueued=enqueued,
        succeeded=succeeded,
        attempts=sum(job.attempt for job in listed),
        retried=endings["failed"],
        recovered=endings["lost"],
        lost=enqueued - succeeded,
    )


def _all(jobs: Rowcall, kind: str) -> Iterator[Job]:
    page = jobs.list(type=kind, limit=_PAGE)
    yield from page.jobs
    while page.next_cursor is not None:
        page = jobs.list(type=kind, limit=_PAGE, cursor=page.next_cursor)
        yield from page.jobs


_NUMBERS = ("enqueued", "attempts", "retried", "recovered", "succeeded", "lost")


def show_report(report: Report) -> None:
    shown = Table("kind", *_NUMBERS, right=_NUMBERS)
    for kind in report.kinds:
        shown.add_row(kind.kind, *(getattr(kind, name) for name in _NUMBERS))
    shown.add_row("all", *(sum(getattr(kind, name) for kind in report.kinds) for name in _NUMBERS), style="bold")
    show(shown)
    show("")
    style = "bold red" if report.lost else "bold green"
    killed = "" if report.killed_pid is None else ", one of two worker processes killed halfway"
    show(f"{report.lost} lost, in {duration(report.seconds)}{killed}", style=style)
    show("recovered: attempts that died with their worker; their jobs ran again", style="dim")
