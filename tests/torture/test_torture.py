"""`rowcall torture`, as people type it: what it finds, what it refuses, and what it leaves behind."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rowcall import Rowcall
from rowcall.cli.main import main
from rowcall.testing.postgres_database import with_database
from rowcall.testing.process import process_state
from rowcall.torture import locker, small_disk
from rowcall.torture.fault_plan import FaultKind, plan
from rowcall.torture.workload import opened
from tests.mysql_server import ALL
from tests.observe.plain_sql import plain_database
from tests.support import PythonProcess, eventually

ROOT = Path(__file__).parents[2]
PREFIX = "rowcall_torture_"
ON_SERVERS = set(FaultKind) - {FaultKind.CHECKPOINT, FaultKind.FULL_DISK}
ON_SQLITE = set(FaultKind) - {FaultKind.CUT, FaultKind.LOSE_REPLY, FaultKind.FREEZE, FaultKind.RESTART}

LEFT = [("ours",), ("sqlite_sequence",)]  # SQLite keeps the second one, empty

_CATALOGUES = ("pg_class where relnamespace", "pg_proc where pronamespace", "pg_type where typnamespace")
LEFT_ON_SERVERS = {
    "postgres": [f"select count(*) from {catalogue} = 'public'::regnamespace" for catalogue in _CATALOGUES],
    "mysql": ["select count(*) from information_schema.tables where table_schema = database()"],
}

DEFECT = """
import rowcall.store.sqlite.ends as ends

ends.record_attempts += " and false"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which has an empty folder for temporary files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    return tmp_path


@contextmanager
def torture(*words: str, folder: Path, **environment: str) -> Iterator[PythonProcess]:
    """Run the command, and check that it leaves no temporary files behind."""
    env = {**os.environ, "TMPDIR": str(folder / "temporary"), **environment}
    with PythonProcess("-m", "rowcall", "torture", *words, "--workers=2", env=env, cwd=str(folder)) as process:
        yield process


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["torture", *words])


def seed_that_begins_with(kind: FaultKind, kinds: Collection[FaultKind]) -> str:
    return str(next(seed for seed in itertools.count() if next(plan(seed, kinds)).kind is kind))


