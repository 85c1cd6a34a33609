"""A worker starts a job when the caller commits in another process: it is notified, and does not poll."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from rowcall.worker import pace
from tests.connected import database_with_tables, empty
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.fork_server import Child, ForkServer, Line
from tests.wake.idle import HOURS, Idle

pytestmark = pytest.mark.concurrency

ON_SQLITE = ["sqlite3-legacy", "aiosqlite", "sqlalchemy-pysqlite-session", "django-sqlite-alias"]
ON_POSTGRESQL = [
    "psycopg",
    "psycopg-autocommit",
    "psycopg-pipeline",
    "psycopg-async",
    "asyncpg",
    "sqlalchemy-psycopg-connection",
    "sqlalchemy-psycopg2-session",
    "sqlalchemy-psycopg-async-session",
    "sqlalchemy-asyncpg-async-session",
    "django-postgresql-proxy",
]


def commit_when_told(line: Line, kind: str, database: str, url: str) -> None:
    """In a separate process: what it rolls back, and then what it commits."""

    async def scenario() -> None:
        async with BY_NAME[kind].opened(database) as mine:
            for text, end in (("rolled back", mine.rollback), ("x", mine.commit)):
                await mine.begin()
                await mine.enqueue_by_name(jobs, "note", {"text": text}, "default")
                line.say(written=text)
                assert line.hear() == {"go": "on"}
                await end()
                line.say(ended=text)

    with Rowcall(url) as jobs:
        BY_NAME[kind].run(scenario())


def roll_back_and_commit(child: Child, ran: list[str]) -> None:
    """All but the end of it: the caller waits for a signal to commit."""
    assert child.ready() == {"written": "rolled back"}
    child.say(go="on")
    assert child.ready() == {"ended": "rolled back"}
    assert child.ready() == {"written": "x"}
    assert ran == []


@pytest.fixture(scope="module")
def with_tables(postgres_server_url: str) -> Iterator[str]:
    with database_with_tables(postgres_server_url) as url:
        yield url


@pytest.mark.parametrize("name", ON_POSTGRESQL)
def test_on_postgresql(with_tables: str, fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    empty(with_tables)
    with Rowcall(with_tables) as jobs:
        idle = Idle(jobs, with_tables)
        idle.watch(monkeypatch)
        with idle.worker():
            idle.settle()
            wishes = {"kind": name, "database": with_tables, "url": with_tables}
            with fork_server.child(f"{__name__}:commit_when_told", **wishes) as child:
                roll_back_and_commit(child, idle.ran)
                child.say(go="on")
                idle.has_run("x")


@pytest.mark.parametrize("name", ON_SQLITE)
def test_on_sqlite(tmp_path: Path, fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Only the write to the file can notify the worker: on its own it would check in some hours."""
    monkeypatch.setattr(pace, "LONGEST_WAIT_SECONDS", HOURS)
    path = tmp_path / "app.db"
    with Rowcall(path) as jobs:
        ran: list[str] = []

        @jobs.task
        def note(text: str) -> None:
            ran.append(text)

        with jobs.worker(lease=600):
            note.enqueue("warm")
            eventually(lambda: ran == ["warm"])
            ran.clear()
            wishes = {"kind": name, "database": str(path), "url": f"sqlite:///{path}"}
            with fork_server.child(f"{__name__}:commit_when_told", **wishes) as child:
                roll_back_and_commit(child, ran)
                child.say(go="on")
                eventually(lambda: ran == ["x"], message="a job that was notified")
