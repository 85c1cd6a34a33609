"""A clock that runs what becomes due."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from rowcall import InvalidOption, Limit, Rowcall
from rowcall.testing import TravelClock, clean_queue
from tests.testing import queues


def test_each_job_runs_at_its_own_time(tmp_path: Path) -> None:
    jobs, ran = Rowcall(tmp_path / "app.db"), list[tuple[str, datetime]]()

    @jobs.schedule(every=3600)
    @jobs.task
    def hourly() -> None:
        ran.append(("hourly", clock.now()))

    @jobs.task
    def later(name: str) -> None:
        ran.append((name, clock.now()))
        if name == "first":
            later.using(delay=600).enqueue("second")

    with clean_queue(jobs) as clock:
        start = clock.now()
        later.using(delay=1800).enqueue("first")
        later.enqueue("now")
        clock.advance("2 hours")
        assert clock.now() == start + timedelta(hours=2)
        minutes = [(name, (at - start).total_seconds() / 60) for name, at in ran]
    assert minutes == [("now", 0), ("first", 30), ("second", 40), ("hourly", 60), ("hourly", 120)]


def test_retries_are_run_and_only_a_last_failure_is_raised() -> None:
    with clean_queue(queues.jobs) as clock:
        job = queues.flaky.enqueue(2)
        clock.advance("10 minutes")
        assert queues.jobs.get(job).result == 3
        job = queues.flaky.enqueue(9)
        with pytest.raises(ConnectionError, match="attempt 5"):
            clock.advance("10 minutes")
        assert queues.jobs.get(job).status == "failed"
        queues.flaky.enqueue(9)
        clock.advance("1 min", raise_errors=False)


def test_time_can_pass_alone() -> None:
    with clean_queue(queues.jobs) as clock:
        job = queues.send_email.using(delay=60).enqueue("a")
        clock.advance(timedelta(days=1), run=False)
        assert queues.jobs.get(job).status == "scheduled"
        clock.advance(0)
        assert queues.jobs.get(job).status == "succeeded"


@pytest.mark.parametrize("wrong", ["tomorrow", "-1 day", "1 fortnight", -1, True])
def test_a_wrong_duration_moves_nothing(wrong: str) -> None:
    clock = TravelClock()
    before = clock.now()
    with pytest.raises(InvalidOption, match="advance"):
        clock.advance(wrong)
    assert clock.now() == before


def test_limits_pauses_and_expiries_do_not_stop_it(tmp_path: Path) -> None:
    jobs, ran = Rowcall(tmp_path / "app.db"), list[tuple[int, datetime]]()

    @jobs.task(limit=Limit("slow", rate=1, per=60))
    def limited(number: int) -> None:
        ran.append((number, clock.now()))

    with clean_queue(jobs) as clock:
        start = clock.now()
        jobs.pause("paused")
        held = limited.using(queue="paused", delay=10).enqueue(0)
        late = limited.using(queue="paused", expires_in=30).enqueue(0)
        jobs.enqueue("unknown", delay=5)
        limited.enqueue_many([{"number": number} for number in (1, 2, 3)])
        clock.advance("10 minutes")
        minutes = [(number, int((at - start).total_seconds() / 60)) for number, at in ran]
        assert minutes == [(1, 0), (2, 1), (3, 2)]  # a rate limit opens some moments later
        assert (jobs.get(held).status, jobs.get(late).status) == ("pending", "cancelled")
