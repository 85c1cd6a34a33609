"""How many jobs match a filter now: what a person is shown before all of them are changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, cast

from rowcall.domain.job import FINISHED, Status
from rowcall.operations.inspect import list_jobs
from rowcall.operations.stats import DEFAULT_WINDOW_SECONDS, finished_jobs, stats
from rowcall.queue import Operation, Queue

MOST_COUNTED, _PAGE = 10_000, 1_000
_NOT_FILTERS = ("limit", "rate", "all")


class Matching(NamedTuple):
    """A number of jobs. If `exact` is false, there may be more."""

    jobs: int
    exact: bool

    def __str__(self) -> str:
        return f"{self.jobs:,}" if self.exact else f"{self.jobs:,} or more"


def count_matching(queue: Queue, given: Mapping[str, object], statuses: Collection[str]) -> Operation[Matching]:
    """Count the jobs that a filter means. `statuses` are meant unless it names some; `limit` is the highest number."""
    chosen = {name: value for name, value in given.items() if name not in _NOT_FILTERS and value is not None}
    wanted = chosen.pop("status", None) or [str(status) for status in statuses]
    most = cast("int | None", given.get("limit"))
    if not chosen.keys() - {"queue"} or not chosen.keys() - {"type"}:
        named = [wanted] if isinstance(wanted, str) else cast("Collection[str]", wanted)
        name, kind = cast("str | None", chosen.get("queue")), cast("str | None", chosen.get("type"))
        if all(status in FINISHED for status in named):
            count = yield from finished_jobs(queue, named, name, kind)
            return Matching(count if most is None else min(count, most), True)
        found = yield from stats(queue, DEFAULT_WINDOW_SECONDS)
        by_name = {**found.by_queue.get(str(name), {}), **found.by_type.get(str(kind), {})}
        by_status = by_name if chosen else found.by_status
        count = sum(by_status.get(Status(status), 0) for status in named if status in list(Status))
        return Matching(count if most is None else min(count, most), True)
    count, cursor = 0, None
    while count < (most or MOST_COUNTED):
        page = yield from list_jobs(queue, "newest", _PAGE, cursor, None, {**chosen, "status": wanted})
        count, cursor = count + len(page.jobs), page.next_cursor
        if cursor is None or page.partial:
            break
    if most is not None and count >= most:
        return Matching(most, True)
    return Matching(count, cursor is None)
