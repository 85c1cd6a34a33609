"""Statements about steering find by their index what they must be quick about."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall.store.postgres import steer_sql as of_postgres
from rowcall.store.sqlite import steer_sql as of_sqlite
from tests.store.databases import migrated, query_plan


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("interrupted", "SEARCH job USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"),
        ("failed_with", "SEARCH job USING INDEX rowcall_job_failed (<expr>=? AND finished_at>?)"),
        ("unfinished_with_key", "SEARCH rowcall_job USING INDEX rowcall_job_key (type=? AND key=?)"),
        ("asked_to_cancel", "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"),
        ("obstacles", "SEARCH other USING INDEX rowcall_job_key (type=? AND key=?)"),
        ("obstacles", "SEARCH later USING INDEX rowcall_job_chain (chain_id=? AND chain_index>?)"),
    ],
)
def test_what_is_looked_for_is_found_by_its_index(tmp_path: Path, name: str, step: str) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, getattr(of_sqlite.SteerSql("rowcall_"), name))
    assert step in steps, steps
    assert not any("TEMP B-TREE" in one for one in steps), steps


def test_nothing_is_left_out() -> None:
    assert of_postgres.statements().keys() - of_sqlite.statements().keys() == {"lock_attempts"}
    assert {"ask_to_cancel", "interrupted", "pause", "rerun"} <= of_sqlite.statements().keys()
