"""Which jobs and attempts belong to a window of time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rowcall import Rowcall, Status
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.counts import folding, questions
from rowcall.store.counts.pruning import prune_history
from rowcall.store.statement import Plan, Statement, as_is
from rowcall.testing import FakeClock

HOUR = 3600


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["sqlite", "postgresql"])
def jobs(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Rowcall]:
    url = f"sqlite:///{tmp_path}/app.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with Rowcall(url, clock=clock) as jobs:
        yield jobs


def complete_one(jobs: Rowcall) -> None:
    jobs.enqueue("send")
    jobs.complete(jobs.claim("hand")[0])


def tidy_up(jobs: Rowcall) -> None:
    while queue_of(jobs).run(
        Write(lambda: folding.fold(queue_of(jobs).dialect, everything=True, now_ms=queue_of(jobs).now_ms()))
    ):
        pass
    while queue_of(jobs).run(Write(lambda: folding.fold_history(queue_of(jobs).dialect, queue_of(jobs).now_ms()))):
        pass


@pytest.mark.parametrize(("window", "whole"), [(10, HOUR), (64, 6 * HOUR), (10 * 24, 24 * HOUR)])
def test_a_longer_window_starts_with_a_whole_span(jobs: Rowcall, clock: FakeClock, window: int, whole: int) -> None:
    times = []
    for _ in range(36):
        complete_one(jobs)
        times.append(clock.now())
        clock.advance(whole // 6)
    clock.advance(window * HOUR - 3 * whole)
    tidy_up(jobs)
    stats = jobs.stats(window=timedelta(hours=window))
    assert window * HOUR <= stats.window < window * HOUR + whole
    assert stats.window % whole == clock.now().timestamp() % whole
    assert stats.completions_per_second * stats.window == pytest.approx(stats.pace.succeeded)
    since = clock.now() - timedelta(seconds=stats.window)
    assert 0 < stats.pace.succeeded == sum(time >= since for time in times) < 36


def test_what_a_clock_that_was_ahead_has_left_is_in_no_window_and_is_forgotten(jobs: Rowcall, clock: FakeClock) -> None:
    clock.advance(365 * 24 * HOUR)
    complete_one(jobs)
    tidy_up(jobs)
    clock.jump(-364 * 24 * HOUR)
    assert jobs.stats().pace.succeeded == 0
    assert jobs.stats().pace.arrived == 0
    assert queue_of(jobs).run(Write(lambda: prune_history(queue_of(jobs).dialect, queue_of(jobs).now_ms()))) == 1


def test_of_very_many_arrivals_the_last_tell_the_rate_though_some_are_gone(
    jobs: Rowcall, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MOST_ARRIVALS_COUNTED", 100)
    for _ in range(20):
        for job in [jobs.enqueue("send") for _ in range(10)][:3]:
            jobs.delete(job.id)
        clock.advance(1)
    stats = jobs.stats()
    assert stats.arrival_window == 10
    assert stats.arrivals_per_second == 7


def test_one_job_of_long_ago_among_them_does_no_harm(
    jobs: Rowcall, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MOST_ARRIVALS_COUNTED", 100)
    for number in range(120):
        jobs.enqueue("send")
        if number % 30 == 0:
            clock.advance(1)
    oldest = jobs.list(limit=100).jobs[-1].id
    earlier = (
        "created_at - interval '30 days'"
        if queue_of(jobs).config.server is not None
        else f"created_at - {30 * 24 * HOUR * 1000}"
    )

    def plan() -> Plan[None]:
        yield Statement(f"update rowcall_job set created_at = {earlier} where id = {oldest}", (), as_is)

    queue_of(jobs).run(Write(plan))
    assert jobs.stats().pace.arrived == 99
    assert jobs.stats().arrival_window < 10


def test_overdue_jobs_that_were_not_staged_count_as_waiting(jobs: Rowcall, clock: FakeClock) -> None:
    jobs.enqueue("send", delay=60, queue="mail")
    assert jobs.stats().oldest_waiting is None
    clock.advance(2 * HOUR)
    assert jobs.stats().oldest_waiting_by_queue == {"mail": 2 * HOUR - 60}


def test_a_recovered_attempt_is_no_completion_and_one_that_failed_by_it_is(jobs: Rowcall, clock: FakeClock) -> None:
    jobs.enqueue("send", max_attempts=2)
    for _ in range(2):
        jobs.claim("hand", lease=10)
        clock.advance(11)
    jobs.claim("hand", lease=10)
    assert jobs.get(1).status == Status.FAILED
    stats = jobs.stats()
    assert (stats.pace.failed, stats.pace.succeeded) == (1, 0)
    assert stats.completions_per_second * stats.window == pytest.approx(1)


def test_a_retry_by_hand_keeps_how_the_job_had_ended(jobs: Rowcall, clock: FakeClock) -> None:
    late = jobs.enqueue("send", expires_in=5)
    lost = jobs.enqueue("send", max_attempts=1, queue="other")
    jobs.claim("hand", lease=10, queues=["other"])
    clock.advance(11)
    jobs.claim("hand", queues=["nothing"])
    before = [[line.event for line in jobs.timeline(job.id)] for job in (late, lost)]
    assert before == [["ENQUEUED", "EXPIRED"], ["ENQUEUED", "CLAIMED", "STARTED", "RECOVERED", "FAILED"]]
    for job, events in zip((late, lost), before, strict=True):
        jobs.retry(job.id)
        assert [line.event for line in jobs.timeline(job.id)] == [*events, "MANUAL_RETRY"]
