"""The questions, and pages of `list`, asked of ten million rows: two million wait for a retry, 20,000 run, 3.5 million
are prunable. There is a month of history in which 20 tasks were busy in every minute.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.app import open_app
from benchmarks.bench import Bench, Figures, Site
from benchmarks.database import Database, connect
from benchmarks.fill import filling, make_queue
from rowcall import Rowcall, Status

TIMES = 3
PAGES = 100
READS = 100
QUEUES = ("default", "mail", "media", "reports")
TYPES = ("send_email", "thumbnail", "charge", "digest", "sync")
CODES = tuple(f"DEPENDENCY:SERVICE_{number}" for number in range(20))
TAGGED = '["vip"]'
FAILED_SHARE, CANCELLED_SHARE = 0.04, 0.02
DAYS = 60  # succeeded jobs are kept for 30: the other half is prunable


def measure(bench: Bench) -> Figures:
    site = bench.kept_site("questions", lambda site: fill(bench, site))
    with open_app(site.url).jobs as jobs, closing(connect(site.url)) as database:
        questions: dict[str, Callable[[], object]] = {
            "stats": jobs.stats,
            "stuck": jobs.stuck,
            "retries": jobs.retries,
            "errors": jobs.top_errors,
            "failing": jobs.failing,
            "retention": jobs.retention,
            "attention": jobs.attention,
            "view": lambda: _read_view(database),
        }
        figures = {f"{name}_ms": _slowest_ms(ask) for name, ask in questions.items()}
        first, hundredth = zip(*(_pages_ms(jobs, asked) for asked in _filters()), strict=True)
    return {**figures, "first_page_ms": max(first), "hundredth_page_ms": max(hundredth)}


def _read_view(database: Database) -> None:
    """Read jobs in all states by id."""
    rows = database.rows("select max(id) from rowcall_job")[0][0]
    for number in range(READS):
        database.rows("select * from rowcall_jobs where id = ?", rows * number // READS)


def _slowest_ms(ask: Callable[[], object]) -> float:
    """Of some times, the first of which finds nothing in the caches of the connection."""
    return max(_milliseconds(ask) for _ in range(TIMES))


def _milliseconds(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def _filters() -> Iterator[dict[str, Any]]:
    """Each filter alone, and each together with each status."""
    alone: list[dict[str, Any]] = [{"queue": "mail"}, {"type": "charge"}, {"tag": "vip"}]
    yield {}
    yield from alone
    yield {"error_code": CODES[0]}
    yield {"error_code": CODES[0], "status": "scheduled"}
    yield {"error_code": "DEPENDENCY:*", "status": "scheduled", "type": "charge", "order": "oldest"}
    yield {"error_code": "DEPENDENCY:*", "order": "oldest"}
    yield {"status": ["failed", "cancelled", "running"], "order": "oldest"}
    yield {"finished_after": datetime.now(UTC) - timedelta(days=10)}
    yield {"finished_before": datetime.now(UTC) - timedelta(days=10), "status": "failed", "order": "oldest"}
    yield {"created_after": datetime.now(UTC) - timedelta(days=10)}
    for status, more in itertools.product(Status, [{}, *alone]):
        yield {"status": status.value, **more}


def _pages_ms(jobs: Rowcall, asked: dict[str, Any]) -> tuple[float, float]:
    """The milliseconds of the first page of fifty, and of the hundredth, or of the last if there are fewer."""
    cursor: str | None = None
    first = last = 0.0
    for number in range(PAGES):
        began = time.perf_counter()
        page = jobs.list(**asked, cursor=cursor)
        last = (time.perf_counter() - began) * 1000
        first = last if number == 0 else first
        cursor = page.next_cursor
        if cursor is None:
            break
    return first, last


def fill(bench: Bench, site: Site) -> None:
    sizes = bench.sizes
    groups = list(itertools.product(QUEUES, TYPES))
    finished = sizes.questions_finished // len(groups)
    failed, cancelled = int(finished * FAILED_SHARE), int(finished * CANCELLED_SHARE)
    make_queue(site.url)
    with filling(site.url) as fill:
        for number, (queue, kind) in enumerate(groups):
            code = CODES[number % len(CODES)]
            hours_ago = 24.0 * DAYS * number / len(groups)
            fill.finished(finished - failed - cancelled, kind, queue=queue, hours_ago=hours_ago)
            fill.finished(failed, kind, status="failed", queue=queue, hours_ago=hours_ago, error_code=code, tags=TAGGED)
            fill.finished(cancelled, kind, status="cancelled", queue=queue, hours_ago=hours_ago, error_code="A:B")
        for queue, kind in groups:
            fill.waiting(sizes.questions_waiting // len(groups), kind, queue=queue)
            fill.running(sizes.questions_running // len(groups), kind, queue=queue)
            fill.future(sizes.questions_future // len(groups), kind, queue=queue, priority=0)
        for number, (queue, kind) in enumerate(groups):
            code = CODES[number % len(CODES)]
            fill.retrying(sizes.questions_retrying // len(groups), kind, queue=queue, error_code=code)
            fill.history(kind, queue=queue, error_code=code)
