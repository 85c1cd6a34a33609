"""Names, options, fields, columns and commands in the pages match the code."""

from __future__ import annotations

import importlib.util
import re
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path

import msgspec
import psycopg
import pytest

import rowcall
from rowcall import (
    Activity,
    Attempt,
    Backoff,
    Chain,
    ChainPage,
    Context,
    ErrorGroup,
    Event,
    InProgress,
    Job,
    Kept,
    Pace,
    Page,
    Paused,
    Percentiles,
    Period,
    Pruned,
    Retention,
    RetentionReport,
    Retries,
    Rowcall,
    Schedule,
    Stats,
    Status,
    Summary,
    WorkerInfo,
)
from rowcall.cli.bench.measure import Figures
from rowcall.cli.main import COMMANDS
from rowcall.declare.option_table import ENQUEUE_OPTIONS, TASK_OPTIONS
from rowcall.domain import outcome
from rowcall.domain.config import DEFAULT_POOL_SIZE, QueueOptions
from rowcall.overview.attention.thresholds import THRESHOLDS
from rowcall.worker.pace import DEFAULT_CONCURRENCY, DEFAULT_GRACE_SECONDS, DEFAULT_LEASE_SECONDS
from tests.docs.pages import DOCS, PAGES, README, ROOT, WRITING, anchors, blocks, links, read, section

ALL = "\n".join(read(page) for page in PAGES)
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
MOST_README_LINES = 80
MOST_CONTRIBUTING_LINES = 50  # without what is folded
FIRST_SCREEN_LINES = 32
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def missing(names: set[str], text: str) -> list[str]:
    """Return the names that no code block and no code in a line contains."""
    words = set(re.findall(r"\w+(?:[:-]\w+)*", "\n".join(_CODE.findall(text))))
    words |= {part for word in words for part in word.split(":")}
    return sorted(names - words)


def public_methods(kind: type) -> set[str]:
    """The methods a user may call; those of the rooms below are not meant for users."""
    return {name for name in vars(kind) if not name.startswith("_")}


def test_every_public_name_is_explained() -> None:
    assert missing(set(rowcall.__all__), ALL) == []


INTERNAL = {"gives_up_on", "delay_seconds"}


@pytest.mark.parametrize("kind", [Rowcall, Backoff, Context], ids=lambda kind: kind.__name__)
def test_every_public_method_is_explained(kind: type) -> None:
    names = public_methods(kind) - INTERNAL - set(getattr(kind, "__struct_fields__", ()))
    explained = {name for name in names if not (name.startswith("a") and name[1:] in names)}
    assert explained
    assert missing(explained, ALL) == []


EXPLAINED_IN: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "controlling.md": (Paused,),
    "questions.md": (
        Job,
        Attempt,
        Event,
        Page,
        WorkerInfo,
        Stats,
        Pace,
        Percentiles,
        Activity,
        Period,
        Retries,
        ErrorGroup,
    ),
    "schedules.md": (Schedule,),
    "flows.md": (Chain, ChainPage),
    "operations.md": (Retention, RetentionReport, Kept, Pruned),
}


