from __future__ import annotations

import json

import pytest

from rowcall import Rowcall
from tests.cli.answers import answer_of, rows_of
from tests.cli.conftest import Run


def test_stats_count_by_state_and_queue(run: Run, filled: Rowcall) -> None:
    stats = json.loads(run("stats", "app:jobs", "--json").stdout)
    assert stats["total"] == 4
    assert stats["by_status"] == {
        **dict.fromkeys(["blocked", "running", "cancelled"], 0),
        **dict.fromkeys(["scheduled", "pending", "succeeded", "failed"], 1),
    }
    assert stats["by_queue"]["mail"]["pending"] == 1
    shown = run("stats", "app:jobs").stdout
    lines = [line.split() for line in shown.splitlines()]
    assert ["failed", "1", "███████▌"] in lines
    assert ["type", "scheduled", "pending", "succeeded", "failed", "all"] in lines
    assert ["mail", "0", "1", "0", "0", "1"] in [line[:6] for line in lines]


def test_stats_of_an_empty_queue(run: Run, queue: Rowcall) -> None:
    assert run("stats", "app:jobs").exit_code == 0


on_both = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


@on_both
def test_stats_print_states_queues_types_and_rates(run: Run, troubled: Rowcall) -> None:
    stats = answer_of(run, "stats", "app:jobs")
    assert list(stats) == [
        *("total", "by_status", "by_queue", "by_type", "oldest_waiting", "oldest_waiting_by_queue", "window"),
        *("arrival_window", "arrivals_per_second", "completions_per_second", "pace", "pace_by_queue", "pace_by_type"),
        "paused",
        "counted_at",
    ]
    assert stats["total"] == 9
    assert {status: count for status, count in stats["by_status"].items() if count} == {
        **dict.fromkeys(["scheduled", "pending", "running"], 1),
        **dict.fromkeys(["succeeded", "failed"], 3),
    }
    assert stats["by_queue"]["mail"]["failed"] == 2
    assert stats["by_type"]["broken"]["failed"] == 1
    assert set(stats["pace"]) == {"arrived", "succeeded", "failed", "retried", "wait", "run"}
    assert [stats["pace"][name] for name in ("arrived", "succeeded", "failed", "retried")] == [9, 3, 3, 2]
    assert set(stats["pace_by_type"]["flaky"]["run"]) == {"p50", "p95", "p99"}
    assert 300 <= stats["window"] <= 360
    assert stats["arrivals_per_second"] == pytest.approx(9 / stats["arrival_window"])


def test_stats_in_a_pipe(run: Run, troubled: Rowcall) -> None:
    rows = rows_of(run, "stats", "app:jobs")
    assert ["failed", "3", "██████████"] in rows
    [waiting] = [row for row in rows if row[:1] == ["waiting"]]
    assert waiting[:6] == ["waiting", "the", "oldest", "due", "job", "has"]
    assert ["queue", "scheduled", "pending", "running", "succeeded", "failed", "all", "oldest"] in rows
    assert ["mail", "0", "0", "0", "1", "2", "3", "-"] in rows
    assert ["type", "scheduled", "pending", "running", "succeeded", "failed", "all"] in rows
    [busy] = [row for row in rows if row[:5] == ["flaky", "3", "1", "2", "2"]]
    assert len(busy) == 5 + 6 * 2


def test_the_window_of_stats(run: Run, queue: Rowcall) -> None:
    hour, day = 3600, 86_400
    for typed, seconds, span in (("90", 90, 60), ("10m", 600, 60), ("1.5h", 5400, hour), ("2d", 2 * day, 6 * hour)):
        window = answer_of(run, "stats", "app:jobs", "--window", typed)["window"]
        assert seconds <= window < seconds + span  # older history has longer spans
    for wrong in ("soon", "5 parsecs", "-1", "0", "31d"):
        result = run("stats", "app:jobs", f"--window={wrong}")
        assert (result.exit_code, result.stdout) == (2, "")


def test_many_types_are_cut_for_people_only(run: Run, queue: Rowcall) -> None:
    for number in range(25):
        queue.enqueue(f"type-{number:02}")
    assert len(answer_of(run, "stats", "app:jobs")["by_type"]) == 25
    shown = run("stats", "app:jobs").stdout
    assert "and 5 more; --json has them all" in shown
    assert "type-19" in shown
    assert "type-20" not in shown
