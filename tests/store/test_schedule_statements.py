"""Statements about schedules find by their index what they must be quick about."""

from __future__ import annotations

from pathlib import Path

from rowcall.store.postgres import schedules_sql as of_postgres
from rowcall.store.sqlite import schedules_sql as of_sqlite
from tests.store.databases import migrated, query_plan


def test_what_is_due_is_found_in_the_order_of_its_time(tmp_path: Path) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, of_sqlite.SchedulesSql("rowcall_").due_schedules)
    assert steps == ["SEARCH rowcall_schedule USING INDEX rowcall_schedule_due (next_run_at>? AND next_run_at<?)"]


def test_nothing_is_left_out() -> None:
    assert of_sqlite.statements().keys() == of_postgres.statements().keys()
    assert {"due_schedules", "move_on", "put_schedule"} <= of_sqlite.statements().keys()
