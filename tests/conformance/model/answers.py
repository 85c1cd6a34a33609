"""What readers are shown: after each step, every list, count and row agrees with the model.

A job with a claim runs, whatever its own row says. So none of these may show or count it as pending.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from rowcall import Rowcall, Status
from rowcall.actions import JobFilter
from rowcall.base.times import milliseconds_of
from tests.conformance.model.job import ModelJob
from tests.conformance.model.rows import compare
from tests.conformance.store import Store, check_ready
from tests.observe import slow
from tests.observe.plain_sql import JobRow
from tests.observe.slow import Wanted

OTHERS = (None, *(status.value for status in Status if status not in ("pending", "running")))
_VIEW = f"select {', '.join(JobRow._fields)} from rowcall_jobs order by id"
_FROM_MODEL = ("type", "queue", "status", "priority", "run_at", "error_code", "finished_at", "claimed_at", "started_at")


class Answers:
    """Asks everything after each step. Of the lists, those of other states, queues, tasks and tags each time."""

    def __init__(self, jobs: Rowcall, store: Store, begin: datetime, names: Sequence[Sequence[str]]) -> None:
        """Take the queues, the tasks and the tags."""
        self._jobs = jobs
        self._store = store
        self._names = itertools.cycle(itertools.product(*((None, *some) for some in names)))
        self._others = itertools.cycle(OTHERS)
        self._filters = itertools.cycle(_filters(begin))
        self._limits = itertools.cycle((2, 100, 3))

    def check(self, model: Mapping[int, ModelJob], now: datetime) -> None:
        rows = [_row(values) for values in self._store.execute(_VIEW)]
        compare(
            {row.id: (row.attempt, *(getattr(row, name) for name in _FROM_MODEL)) for row in rows},
            {job_id: (job.used, *_modelled(job)) for job_id, job in model.items()},
        )
        check_ready(self._store)
        slow.check_counts(self._jobs, rows, milliseconds_of(now))
        slow.check_stuck(self._jobs, rows, milliseconds_of(now))
        slow.check_retries(self._jobs, rows)
        slow.check_errors(self._jobs, rows)
        self._check_errors_of_waiting_jobs(rows)
        self._check_lists(rows, {job_id: set(job.tags) for job_id, job in model.items()})

    def _check_errors_of_waiting_jobs(self, rows: Iterable[JobRow]) -> None:
        waiting = Counter(row.error_code for row in rows if row.status in ("pending", "scheduled") and row.error_code)
        assert {one.error_code: one.waiting for one in self._jobs.failing(limit=1000) if one.waiting} == waiting

    def _check_lists(self, rows: Sequence[JobRow], tags: dict[int, set[str]]) -> None:
        names, limit = next(self._names), next(self._limits)
        for status in ("pending", "running", next(self._others)):
            slow.check_page(self._jobs, rows, tags, Wanted(status, *names), limit)
        slow.check_filter(self._jobs, self._jobs.list(limit=1000).jobs, next(self._filters), limit)


def _filters(begin: datetime) -> list[JobFilter]:
    later = begin + timedelta(seconds=30)
    chosen: list[JobFilter] = [
        {"worker": "hand"},
        {"error_code": "*"},
        {"error_code": "TEST:CODE"},
        {"created_after": later},
        {"created_before": later},
        {"finished_after": later},
        {"tag": "red"},
    ]
    several = (["pending"], ["running"], ["pending", "running"])
    statuses: list[JobFilter] = [{}, *(JobFilter(status=some) for some in several)]
    return [one | other for one, other in itertools.product(chosen, statuses)]


def _row(values: Sequence[object]) -> JobRow:
    return JobRow(*map(_plain, values))  # type: ignore[arg-type]


def _plain(value: object) -> object:
    """A time of MariaDB is in UTC, without saying so."""
    return milliseconds_of(value.replace(tzinfo=value.tzinfo or UTC)) if isinstance(value, datetime) else value


def _modelled(job: ModelJob) -> list[object]:
    latest = {name: getattr(job.latest, name, None) for name in ("claimed_at", "started_at")}
    shown = [latest[name] if name in latest else getattr(job, name) for name in _FROM_MODEL]
    return [milliseconds_of(value) if isinstance(value, datetime) else value for value in shown]
