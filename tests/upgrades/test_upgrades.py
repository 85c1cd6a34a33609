"""Tables that an earlier version made are brought up to date, and their jobs run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from rowcall import Rowcall
from tests.upgrades.stored import DATABASES, FOLDER, NEXT, made_by, path_of

VERSIONS = sorted(int(folder.name) for folder in FOLDER.iterdir() if folder.name.isdigit())
RUN = [(database, version) for database in DATABASES for version in VERSIONS]


@pytest.mark.parametrize("database", DATABASES)
def test_the_newest_version_is_stored(database: str) -> None:
    assert VERSIONS[-1] == DATABASES[database][0][-1].version


@pytest.mark.parametrize(("database", "version"), RUN)
def test_a_stored_version_does_not_change(database: str, version: int) -> None:
    """What was released stays: a change of the tables is a new migration."""
    assert path_of(database, version).read_text(encoding="utf-8") == made_by(database, version)


@pytest.mark.no_tables
@pytest.mark.parametrize(("database", "version"), RUN)
def test_its_jobs_run_after_the_upgrade(
    database: str, version: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    statements = path_of(database, version).read_text(encoding="utf-8").split(NEXT)
    insert = "insert into rowcall_job (type, payload) values ('double', '{\"number\": 21}')"
    if database == "sqlite":
        url = f"sqlite:///{tmp_path}/app.db"
        with closing(sqlite3.connect(tmp_path / "app.db")) as file, file:
            for statement in (*statements, insert):
                file.execute(statement)
    else:
        url = request.getfixturevalue("postgres_url")
        with psycopg.connect(url) as server:
            for statement in (*statements, insert):
                server.execute(statement.encode())
    with Rowcall(url) as jobs:

        @jobs.task
        def double(number: int) -> int:
            return 2 * number

        assert jobs.drain().succeeded == 1
        assert jobs.get(1).result == 42
