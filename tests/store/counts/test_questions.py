"""Which jobs and attempts belong to a window of time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rowcall import Rowcall, Status
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.counts import questions, tallies
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
    while queue_of(jobs).run(Write(lambda: tallies.fold(queue_of(jobs).dialect, everything=True))):
        pass
    while queue_of(jobs).run(Write(lambda: tallies.fold_history(queue_of(jobs).dialect))):
        pass


def run_sql(jobs: Rowcall, sql: str) -> None:
    def plan() -> Plan[None]:
        yield Statement(sql, (), as_is)

    queue_of(jobs).run(Write(plan))


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
    assert queue_of(jobs).run(Write(lambda: prune_history(queue_of(jobs).dialect))) == 1


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
    run_sql(jobs, f"update rowcall_job set created_at = {earlier} where id = {oldest}")
    assert jobs.stats().pace.arrived == 99
    assert jobs.stats().arrival_window < 10


def arrived(jobs: Rowcall, window: int = HOUR) -> list[int | None]:
    return [one.arrived for one in jobs.activity(window=window).periods]


def enqueue_each_minute(jobs: Rowcall, clock: FakeClock, *counts: int) -> None:
    for count in counts:
        for _ in range(count):
            jobs.enqueue("send")
        clock.advance(60)


@pytest.mark.parametrize("most", [24, 25, 30_000])
def test_of_very_many_arrivals_ids_are_counted(
    jobs: Rowcall, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(questions, "MOST_ARRIVALS_COUNTED", most)
    enqueue_each_minute(jobs, clock, 3, 0, 7, 10, 5)
    activity = jobs.activity(window=HOUR)
    assert [one.arrived for one in activity.periods] == [*[0] * 54, 3, 0, 7, 10, 5, 0]
    assert (activity.arrivals_estimated, activity.arrivals_known_since) == (most == 24, None)
    assert arrived(jobs, 180) == [10, 5, 0]
    clock.advance(HOUR)
    assert arrived(jobs) == [0] * 60


def test_ids_of_deleted_jobs_are_spread_over_the_time_in_which_they_arrived(
    jobs: Rowcall, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MOST_ARRIVALS_COUNTED", 10)
    enqueue_each_minute(jobs, clock, 10, 10, 10, 10, 10, 10)
    run_sql(jobs, "delete from rowcall_job where id between 12 and 40")
    assert arrived(jobs)[-7:] == [10, 10, 10, 10, 10, 10, 0]
    since = jobs.get(11).created_at
    run_sql(jobs, "delete from rowcall_job where id <= 10")
    activity = jobs.activity(window=HOUR)
    assert [one.arrived for one in activity.periods] == [*[None] * 54, 10, 10, 10, 10, 10, 0]
    assert (activity.arrivals_estimated, activity.arrivals_known_since) == (True, since)


def test_arrivals_before_the_oldest_job_are_not_known(jobs: Rowcall, clock: FakeClock) -> None:
    assert arrived(jobs) == [None] * 60
    enqueue_each_minute(jobs, clock, 2, 2, 2)
    assert arrived(jobs) == [*[0] * 56, 2, 2, 2, 0]
    since = jobs.get(3).created_at
    run_sql(jobs, "delete from rowcall_job where id <= 2")
    assert arrived(jobs) == [*[None] * 57, 2, 2, 0]
    assert jobs.activity(window=HOUR).arrivals_known_since == since
    assert jobs.activity(window=60).arrivals_known_since is None
    run_sql(jobs, "delete from rowcall_job")
    assert arrived(jobs) == [None] * 60


@pytest.mark.parametrize("seed", range(5))
def test_arrivals_of_jobs_in_any_order_are_never_negative(
    jobs: Rowcall, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(questions, "MOST_ARRIVALS_COUNTED", 5)
    choose = random.Random(seed)
    jobs.migrate()
    now_ms = round(clock.now().timestamp() * 1000)
    for job_id in choose.sample([*range(1, 100), *(2**power for power in range(10, 62))], 60):
        at_ms = choose.choice([now_ms - choose.randrange(2 * HOUR * 1000), now_ms, now_ms + 10**9, 10**12])
        at = f"to_timestamp({at_ms} / 1000.0)" if queue_of(jobs).config.server is not None else at_ms
        run_sql(jobs, f"insert into rowcall_job (id, type, created_at) values ({job_id}, 'send', {at})")
    for window in (60, HOUR, 30 * 24 * HOUR):
        assert all(count is None or count >= 0 for count in arrived(jobs, window))


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
