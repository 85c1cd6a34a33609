"""Statements about blobs find by their index what they must be quick about."""

from __future__ import annotations

from pathlib import Path

from rowcall.store.postgres import blobs_sql as of_postgres
from rowcall.store.sqlite import blobs_sql as of_sqlite
from tests.store.databases import migrated, query_plan


def test_whether_a_blob_is_needed_is_found_by_its_digest(tmp_path: Path) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, of_sqlite.BlobsSql("rowcall_").unreferred_blobs)
    assert any("SEARCH ref USING PRIMARY KEY (digest=?)" in step for step in steps), steps


def test_nothing_is_left_out() -> None:
    assert of_sqlite.statements().keys() < of_postgres.statements().keys()
    assert {"refer_to_blobs", "pin_blobs", "unreferred_blobs"} <= of_sqlite.statements().keys()
