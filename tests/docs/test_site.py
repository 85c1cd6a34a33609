"""The site of the documentation: it builds without a warning, and loads nothing from another host."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.docs.built_site import built_site
from tests.docs.pages import DOCS

LOADED = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"|<link[^>]*\shref="([^"]+)"')


@pytest.fixture
def site(shared_folder: Path) -> Path:
    return built_site(shared_folder / "site")


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


@pytest.mark.slow
def test_the_site_has_no_other_files_and_names_no_internals(site: Path) -> None:
    assert [path for path in site.rglob("*") if path.suffix in (".py", ".pyc") or path.name == "__pycache__"] == []
    text = html.unescape(re.sub("<[^>]+>", "", (site / "api.html").read_text(encoding="utf-8")))
    assert re.findall(r"DEFAULT_\w+|\w+: Queue\b|Bases: .*\b_\w+", text) == []


@pytest.mark.slow
def test_language_models_can_read_the_pages(site: Path) -> None:
    listed, full = (site / "llms.txt").read_text(encoding="utf-8"), (site / "llms-full.txt").read_text(encoding="utf-8")
    targets = re.findall(r"^- \[.+?\]\((.+?)\): [^\s#<]", listed, re.MULTILINE)
    assert len(targets) > 40
    assert [target for target in targets if not (site / target).exists()] == []
    assert "# Recipes\n" in full
    assert "def nightly_report()" in full


@pytest.mark.slow
def test_the_landing_page_has_the_figures_of_the_last_runs(site: Path) -> None:
    landing = (site / "index.html").read_text(encoding="utf-8")
    for database in ("sqlite", "postgresql", "mariadb"):
        paths = (DOCS / "proof" / "torture").glob(f"{database}-*.json")
        acknowledged = sum(json.loads(path.read_bytes())["jobs"]["acknowledged"] for path in paths)
        assert f"{acknowledged:,}" in landing
    assert "overview.png#only-light" in landing
    assert "overview-dark.png#only-dark" in landing
    assert "field-drains.svg" in landing
