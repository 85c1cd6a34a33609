from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.store.counts import questions
from rowcall.testing.fake_clock import FakeClock


@pytest.mark.parametrize("window", [0, 0.5, -1, timedelta(days=30, seconds=1), float("inf"), float("nan"), "1h", None])
def test_a_window_that_history_does_not_have_is_refused(tmp_path: Path, window: object) -> None:
    with Rowcall(tmp_path / "app.db") as jobs, pytest.raises(InvalidOption, match="window"):
        jobs.stats(window=window)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [0, -1, 1001, 2.0, "3", True, None])
def test_a_limit_is_a_whole_number_up_to_a_thousand(tmp_path: Path, limit: object) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        for ask in (jobs.stuck, jobs.top_errors):
            with pytest.raises(InvalidOption, match="limit"):
                ask(limit=limit)  # type: ignore[arg-type]


def test_of_very_many_arrivals_the_last_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "MOST_ARRIVALS_COUNTED", 10)
    clock = FakeClock()
    with Rowcall(tmp_path / "app.db", clock=clock) as jobs:
        for _ in range(30):
            jobs.enqueue("send")
            clock.advance(1)
        stats = jobs.stats(window=300)
        assert (stats.pace.arrived, stats.arrival_window, stats.arrivals_per_second) == (10, 10, 1)
        assert stats.window >= 300
        clock.advance(295)
        stats = jobs.stats(window=300)  # it begins at a full minute, before the tenth came
        assert stats.arrival_window <= stats.window
        assert stats.pace.arrived == 10
        clock.advance(3600)
        assert jobs.stats(window=300).pace.arrived == 0


def test_arrivals_are_found_among_ids_with_gaps(tmp_path: Path) -> None:
    clock = FakeClock()
    with Rowcall(tmp_path / "app.db", clock=clock) as jobs:
        ids = [jobs.enqueue("send").id for _ in range(40)]
        clock.advance(3600)
        ids += [jobs.enqueue("send").id for _ in range(7)]
        for job_id in [*ids[1:39], ids[41], ids[42]]:
            jobs.delete(job_id)
        assert jobs.stats(window=60).pace.arrived == 5
