"""Parts of pages that set up Django, or patch the standard library as Sentry does: each runs in a separate process."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.docs.follow import follow_in_a_process
from tests.docs.pages import SEPARATE

pytestmark = pytest.mark.no_tables

DJANGO = "django"
OTHERS = sorted(SEPARATE - {DJANGO, "transactions"})


def test_on_a_file(tmp_path: Path) -> None:
    assert "neither bob nor his job" in follow_in_a_process(DJANGO, tmp_path)
    with Rowcall(tmp_path / "app.db") as jobs:
        assert {(job.type, str(job.status)) for job in jobs.list()} == {
            ("welcome", "succeeded"),
            ("tasks.add", "succeeded"),
        }


def test_on_a_server(tmp_path: Path, postgres_url: str) -> None:
    assert "neither bob nor his job" in follow_in_a_process(DJANGO, tmp_path, postgres_url, "psycopg", "psycopg")
    with Rowcall(postgres_url) as jobs:
        assert len(jobs.list(status="succeeded")) == 2


@pytest.mark.parametrize("part", OTHERS)
def test_another_part_on_a_file(part: str, tmp_path: Path) -> None:
    follow_in_a_process(part, tmp_path)


@pytest.mark.parametrize("part", OTHERS)
def test_another_part_on_a_server(part: str, tmp_path: Path, postgres_url: str) -> None:
    follow_in_a_process(part, tmp_path, postgres_url, "psycopg", "psycopg")