@pytest.mark.parametrize(
    ("page", "kind"),
    [(page, kind) for page, kinds in EXPLAINED_IN.items() for kind in kinds],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_field_is_explained(page: str, kind: type[msgspec.Struct]) -> None:
    fields = set(kind.__struct_fields__) - set(getattr(kind, "_hidden", ()))
    assert missing(fields, read(DOCS / page)) == []


def test_every_field_of_a_job_in_progress_is_explained() -> None:
    assert missing(set(InProgress.__struct_fields__) - set(Job.__struct_fields__), read(DOCS / "questions.md")) == []


def test_every_count_of_a_summary_is_explained() -> None:
    assert missing({*Summary.__struct_fields__, "total"}, read(DOCS / "testing.md")) == []


def test_every_option_is_explained() -> None:
    assert missing(set(TASK_OPTIONS), section(DOCS / "tasks.md", "Options of a task")) == []
    assert missing(set(ENQUEUE_OPTIONS), section(DOCS / "tasks.md", "Options of a call")) == []


def test_every_argument_of_a_queue_is_explained() -> None:
    known = set(QueueOptions.__annotations__)
    assert {"listen_url", "pool_size"} < known
    assert missing(known, section(DOCS / "getting-started.md", "Opening a queue")) == []
    assert f"| `pool_size` | `{DEFAULT_POOL_SIZE}` |" in read(DOCS / "getting-started.md")


def test_the_defaults_of_a_worker_match_the_code() -> None:
    page = read(DOCS / "workers.md")
    assert f"| `concurrency` | `--concurrency` | {DEFAULT_CONCURRENCY} |" in page
    assert f"| `grace` | `--grace` | {DEFAULT_GRACE_SECONDS:g} s |" in page
    assert f"| `lease` | `--lease` | {DEFAULT_LEASE_SECONDS:g} s |" in page


def test_every_table_view_and_column_is_explained(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        jobs.migrate()
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        names = {row[0] for row in connection.execute("select name from sqlite_master where type in ('table', 'view')")}
        columns = {row[1] for row in connection.execute("pragma table_info(rowcall_job)")}
    assert missing({name for name in names if name.startswith("rowcall_")}, read(DOCS / "tables.md")) == []
    assert missing(columns, section(DOCS / "tables.md", "The tables")) == []


def test_a_server_has_no_other_tables_views_and_columns(tmp_path: Path, postgres_url: str) -> None:
    for url in (tmp_path / "app.db", postgres_url):
        with Rowcall(url) as jobs:
            jobs.migrate()
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        tables = [row[0] for row in connection.execute("select name from sqlite_master where name like 'rowcall_%'")]
        columns = {row[1] for row in connection.execute("pragma table_info(rowcall_job)")}
    with closing(psycopg.connect(postgres_url)) as server:
        rows = server.execute(
            "select table_name, column_name from information_schema.columns where table_schema = 'public'"
        )
        found = rows.fetchall()
    # SQLite has a folder instead of the first, and sees commits of the file instead of the second
    assert {table for table, _ in found} - set(tables) == {"rowcall_blob"}
    assert {column for table, column in found if table == "rowcall_job"} == columns


def test_every_state_has_its_line() -> None:
    assert missing({status.value for status in Status}, section(DOCS / "tables.md", "The states of a job")) == []


def test_every_error_is_explained() -> None:
    tree = [kind.__name__ for kind in _below(rowcall.RowcallError) if kind.__module__ == "rowcall"]
    assert missing({*tree, "Retry", "Snooze", "Fail", "Cancel"}, read(DOCS / "errors.md")) == []
    drawn = next(block.text for block in blocks(DOCS / "errors.md") if block.language == "text")
    assert [name for name in tree if f" {name}" not in drawn] == []


def _below(kind: type[BaseException]) -> list[type[BaseException]]:
    return [below for child in kind.__subclasses__() for below in (child, *_below(child))]


def test_every_error_code_is_explained() -> None:
    codes = {value for name, value in vars(outcome).items() if name.endswith("_CODE")}
    assert "WORKER:LOST" in codes
    assert missing(codes, read(DOCS / "errors.md")) == []


def test_every_command_has_an_example() -> None:
    page = DOCS / "cli.md"
    assert [name for name in COMMANDS if f"\nrowcall {name}" not in section(page, f"rowcall {name}")] == []
    assert missing(set(Figures.__struct_fields__), section(page, "rowcall bench")) == []


def test_the_page_of_the_command_line_is_what_help_says() -> None:
    spec = importlib.util.spec_from_file_location("write_cli", DOCS / "write_cli.py")
    assert spec is not None
    assert spec.loader is not None
    write_cli = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(write_cli)
    page = read(DOCS / "cli.md")
    assert write_cli.written(page) == page, "run: make docs"
    spoilt = page.replace("Enqueue a job of TASK.", "Enqueue a task.").replace("| `--dry-run` |", "| `--dry` |")
    assert spoilt.count("| `--dry` |") > 0
    assert write_cli.written(spoilt) == page


def test_the_reference_lists_exactly_the_public_methods_of_rowcall() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)` \| (?:`(\w+)` )?\| ", read(DOCS / "reference.md"))
    listed = [name for row in rows for name in row if name]
    assert sorted(listed) == sorted(name for name in dir(Rowcall) if not name.startswith("_"))
    assert [name for name in vars(Rowcall("sqlite:///:memory:")) if not name.startswith("_")] == []


def test_the_rooms_are_listed_in_the_order_of_their_layers() -> None:
    contracts = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    [layers] = [one["layers"] for one in contracts if one["type"] == "layers" and one["containers"] == ["rowcall"]]
    layer_of = {room: number for number, layer in enumerate(layers) for room in re.findall(r"\w+", layer)}
    table = [line for line in section(DOCS / "architecture.md", "Rooms").splitlines() if line.startswith("| `")]
    rooms = [room for line in table for room in re.findall(r"`(\w+)`", line.split(" | ")[0])]
    source = ROOT / "src" / "rowcall"
    assert {*rooms, "__main__"} == {
        room for room in layer_of if (source / room).is_dir() or (source / f"{room}.py").exists()
    }
    assert rooms == sorted(rooms, key=layer_of.__getitem__)


OTHER_PAGES = [CONTRIBUTING, WRITING, ROOT / "CHANGELOG.md", ROOT / "tests" / "README.md"]


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_exist(page: Path) -> None:
    for link in links(page):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(path), f"{page.name}: {link}"


INDEX = DOCS / "index.md"


def test_every_page_is_in_the_table_of_all_pages() -> None:
    table = section(INDEX, "All pages")
    others = [page.name for page in PAGES if page not in (README, INDEX)]
    assert [name for name in others if f"]({name})" not in table] == []


def test_the_readme_leads_to_six_pages_and_to_all() -> None:
    listed = section(README, "Documentation")
    assert re.findall(r"^(?:- )?\[(.+?)\]\((.+?)\)", listed, re.MULTILINE) == [
        ("Start", "docs/getting-started.md"),
        ("Guide", "docs/index.md#the-guide"),
        ("Recipes", "docs/recipes.md"),
        ("Your framework", "docs/index.md#frameworks"),
        ("Run it", "docs/deploy.md"),
        ("At 3 a.m.", "docs/questions.md"),
        ("All pages", "docs/index.md#all-pages"),
    ]


CLICKS = {  # what a reader asks, and the clicks from the README that answer it
    "a job every night at half past two in Berlin": "docs/recipes.md #a-nightly-report-in-a-time-zone",
    "do not retry on some errors": "docs/recipes.md #retry-only-some-errors",
    "at most five jobs per customer": "docs/recipes.md #at-most-five-per-customer",
    "from SQLite to PostgreSQL": "docs/recipes.md #move-to-postgresql",
    "what happens when a worker is killed": "docs/proof.md#guarantees",
    "an order and its email, with SQLAlchemy": "docs/transactions.md #sqlalchemy",
    "run workers with Docker Compose": "docs/deploy.md #docker-compose",
    "change the arguments of a task": "docs/deploy.md #changing-tasks",
    "use it in Django": "docs/index.md#frameworks django.md",
    "test code that enqueues": "docs/index.md#frameworks testing.md",
    "move from Celery": "docs/index.md#frameworks from-celery.md",
    "wait for the result of a job": "docs/index.md#all-pages results.md",
    "why a job does not start": "docs/questions.md #why-a-job-waits",
    "where a handler hangs": "docs/questions.md #where-a-handler-is",
    "cancel a running job": "docs/questions.md controlling.md",
    "how long finished jobs are kept": "docs/questions.md operations.md#retention",
    "a message in a chat when something is wrong": "docs/questions.md attention.md#alerts",
    "who may see the dashboard": "docs/dashboard.md #who-may-see-it",
    "exactly once": "docs/proof.md#guarantees #at-least-once",
    "a job in five minutes": "docs/getting-started.md #a-tour",
    "from PHP": "docs/recipes.md #enqueue-from-php-psql-or-any-language",
    "how many at a time, and for how long": "docs/index.md#the-guide workers.md",
    "the same job not twice": "docs/index.md#the-guide flows.md",
    "backups": "docs/index.md#all-pages operations.md",
    "a job later, or before the others": "docs/index.md#the-guide tasks.md#delay-and-priority",
    "one customer who fills the queue": "docs/index.md#the-guide limits.md#fairness",
}


@pytest.mark.parametrize("clicks", CLICKS.values(), ids=CLICKS)
def test_two_clicks_from_the_readme_answer(clicks: str) -> None:
    page = README
    for click in clicks.split():
        if click.startswith("#"):  # in the list of headings of the page
            assert click[1:] in anchors(page), click
        else:
            assert click in links(page), f"{page.name} has no link to {click}"
            page = (page.parent / click.partition("#")[0]).resolve()


def test_the_guide_is_numbered_and_first_in_the_table_of_all_pages() -> None:
    numbered = re.findall(r"^(\d)\. \[.+?\]\((.+?)\)", section(INDEX, "The guide"), re.MULTILINE)
    assert [int(number) for number, _ in numbered] == list(range(1, 9))
    row = next(line for line in section(INDEX, "All pages").splitlines() if line.startswith("| the guide |"))
    in_table = re.findall(r"\]\((.+?)\)", row)
    assert [page for page in in_table if page in dict(map(reversed, numbered))] == [page for _, page in numbered]


def test_each_page_of_the_guide_leads_to_the_next_one_and_folds_its_details() -> None:
    row = next(line for line in section(INDEX, "All pages").splitlines() if line.startswith("| the guide |"))
    pages = [DOCS / name for name in re.findall(r"\]\((.+?)\)", row)]
    following = [re.search(r"^Next in the guide: \[\d\. .+?\]\((.+?)\)$", read(page), re.MULTILINE) for page in pages]
    assert [found and DOCS / found[1] for found in following] == [*pages[1:], None]
    for page in pages:
        common, begin, details = read(page).partition("\n<details markdown>\n<summary>Details: ")
        assert begin, page
        assert details.rstrip().endswith("</details>"), page
        assert common.count("\n```python\n") > 0


def test_the_readme_shows_the_dashboard_in_light_and_dark() -> None:
    """The pictures are small: the page is read on phones, too."""
    shown = re.findall(r'(?:media="([^"]+)" srcset|src)="([^"]+)"', read(README))
    assert shown == [
        ("(prefers-color-scheme: dark)", "docs/screenshots/activity-dark.png"),
        ("", "docs/screenshots/activity.png"),
    ]
    assert all((ROOT / name).stat().st_size < 150_000 for _, name in shown)


def test_the_readme_begins_with_code_that_runs_and_stays_short() -> None:
    first = next(blocks(README))
    assert first.language == "python"
    assert first.not_run is None
    lines = [line for line in first.text.splitlines() if line.strip()]
    assert len(lines) <= 12
    assert first.line + first.text.count("\n") <= FIRST_SCREEN_LINES
    assert read(README).count("\n") <= MOST_README_LINES


def test_the_page_for_contributors_stays_short() -> None:
    unfolded = re.sub(r"<details.*?</details>", "", read(CONTRIBUTING), flags=re.DOTALL)
    assert unfolded.count("\n") <= MOST_CONTRIBUTING_LINES


def test_the_thresholds_of_findings_are_those_of_the_code() -> None:
    table = [line for line in read(DOCS / "attention.md").splitlines() if line.startswith("| `")]
    rows = [f"| `{code}` | {one.severity} | {one.when} |" for code, one in THRESHOLDS.items()]
    assert [line for line in table if (line.count("|") == 4 and "critical |" in line) or "warning |" in line] == rows
    assert missing(set(rowcall.Finding.__struct_fields__), read(DOCS / "attention.md")) == []
