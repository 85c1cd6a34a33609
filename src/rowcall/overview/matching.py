"""How many jobs match a filter now: what a person is shown before all of them are changed."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple, cast

from rowcall.domain.job import FINISHED, Counts
from rowcall.operations.inspect import search
from rowcall.operations.stats import count_jobs, finished_jobs
from rowcall.queue import Operation, Queue

MOST_COUNTED, _PAGE = 10_000, 1_000
_NOT_FILTERS = ("limit", "rate", "all")
_IN_TOTALS, _IN_COUNTS = {"queue", "type", "error_code"}, {"queue", "type"}


class Matching(NamedTuple):
    """A number of jobs. If `exact` is false, there may be more."""

    jobs: int
    exact: bool

    def __str__(self) -> str:
        return f"{self.jobs:,}" if self.exact else f"{self.jobs:,} or more"


class Selection:
    """The jobs that a filter means. `statuses` are meant unless it names some; `limit` is the highest number."""

    def __init__(self, options: Mapping[str, object], statuses: Collection[str]) -> None:
        self._chosen = {
            name: value for name, value in options.items() if name not in _NOT_FILTERS and value is not None
        }
        named = self._chosen.pop("status", None) or [str(status) for status in statuses]
        self._statuses = [named] if isinstance(named, str) else list(cast("Collection[str]", named))
        self._most = cast("int | None", options.get("limit"))
        self._finished = all(status in FINISHED for status in self._statuses)

    @property
    def needs_counts(self) -> bool:
        """Return whether the number is known from the counts of all jobs."""
        return not self._finished and self._chosen.keys() <= _IN_COUNTS

    def count(self, queue: Queue, counts: Counts | None = None, seconds: float = math.inf) -> Operation[Matching]:
        """Count the jobs, within some seconds if they have to be looked at."""
        if self.needs_counts:
            found = counts or (yield from count_jobs(queue))
            return self._limited(sum(jobs for group, jobs in found.jobs.items() if self._means(*group)))
        if self._finished and self._chosen.keys() <= _IN_TOTALS:
            name, kind, code = (cast("str | None", self._chosen.get(one)) for one in ("queue", "type", "error_code"))
            return self._limited((yield from finished_jobs(queue, self._statuses, name, kind, code)))
        return (yield from self._looked_at(queue, seconds))

    def _means(self, status: str, queue: str, task: str) -> bool:
        chosen = self._chosen
        return status in self._statuses and chosen.get("queue", queue) == queue and chosen.get("type", task) == task

    def _limited(self, jobs: int) -> Matching:
        return Matching(jobs if self._most is None else min(jobs, self._most), True)

    def _looked_at(self, queue: Queue, seconds: float) -> Operation[Matching]:
        count, cursor, until = 0, None, queue.clock.timer() + seconds
        chosen = {**self._chosen, "status": self._statuses}
        while (rest := until - queue.clock.timer()) > 0:
            page = yield from search(queue, "newest", _PAGE, cursor, None, chosen, rest)
            count, cursor = count + len(page.jobs), page.next_cursor
            if cursor is None:
                return self._limited(count)
            if page.partial or count >= (self._most or MOST_COUNTED):
                break
        if self._most is not None and count >= self._most:
            return Matching(self._most, True)
        return Matching(count, False)
