"""`rowcall watch`: a process that is not a worker sees that no worker is alive, and sends an alert."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from rowcall import Rowcall
from tests.cli.conftest import Run
from tests.http.push.target import TargetServer, serving
from tests.support import ForkedProcess, eventually

LATE = "insert into rowcall_job (type, payload, created_at, run_at) values ('hello', '{}', "
ON_FILE = f"{LATE} (unixepoch() - 600) * 1000, (unixepoch() - 600) * 1000)"
ON_SERVER = f"{LATE} now() - interval '10 minutes', now() - interval '10 minutes')"


@pytest.fixture
def target() -> Iterator[TargetServer]:
    with serving() as server:
        yield server


@pytest.fixture
def late(database: str, folder: Path) -> str:
    """A database in which a job has been due for ten minutes."""
    with Rowcall(database) as jobs:
        jobs.migrate()
    if database.startswith("sqlite"):
        with closing(sqlite3.connect(folder / "queue.db")) as connection, connection:
            connection.execute(ON_FILE)
    else:
        with psycopg.connect(database) as server:
            server.execute(ON_SERVER)
    return database


BOTH = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


@BOTH
@pytest.mark.slow
def test_alerts_without_any_worker(late: str, target: TargetServer, folder: Path) -> None:
    words = ("-m", "rowcall", "watch", late, "--after", "0s", "--json")
    environment = {**os.environ, "ROWCALL_ALERT_URL": target.url()}
    with ForkedProcess(*words, cwd=str(folder), env=environment) as watch:
        eventually(lambda: len(target.received) == 1, message="an alert has come")
        watch.send(signal.SIGTERM)
        watch.wait()
        output = watch.output
    (line,) = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert (line["event"], line["finding"]["code"]) == ("appeared", "no_worker")
    assert str(target.received[0].sent["text"]).startswith("[critical] ")
    assert target.url() not in output


def test_a_look_for_cron(run: Run, late: str, target: TargetServer) -> None:
    for expected in (1, 1):
        result = run("watch", "--url", late, "--once", "--webhook", target.url(), "--after", "0s")
        assert result.exit_code == 0, result.output
        assert "critical  no worker is alive: 1 job has been due for 10 min" in result.stdout
        assert "Start a worker: rowcall work app:jobs\n" in result.stdout
        assert len(target.received) == expected


def test_it_says_that_it_only_prints(run: Run, queue: Rowcall) -> None:
    queue.migrate()
    result = run("watch", "app:jobs", "--once")
    assert result.stdout == ""
    assert result.stderr == "no alerts are sent: give --webhook URL, or alerts=Alerts(url=…) in the app\n"
    wrong = run("watch", "app:jobs", "--once", "--webhook", "hooks.example")
    assert wrong.exit_code == 2
    assert "--webhook must begin with https://, got 'hooks.example'" in wrong.stderr
