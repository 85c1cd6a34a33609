"""Tables that an earlier version made are brought up to date, and their jobs run, even after a migration that died."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.testing.fake_clock import FakeClock
from rowcall.testing.process import ForkedProcess
from tests.conformance.notes import Notes
from tests.faults.world import finish, plain_database
from tests.upgrades.product import ADDITIONS, LATER_VERSION, later_product
from tests.upgrades.rows import load, rows_path
from tests.upgrades.stored import DATABASES, FOLDER, newest_of, read_statements, tables_of

VERSIONS = sorted(int(folder.name) for folder in FOLDER.iterdir() if folder.name.isdigit())
RUN = [(database, version) for database in DATABASES for version in VERSIONS]
ROOT = Path(__file__).parents[2]
LONGEST_SECONDS = 110.0
SHARE_OF_CREATION = {"sqlite": 4, "postgres": 16}
"""Of the statements that make all tables, one of this many dies: a fork for each takes seconds."""


@pytest.fixture
def empty_url(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    return f"sqlite:///{tmp_path}/app.db" if database == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.mark.parametrize("database", DATABASES)
def test_the_newest_version_is_stored(database: str) -> None:
    assert VERSIONS[-1] == DATABASES[database][0].NEWEST_VERSION
    assert read_statements(database, VERSIONS[-1]) == newest_of(database)


@pytest.mark.parametrize(("database", "version"), RUN)
def test_a_stored_version_does_not_change(database: str, version: int) -> None:
    """What was released stays: a change of the tables is a new migration. Triggers and views are made again by each."""
    tables = tables_of(database, version)
    assert [statement for statement in read_statements(database, version) if statement in tables] == tables


@pytest.mark.parametrize(("database", "version"), RUN)
def test_a_stored_version_has_rows_of_every_kind(database: str, version: int) -> None:
    stored = rows_path(database, version).read_text(encoding="utf-8")
    for status in ("blocked", "scheduled", "pending", "succeeded", "failed"):
        assert f'"status": "{status}"' in stored
    for table in ("attempt", "claim", "edge", "job_tag", "quota", "ready", "schedule", "step", "tally"):
        assert f'["rowcall_{table}", ' in stored


@pytest.mark.no_tables
@pytest.mark.parametrize(("database", "version"), RUN)
def test_its_jobs_run_after_the_upgrade(database: str, version: int, tmp_path: Path, empty_url: str) -> None:
    newest = VERSIONS[-1]
    load(database, version, empty_url, tmp_path / "notes")
    with Rowcall(empty_url) as jobs:
        assert jobs.migrate() == (version, newest)
    assert list(finish(empty_url, Notes(tmp_path / "notes"), FakeClock())) == []


@pytest.mark.no_tables
@pytest.mark.parametrize(("database", "version"), RUN)
def test_a_migration_that_dies_at_any_statement_changes_nothing(
    database: str, version: int, tmp_path: Path, empty_url: str
) -> None:
    """And the next one does all of it. Then every job runs."""
    load(database, version, empty_url, tmp_path / "notes")
    assert _kill_at_each_statement("breaking", empty_url) > len(ADDITIONS)
    with later_product(oldest=LATER_VERSION):
        with Rowcall(empty_url) as jobs:
            assert jobs.migrate() == (LATER_VERSION, LATER_VERSION)
        with closing(plain_database(empty_url)) as plain:
            assert plain.ask("select count(*) from rowcall_job where future is null") == [(0,)]
        assert list(finish(empty_url, Notes(tmp_path / "notes"), FakeClock())) == []


@pytest.mark.no_tables
@pytest.mark.parametrize("database", DATABASES)
def test_a_creation_that_dies_leaves_nothing_behind(database: str, empty_url: str) -> None:
    assert _kill_at_each_statement("earlier", empty_url, SHARE_OF_CREATION[database]) > 80
    with Rowcall(empty_url) as jobs:
        assert jobs.migrate() == (VERSIONS[-1], VERSIONS[-1])


def _kill_at_each_statement(product: str, url: str, share: int = 1) -> int:
    """In a separate program: a process of pytest is so large that each fork of it would take longer."""
    with ForkedProcess("-m", "tests.upgrades.product", product, url, "kill", "", str(share), cwd=str(ROOT)) as killing:
        assert killing.wait(within=LONGEST_SECONDS) == 0, killing.output
        return int(killing.output)
