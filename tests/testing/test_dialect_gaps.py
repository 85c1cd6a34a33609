"""What a database still lacks is listed."""

from __future__ import annotations

import pytest

from rowcall.testing.dialect_gaps import gaps


@pytest.mark.parametrize("package", ["rowcall.store.sqlite", "rowcall.store.postgres"])
def test_shipped_databases_have_no_gaps(package: str) -> None:
    assert list(gaps(package)) == []


def test_a_new_database_needs_every_text_and_every_operation() -> None:
    found = list(gaps(None))
    assert "counts.unfinished is missing" in found
    assert "counts.health is missing" not in found  # only PostgreSQL has it
    assert "counts.now is missing" not in found  # one text serves all
    assert "dialect.settle_successes is missing" in found


def test_a_package_that_is_not_written_yet_lacks_everything() -> None:
    assert list(gaps("rowcall.store.oracle")) == list(gaps(None))
