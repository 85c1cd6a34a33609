"""Pages that set up Django, or patch the standard library as Sentry does: each is run in a separate process."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.docs.follow import follow_in_a_process
from tests.docs.pages import DOCS

pytestmark = pytest.mark.no_tables

DJANGO = DOCS / "django.md"
OTHERS = [DOCS / "error-trackers.md", DOCS / "from-django-tasks.md"]


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


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_another_page_on_a_file(page: Path, tmp_path: Path) -> None:
    follow_in_a_process(page, tmp_path)


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_another_page_on_a_server(page: Path, tmp_path: Path, postgres_url: str) -> None:
    follow_in_a_process(page, tmp_path, postgres_url, "psycopg", "psycopg")
