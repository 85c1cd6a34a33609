"""The site of the documentation: it builds without a warning, and loads nothing from another host."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.docs.built_site import built_site

LOADED = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"|<link[^>]*\shref="([^"]+)"')


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory.getbasetemp().parent / "site")


@pytest.mark.slow
def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        loaded = [first or second for first, second in LOADED.findall(page.read_text(encoding="utf-8"))]
        assert loaded, page
        assert [target for target in loaded if re.match(r"(https?:)?//", target)] == [], page


@pytest.mark.slow
def test_the_reference_has_every_public_method_and_the_search_finds_it(site: Path) -> None:
    reference = (site / "api.html").read_text(encoding="utf-8")
    for name in ("rowcall.Context.progress", "rowcall.JobNotFound", "rowcall.Backoff"):
        assert f'id="{name}"' in reference
    methods = [name for name in dir(Rowcall) if not name.startswith("_")]
    assert [name for name in methods if f'id="rowcall.Rowcall.{name}"' not in reference] == []
    text = html.unescape(re.sub("<[^>]+>", "", reference))
    assert "dependents(\n    job: Job | Chain | int, *, limit: int = 100\n) -> list[Dependent]" in text
    assert "Return the jobs that wait, or waited, for a job or for its chain" in text
    assert "aclaim(\n    worker: str,\n    *,\n    limit: int = 1," in text
    assert "claim, for async code. If it is cancelled, the jobs are released." in text
    assert "Return an empty graph of jobs" in (site / "search" / "search_index.json").read_text(encoding="utf-8")
