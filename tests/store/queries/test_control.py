"""Queries about what people do to jobs find by an index what they must find quickly."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall.store.sqlite.dialect import catalogue
from tests.store.databases import migrated, query_plan


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("interrupted", "SEARCH job USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"),
        ("lock_attempts", "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"),
        ("cancel_requests", "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"),
        ("obstacles", "SEARCH other USING INDEX rowcall_job_key (type=? AND key=?)"),
        ("obstacles", "SEARCH later USING INDEX rowcall_job_chain (chain_id=? AND chain_index>?)"),
    ],
)
def test_the_intended_index_is_used(tmp_path: Path, name: str, step: str) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, catalogue("rowcall_").texts()[name])
    assert step in steps, steps
    assert not any("TEMP B-TREE" in one for one in steps), steps
