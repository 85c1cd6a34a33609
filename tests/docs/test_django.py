"""docs/django.md, run on a file and on a server. Django can be set up once per process, so each is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.docs.pages import DOCS, ROOT
from tests.support import PythonProcess

pytestmark = pytest.mark.no_tables


def follow(folder: Path, *database: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    environment.pop("ROWCALL_URL", None)
    arguments = ("-m", "tests.docs.follow", str(DOCS / "django.md"), *database)
    with PythonProcess(*arguments, env=environment, cwd=str(folder)) as process:
        assert process.wait(within=60) == 0, process.output
        return process.output


def test_on_a_file(tmp_path: Path) -> None:
    assert "neither bob nor his job" in follow(tmp_path)
    with Rowcall(tmp_path / "app.db") as jobs:
        assert {(job.type, str(job.status)) for job in jobs.list()} == {
            ("welcome", "succeeded"),
            ("tasks.add", "succeeded"),
        }


def test_on_a_server(tmp_path: Path, postgres_url: str) -> None:
    assert "neither bob nor his job" in follow(tmp_path, postgres_url, "psycopg", "psycopg")
    with Rowcall(postgres_url) as jobs:
        assert len(jobs.list(status="succeeded")) == 2
