from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
from click.testing import CliRunner, Result

from rowcall import Rowcall
from rowcall.cli.bench import measure
from rowcall.cli.load import load
from rowcall.cli.main import main

APP = """
from rowcall import Rowcall

jobs = Rowcall("sqlite:///queue.db")
number = 7

class Holder:
    inner = jobs

@jobs.task
def hello(name: str) -> str:
    return f"hello {name}"

@jobs.task(max_attempts=1)
def broken() -> None:
    raise ValueError("it is [bold]broken[/bold] \\x1b[31m")
"""

DAY_MS = 86_400_000

KEEPING = APP.replace(
    'Rowcall("sqlite:///queue.db")',
    'Rowcall("sqlite:///queue.db", retention=Retention(succeeded=3600, queues={"mail": Retention(succeeded=None)}))',
).replace("import Rowcall", "import Retention, Rowcall")

TROUBLED = (
    APP
    + """
from rowcall import Backoff, Fail

@jobs.task(queue="mail", max_attempts=3, retry=Backoff.constant(0))
def flaky(fails: int) -> None:
    from rowcall import current
    if current().job.attempt <= fails:
        raise Fail("TIMEOUT:UPSTREAM_API", "no answer") if fails > 5 else OSError(f"try {current().job.attempt}")
"""
)

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder, and no trace of the modules that were imported from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROWCALL_URL", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def app(folder: Path) -> Path:
    path = folder / "app.py"
    path.write_text(APP)
    return path


@pytest.fixture
def queue(app: Path, folder: Path) -> Iterator[Rowcall]:
    """The database of the app, with its tables."""
    with Rowcall(folder / "queue.db") as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture
def server_app(app: Path, postgres_url: str) -> Path:
    """The same app, with another URL."""
    app.write_text(APP.replace("sqlite:///queue.db", postgres_url))
    return app


@pytest.fixture
def server_queue(server_app: Path, postgres_url: str) -> Iterator[Rowcall]:
    """Its database, with its tables."""
    with Rowcall(postgres_url) as jobs:
        jobs.migrate()
        yield jobs


@pytest.fixture
def run() -> Run:
    def invoke(*words: str) -> Result:
        return CliRunner().invoke(main, list(words))

    return invoke


@pytest.fixture
def small_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `rowcall bench` measure fewer jobs."""
    monkeypatch.setattr(measure, "MOST_SINGLE", 200)
    monkeypatch.setattr(measure, "MOST_BULK", measure.BULK)
    monkeypatch.setattr(measure, "MOST_DRAINED_IN_THREADS", 200)
    monkeypatch.setattr(measure, "SAMPLES", 20)


@pytest.fixture
def filled(queue: Rowcall) -> Rowcall:
    """Job 1 failed, 2 succeeded, 3 is far off and tagged, 4 is another queue's."""
    app = load("app:jobs")
    app.enqueue("broken")
    app.enqueue("hello", {"name": "Ann"})
    assert app.drain().total == 2
    app.enqueue("hello", {"name": "Bob"}, delay=86400 * 3, tags=["late", "paid"])
    app.enqueue("hello", {"name": "Eve"}, queue="mail")
    app.close()
    return queue


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """The URL of a file, unless a server is asked for."""
    on_server = getattr(request, "param", "sqlite") == "postgres"
    return str(request.getfixturevalue("postgres_url")) if on_server else "sqlite:///queue.db"


@pytest.fixture
def troubled(app: Path, database: str) -> Iterator[Rowcall]:
    """3 succeeded, one at its third attempt; 3 failed for two reasons; 1 runs by hand; 1 is far off, and 1 waits."""
    app.write_text(TROUBLED.replace("sqlite:///queue.db", database))
    jobs = load("app:jobs")
    for name in ("Ann", "Bob"):
        jobs.enqueue("hello", {"name": name})
    jobs.enqueue("broken")
    for fails in (2, 6, 6):
        jobs.enqueue("flaky", {"fails": fails})
    jobs.drain()
    jobs.enqueue("hello", {"name": "Eve"}, queue="slow")
    [claimed] = jobs.claim("by-hand", limit=1)
    jobs.heartbeat(claimed)
    jobs.enqueue("hello", {"name": "Kim"}, delay=86_400)
    jobs.enqueue("hello", {"name": "Lee"})
    with closing(jobs):
        yield jobs


@pytest.fixture
def old(queue: Rowcall, app: Path, folder: Path) -> Rowcall:
    """Of each outcome some that ended 100 days ago, in two queues, and one of today; the app has its own rules."""
    app.write_text(KEEPING)
    with closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as raw:
        [now] = raw.execute("select cast(strftime('%s', 'now') as integer) * 1000").fetchone()
        for status, count in (("succeeded", 5), ("failed", 3), ("cancelled", 2)):
            for age, queue_name in [*[(100, "default")] * count, (0, "default"), (100, "mail")]:
                at = now - age * DAY_MS
                raw.execute(
                    "insert into rowcall_job (type, queue, status, created_at, finished_at) values (?, ?, ?, ?, ?)",
                    ("hello", queue_name, status, at, at),
                )
    return queue


class Diagnosis(NamedTuple):
    """What the doctor said, by the name of each check."""

    exit_code: int
    level: dict[str, str]
    what: dict[str, str]
    advice: dict[str, str]


class Examine(Protocol):
    def __call__(self, *words: str) -> Diagnosis: ...


@pytest.fixture
def examine(run: Run) -> Examine:
    def ask(*words: str) -> Diagnosis:
        result = run("doctor", *(words or ("app:jobs",)), "--json")
        answer = json.loads(result.stdout)
        findings = answer["findings"]
        assert answer["ok"] == (result.exit_code == 0) == all(found["level"] != "problem" for found in findings)
        assert all(bool(found["advice"]) == (found["level"] != "ok") for found in findings)
        level, what, advice = (
            {found["check"]: found[key] for found in findings} for key in ("level", "what", "advice")
        )
        return Diagnosis(result.exit_code, level, what, advice)

    return ask


def change(folder: Path, *statements: str) -> None:
    """Run statements on the file of the app."""
    with closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as raw:
        for statement in statements:
            raw.execute(statement)
