"""Every block of code in the README and the docs does what the page says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, blocks
from tests.docs.running import PageRun, assert_same_shape, compiled

LANGUAGES = {"python", "sh", "json", "sql", "text", "mermaid", "toml"}
MOST_NOT_RUN = 5


@pytest.fixture
def page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageRun]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROWCALL_URL", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    run = PageRun(tmp_path)
    yield run
    run.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed_from_top_to_bottom(page: Path, page_run: PageRun) -> None:
    for block in blocks(page):
        if block.not_run is None:
            page_run.follow(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_that_are_not_run_are_python_all_the_same(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{block.place}: a block of {block.language or 'no language'}"
        if block.language == "python":
            compiled(block)


def test_few_blocks_are_not_run() -> None:
    not_run = [f"{block.place} {block.not_run}" for page in PAGES for block in blocks(page) if block.not_run]
    assert len(not_run) <= MOST_NOT_RUN, not_run


@pytest.mark.parametrize(
    ("shown", "real"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": "1"}),
        ([{"a": 1}], []),
        ([{"a": 1}], [{"a": 1}, {"b": 1}]),
        ({"a": True}, {"a": 1}),
    ],
)
def test_the_comparison_of_shapes_can_fail(shown: object, real: object) -> None:
    with pytest.raises(AssertionError):
        assert_same_shape(shown, real, "here")
