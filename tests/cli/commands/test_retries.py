from __future__ import annotations

import pytest

from rowcall import Rowcall
from tests.cli.answers import answer_of, rows_of
from tests.cli.conftest import Run

on_both = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


@on_both
def test_retries_are_drawn_in_all_and_by_type(run: Run, troubled: Rowcall) -> None:
    found = answer_of(run, "retries", "app:jobs")
    assert found.pop("counted_at") is not None
    assert found == {
        "by_attempts": {"0": 2, "1": 6, "3": 1},
        "by_type": {"broken": {"1": 1}, "flaky": {"1": 2, "3": 1}, "hello": {"0": 2, "1": 3}},
    }
    rows = rows_of(run, "retries", "app:jobs")
    assert ["1", "6", "█" * 30] in rows
    assert ["3", "1", "█" * 5] in rows
    assert rows[rows.index(["type", "0", "1", "3", "retried"]) + 2] == ["flaky", "0", "2", "1", "33", "%"]
