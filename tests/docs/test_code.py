"""Every block of code in the README and the docs does what the page says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rowcall.testing.postgres_database import database_of
from tests.docs.databases import File, OnMariadb, OnServer, PageDatabase
from tests.docs.pages import DOCS, PAGES, PARTS, SEPARATE, Block, blocks, read
from tests.docs.running import PageRun, assert_same_shape, compiled
from tests.mysql_server import ALL as ALL_OF_MARIADB
from tests.pgbouncer import PgBouncer, find_pgbouncer

LANGUAGES = {"python", "sh", "json", "sql", "text", "mermaid", "toml", "yaml", "php", "js"}
POOLER = "pooler-1"
MOST_LINES_OF_A_RECIPE = 25
MOST_NOT_RUN = 10  # of more than 300 blocks; each says why
SQLITE = DOCS / "sqlite.md"
ONLY_ON_SERVER = {DOCS / name for name in ("postgresql.md", "high-availability.md", "sqlite-to-postgresql.md")}
BEGINNINGS = {"README", "getting-started", "deploy"}  # on a server without tables
DATABASES = DOCS / "databases.md"
FOLLOWED_HERE = {name: part for name, part in PARTS.items() if name not in SEPARATE and part[0].page != DATABASES}
ON_MARIADB = {
    name: part
    for name, part in PARTS.items()
    if part[0].page == DATABASES or (ALL_OF_MARIADB and name in ("README", "getting-started"))
}

Follow = Callable[[list[Block], PageDatabase], None]


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Follow]:
    """Follow a part of a page in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROWCALL_URL", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    runs: list[PageRun] = []

    def from_top_to_bottom(part: list[Block], database: PageDatabase) -> None:
        runs.append(PageRun(tmp_path, database))
        for block in part:
            if block.not_run is None:
                runs[-1].follow(block)

    yield from_top_to_bottom
    for run in runs:
        run.close()


@pytest.fixture
def server_database(
    part: list[Block], users: dict[str, str], postgres_server_url: str, postgres_url: str
) -> Iterator[PageDatabase]:
    if not any(POOLER in block.text for block in part) or find_pgbouncer() is None:
        yield OnServer(postgres_url, postgres_url, users)
        return
    with PgBouncer(postgres_server_url) as bouncer:
        yield OnServer(postgres_url, bouncer.url(database_of(postgres_url)), users)


@pytest.mark.parametrize(
    "part",
    [pytest.param(part, id=name) for name, part in FOLLOWED_HERE.items() if part[0].page not in ONLY_ON_SERVER],
)
def test_a_page_runs_from_top_to_bottom(part: list[Block], follow: Follow, tmp_path: Path) -> None:
    follow(part, File(tmp_path))


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, id=name, marks=[pytest.mark.no_tables] if name in BEGINNINGS else [])
        for name, part in FOLLOWED_HERE.items()
        if part[0].page != SQLITE
    ],
)
def test_a_page_runs_on_a_server_with_only_the_url_changed(
    part: list[Block], follow: Follow, server_database: PageDatabase
) -> None:
    follow(part, server_database)


@pytest.mark.parametrize("part", ON_MARIADB.values(), ids=ON_MARIADB)
def test_a_page_runs_on_mariadb(part: list[Block], follow: Follow, mysql_url: str) -> None:
    follow(part, OnMariadb(mysql_url))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_that_are_not_run_compile(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{block.location}: a block of {block.language or 'no language'}"
        if block.language == "python":
            compiled(block)


def test_few_blocks_are_not_run() -> None:
    not_run = [f"{block.location} {block.not_run}" for page in PAGES for block in blocks(page) if block.not_run]
    assert len(not_run) <= MOST_NOT_RUN, not_run


def test_a_recipe_is_short_and_runs() -> None:
    lines: dict[str, int] = {}
    text = read(DOCS / "recipes.md")
    for block in blocks(DOCS / "recipes.md"):
        recipe = "\n".join(text.splitlines()[: block.line]).rpartition("\n## ")[2].partition("\n")[0]
        lines[recipe] = lines.get(recipe, 0) + len(block.text.splitlines())
        assert block.not_run is None, block.location
    assert len(lines) >= 15
    assert {recipe: count for recipe, count in lines.items() if count > MOST_LINES_OF_A_RECIPE} == {}


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
