"""Queries about blobs find by an index what they must find quickly."""

from __future__ import annotations

from pathlib import Path

from rowcall.store.sqlite.dialect import catalogue
from tests.store.databases import migrated, query_plan


def test_references_to_a_blob_are_found_by_its_digest(tmp_path: Path) -> None:
    with migrated(tmp_path / "app.db") as connection:
        steps = query_plan(connection, catalogue("rowcall_").texts()["unreferred_blobs"])
    assert any("SEARCH ref USING PRIMARY KEY (digest=?)" in step for step in steps), steps
