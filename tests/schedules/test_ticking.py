"""What may happen to a scheduler: it is busy, asleep, cut off half way, or cannot read a cron line."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.schedules import ticks as plans
from rowcall.store.statement import Plan, Row
from rowcall.testing.fake_clock import FakeClock
from tests.support import eventually

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class Cut(Exception):
    pass


def cut_off(plan: Plan[bool], most: int) -> Plan[bool]:
    """A plan that ends after this many statements, or before its commit, as a process does that is killed."""
    rows: list[Row] | None = None
    for number in itertools.count():
        try:
            statement = next(plan) if rows is None else plan.send(rows)
        except StopIteration as end:
            if number == most:
                raise Cut from None
            return bool(end.value)
        if number == most:
            raise Cut
        rows = yield statement
    raise AssertionError


def ticked(jobs: Rowcall) -> list[datetime]:
    return sorted(job.run_at for job in jobs.list(limit=1000).jobs)


def test_cut_off_between_any_two_statements_nothing_is_lost_or_repeated(url: str) -> None:
    clock = FakeClock()
    with Rowcall(url, clock=clock) as jobs:
        jobs.add_schedule("often", "send", every=60, catch_up="all")
        jobs.add_schedule("other", "send", cron="* * * * *", catch_up="all")
        before = jobs.schedules()
        start = clock.now()
        clock.advance(120)
        cuts = 0
        while cut(jobs, cuts):
            assert jobs.schedules() == before
            assert ticked(jobs) == []
            cuts += 1
        assert cuts > 8
        wanted = [start + minute * MINUTE for minute in (1, 1, 2, 2)]
        assert ticked(jobs) == wanted
        assert not queue_of(jobs).run(Write(lambda: plans.tick(queue_of(jobs).dialect)))
        assert ticked(jobs) == wanted


def cut(jobs: Rowcall, most: int) -> bool:
    """Tick, and stop after a number of statements. Return whether it was stopped."""
    try:
        return not queue_of(jobs).run(Write(lambda: cut_off(plans.tick(queue_of(jobs).dialect), most)))
    except Cut:
        return True


def test_a_worker_without_a_free_slot_ticks_anyway(url: str) -> None:
    gate = threading.Event()
    with Rowcall(url) as jobs:

        @jobs.task
        def hold() -> None:
            gate.wait(30)

        @jobs.task
        def tick() -> None: ...

        jobs.add_schedule("often", tick, every=0.1, catch_up="all")
        held = hold.using(priority=10).enqueue()
        with jobs.worker(concurrency=1):
            try:
                eventually(lambda: jobs.get(held.id).status == "running")
                seen = len(ticked(jobs))
                eventually(lambda: len(ticked(jobs)) > seen + 3, message="ticks while the only slot is taken")
                assert jobs.get(held.id).status == "running"
            finally:
                gate.set()


def test_an_idle_worker_is_woken_by_a_new_schedule_and_by_each_tick(url: str) -> None:
    with Rowcall(url) as jobs, Rowcall(url) as other:
        ran: list[datetime] = []

        @jobs.task
        def tick() -> None:
            ran.append(datetime.now())

        with jobs.worker():
            eventually(jobs.workers)
            other.add_schedule("often", "tick", every=0.2, catch_up="all")
            eventually(lambda: len(ran) >= 5)
            other.remove_schedule("often")
        found = ticked(jobs)
        assert found == [found[0] + SECOND / 5 * number for number in range(len(found))]


def test_who_cannot_read_lines_leaves_them_to_others(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    with Rowcall(url, clock=clock) as jobs:
        jobs.task(name="send")(lambda: None)
        jobs.add_schedule("line", "send", cron="* * * * *", catch_up="all")
        jobs.add_schedule("period", "send", every=60, catch_up="all")
        clock.advance(120)
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "cronsim", None)
            assert jobs.drain().succeeded == 2
            assert "cron schedules, which this worker cannot run: pip install 'rowcall[cron]'" in caplog.text
            assert jobs.schedules()[0].problem is None
        caplog.clear()
        caplog.set_level(logging.WARNING, "rowcall")
        assert jobs.drain().succeeded == 2
        assert caplog.text == ""


def test_a_line_that_a_worker_cannot_read_delays_its_other_jobs_by_moments(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Rowcall(url, clock=FakeClock(datetime(2020, 1, 1, tzinfo=UTC))) as long_ago:
        long_ago.add_schedule("line", "send", cron="* * * * *")
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with Rowcall(url) as jobs:
        jobs.task(name="other")(lambda: None)
        with jobs.worker():
            eventually(jobs.workers)
            job = jobs.enqueue("other", delay=0.5)
            eventually(lambda: jobs.get(job.id).status == "succeeded")
