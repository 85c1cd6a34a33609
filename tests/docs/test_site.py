"""The site of the documentation: it builds without a warning, and loads nothing from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"|<link[^>]*\shref="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=110)
    assert built.returncode == 0, built.stdout + built.stderr
    assert built.stdout + built.stderr == ""
    return folder


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
    for name in ("rowcall.Rowcall.aenqueue", "rowcall.Context.progress", "rowcall.JobNotFound", "rowcall.Backoff"):
        assert f'id="{name}"' in reference
    assert "Return an empty graph of jobs" in (site / "search" / "search_index.json").read_text(encoding="utf-8")
