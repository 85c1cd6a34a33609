"""Due schedules are found by their index."""

from __future__ import annotations

from pathlib import Path

from rowcall.store.sqlite.dialect import catalogue
from tests.store.databases import migrated, query_plan


def test_due_schedules_are_read_in_the_order_of_their_time(tmp_path: Path) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, catalogue("rowcall_").texts()["due_schedules"])
    assert steps[0] == "SEARCH rowcall_schedule USING INDEX rowcall_schedule_due (next_run_at>? AND next_run_at<?)"
    assert not any("SCAN rowcall" in step or "TEMP B-TREE" in step for step in steps)