@pytest.mark.crash
@pytest.mark.slow
def test_a_sqlite_file_is_tortured_and_left_as_it_was(folder: Path) -> None:
    with closing(sqlite3.connect("app.db")) as connection:
        connection.execute("create table ours as select 7 as number")
    begin = FaultKind.FULL_DISK if small_disk.why_not() is None else FaultKind.LOCK
    kinds = ON_SQLITE - ({FaultKind.FULL_DISK} if small_disk.why_not() else set())
    seed = seed_that_begins_with(begin, kinds)
    with torture("sqlite:///app.db", "--seconds=1", f"--seed={seed}", "--json=c.json", folder=folder) as process:
        assert process.wait(within=60) == 0, process.output
        assert "passed: no finding" in process.output
    certificate = json.loads((folder / "c.json").read_text())
    assert certificate["verdict"] == "passed"
    assert certificate["command"] == f"rowcall torture URL --seconds 1 --seed {seed} --workers 2"
    assert certificate["faults"][begin] >= 1
    assert (FaultKind.FULL_DISK in certificate["not_possible"]) == (begin is FaultKind.LOCK)
    assert certificate["jobs"]["acknowledged"] > 0
    assert certificate["jobs"]["acknowledged"] <= certificate["jobs"]["in_database"]
    assert str(folder) not in json.dumps(certificate)
    assert sorted(path.name for path in folder.iterdir()) == ["app.db", "c.json", "temporary"]
    assert list((folder / "temporary").iterdir()) == []
    with closing(sqlite3.connect("app.db")) as connection:
        assert connection.execute("select name from sqlite_master").fetchall() == LEFT
        assert connection.execute("select number from ours").fetchall() == [(7,)]


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.no_tables
@pytest.mark.parametrize("kind", ["postgres", *(["mysql"] if ALL else [])])
def test_a_server_is_tortured_and_restarted_where_that_is_allowed(
    folder: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    url = str(request.getfixturevalue(f"{kind}_url"))
    seed = seed_that_begins_with(FaultKind.RESTART, ON_SERVERS)
    words = (
        "--seconds=1",
        f"--seed={seed}",
        "--jobs=300",
        "--faults=12",
        "--json=c.json",
        "--restart=echo again > restarted",
    )
    with torture(url, *words, folder=folder) as process:
        assert process.wait(within=60) == 0, process.output
    certificate = json.loads((folder / "c.json").read_text())
    assert certificate["verdict"] == "passed"
    assert certificate["faults"][FaultKind.RESTART] == 1
    assert "--jobs 300 --faults 12" in certificate["command"]
    assert (folder / "restarted").read_text() == "again\n"
    assert certificate["jobs"]["acknowledged"] >= 300
    assert certificate["versions"]["database"].startswith(("PostgreSQL ", "MariaDB "))
    assert list((folder / "temporary").glob("rowcall-torture*")) == []
    with closing(plain_database(url)) as database:
        for query in LEFT_ON_SERVERS[kind]:
            assert database.ask(query) == [(0,)], query


@pytest.mark.crash
@pytest.mark.slow
def test_a_planted_defect_is_found(folder: Path) -> None:
    (folder / "defect").mkdir()
    (folder / "defect" / "sitecustomize.py").write_text(DEFECT)
    words = ("sqlite:///app.db", "--seconds=1", "--seed=1", "--json=c.json")
    with torture(*words, folder=folder, PYTHONPATH=str(folder / "defect")) as process:
        assert process.wait(within=60) == 1, process.output
        assert "FAILED" in process.output
        assert "attempts do not fit" in process.output
    certificate = json.loads((folder / "c.json").read_text())
    assert certificate["verdict"] == "failed"
    found = {finding["check"] for finding in certificate["findings"]}
    assert found >= {"attempts do not fit", "start without an attempt"}


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left_when_it_is_interrupted(folder: Path, number: signal.Signals) -> None:
    with torture("sqlite:///app.db", "--seconds=60", "--json=c.json", folder=folder) as process:
        process.wait_for("faults:")
        with opened(f"sqlite:///{folder}/app.db", PREFIX) as jobs:
            workers = eventually(lambda: [worker.pid for worker in jobs.workers()])
        process.send(number)
        assert process.wait() == (-9 if number is signal.SIGKILL else 130), process.output
        assert "Traceback" not in process.output
    eventually(lambda: not any(map(is_running, workers)))
    if number is not signal.SIGKILL:
        assert [path.name for path in folder.rglob("*")] == ["temporary"]


def is_running(pid: int) -> bool:
    try:
        return process_state(pid) not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["sqlite:///app.db", "--seconds=0"], "--seconds must be at least 1, got 0"),
        (["sqlite:///app.db", "--seconds=soon"], "'soon' is not a duration"),
        (["sqlite:///app.db", "--json=no/such/c.json"], "--json: no/such/c.json cannot be written: No such file"),
        (["sqlite:///app.db", "--prefix=No Name"], "--prefix must be 1 to 40 letters"),
        (["sqlite:///app.db", "--jobs=0"], "--jobs"),
        (["sqlite:///app.db", "--restart=true"], "--restart is for servers"),
        (["sqlite:///:memory:"], "a queue in memory"),
        (["app.db"], "'app.db' is not a URL"),
        (["oracle://ann@db-1/shop"], "unknown database oracle://"),
    ],
)
def test_wrong_use(folder: Path, words: list[str], problem: str) -> None:
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert problem in result.stderr
    assert [path.name for path in folder.iterdir()] == ["temporary"]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sqlite:///no/such/app.db", "cannot be written"),
        ("sqlite:///text.db", "file is not a database"),
        ("postgresql://ann@127.0.0.1:1/shop", "127.0.0.1"),
    ],
)
def test_a_database_that_cannot_be_used(folder: Path, url: str, problem: str) -> None:
    (folder / "text.db").write_text("this is not a database" * 100)
    result = run(url, "--json=c.json")
    assert result.exit_code == 1, result.output
    assert problem in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["temporary", "text.db"]


def test_a_prefix_that_has_tables_is_refused(folder: Path, postgres_url: str) -> None:
    with Rowcall(folder / "app.db", table_prefix="shop_") as jobs:
        kept = jobs.enqueue("one")
    result = run("sqlite:///app.db", "--prefix=shop_")
    assert result.exit_code == 1
    assert "app.db has tables named shop_*" in result.stderr
    with Rowcall(folder / "app.db", table_prefix="shop_") as jobs:
        assert jobs.get(kept.id).status == "pending"
    result = run(postgres_url, "--prefix=rowcall_")
    assert result.exit_code == 1
    assert "has tables named rowcall_*" in result.stderr


def test_a_missing_database_is_named(postgres_url: str) -> None:
    result = run(with_database(postgres_url, "no_such_database"))
    assert result.exit_code == 1
    assert "no_such_database" in result.stderr


@pytest.mark.parametrize(
    "url", ["postgresql://ann@127.0.0.1:1/away", "mysql://ann@127.0.0.1:1/away", "sqlite:////nowhere/away.db"]
)
def test_the_locker_outlives_a_database_that_is_away(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWCALL_URL", url)
    monkeypatch.setenv("ROWCALL_TORTURE_PREFIX", PREFIX)
    assert locker.hold("snapshot", 0) == locker.BUSY
