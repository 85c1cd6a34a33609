from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from rowcall import Rowcall
from tests.made_files import MadeFiles


def schema(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as raw:
        version = raw.execute("select version, oldest, fingerprint from rowcall_migration")
        return [*raw.execute("select type, name, sql from sqlite_master order by 1, 2"), *version]


def test_a_file_is_made_as_a_queue_makes_it(tmp_path: Path, made_files: MadeFiles) -> None:
    versions = []
    for is_on in (True, False):
        made_files.is_on = is_on
        with Rowcall(tmp_path / f"{is_on}.db") as jobs:
            versions.append(jobs.migrate())
            jobs.enqueue("send")
    assert versions[0] == versions[1]
    assert schema(tmp_path / "True.db") == schema(tmp_path / "False.db")


def test_a_file_that_is_there_stays(tmp_path: Path, made_files: MadeFiles) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("create table mine (id)")
    with Rowcall(path) as jobs:
        jobs.migrate()
    assert "mine" in [row[1] for row in schema(path)]
    assert "mine" not in [row[1] for row in schema(made_files.template)]
    assert [file.name for file in tmp_path.iterdir() if "made" in file.name] == []
