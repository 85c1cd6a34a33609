"""A year of ticks of awkward lines in awkward zones: each once, however many race for it, and at the right time."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.base.times import milliseconds_of, time_of
from rowcall.operations.effects import Write
from rowcall.store.schedules.ticks import tick
from rowcall.testing.fake_clock import FakeClock
from tests.schedules.brute_force import ticks
from tests.schedules.lines import LINES, ZONES

YEAR = datetime(2028, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
SPRING = datetime(2028, 3, 1, tzinfo=UTC), datetime(2028, 5, 1, tzinfo=UTC)
Span = tuple[datetime, datetime]
ZONES_PER_LINE = int(os.environ.get("ROWCALL_TEST_ZONES_PER_LINE", "1"))


def steps(span: Span, hours: tuple[int, ...]) -> Iterator[datetime]:
    """Moments at which a scheduler looks: now and then, until the end."""
    at, end = span
    for step in cycle(hours):
        at = min(at + timedelta(hours=step), end - timedelta(milliseconds=1))
        yield at
        if at >= end - timedelta(milliseconds=1):
            return


def run_scheduler(url: str | Path, span: Span, hours: tuple[int, ...], started: threading.Barrier) -> None:
    with Rowcall(url, durability="normal") as jobs:
        jobs.migrate()
        started.wait()
        for moment in steps(span, hours):
            while queue_of(jobs).run(Write(tick, queue_of(jobs).dialect.at(milliseconds_of(moment)))):
                pass


def race(url: str | Path, span: Span, lines_and_zones: list[tuple[str, str]]) -> Counter[tuple[str, datetime]]:
    """Let two schedulers of different pace tick through the time. Return how often each tick was enqueued."""
    clock = FakeClock(span[0] - timedelta(milliseconds=1))
    with Rowcall(url, clock=clock, durability="normal") as jobs:
        for line, zone in lines_and_zones:
            jobs.add_schedule(f"{line} {zone}", f"{line} {zone}", cron=line, tz=zone, catch_up="all")
        started = threading.Barrier(2)
        with ThreadPoolExecutor(2) as threads:
            for racer in [threads.submit(run_scheduler, url, span, hours, started) for hours in ((7, 1, 90), (25, 3))]:
                racer.result()
        found: Counter[tuple[str, datetime]] = Counter()
        cursor: str | None = ""
        while cursor is not None:
            page = jobs.list(limit=1000, cursor=cursor or None)
            found.update((job.type, job.run_at) for job in page.jobs)
            cursor = page.next_cursor
        return found


def expected(span: Span, lines_and_zones: list[tuple[str, str]]) -> Counter[tuple[str, datetime]]:
    return Counter((f"{line} {zone}", at) for line, zone in lines_and_zones for at in ticks(line, zone, *span))


@pytest.mark.slow
@pytest.mark.concurrency
def test_a_year_of_thirty_lines_in_six_zones(tmp_path: Path) -> None:
    assert len(LINES) == 30
    assert len(ZONES) == 6
    zones = ZONES * 2
    lines_and_zones = [
        (line, zone) for index, line in enumerate(LINES) for zone in zones[index % 6 : index % 6 + ZONES_PER_LINE]
    ]
    wanted = expected(YEAR, lines_and_zones)
    assert len({name for name, _ in wanted}) == 30 * ZONES_PER_LINE  # each of them comes at all
    assert race(tmp_path / "app.db", YEAR, lines_and_zones) == wanted


@pytest.mark.slow
@pytest.mark.concurrency
def test_a_spring_on_a_server(postgres_url: str) -> None:
    lines_and_zones = [(line, ZONES[index % len(ZONES)]) for index, line in enumerate(LINES)]
    assert race(postgres_url, SPRING, lines_and_zones) == expected(SPRING, lines_and_zones)


def test_the_slow_way_knows_the_rules_by_heart() -> None:
    """What Debian's manual says, spelled out for New York in 2028."""
    march, november = datetime(2028, 3, 12, tzinfo=UTC), datetime(2028, 11, 5, tzinfo=UTC)
    day = timedelta(days=1)

    def hours(line: str, begin: datetime) -> list[str]:
        return [f"{at:%d %H:%M}" for at in ticks(line, "America/New_York", begin, begin + day)]

    assert hours("30 2 * * *", march) == ["12 07:00"]  # at three, as half past two is skipped
    assert hours("*/30 2 * * *", march) == []
    assert hours("30 1 * * *", november) == ["05 05:30"]  # the first of two
    assert hours("*/30 1 * * *", november) == ["05 05:00", "05 05:30", "05 06:00", "05 06:30"]
    assert time_of(milliseconds_of(march)) == march
