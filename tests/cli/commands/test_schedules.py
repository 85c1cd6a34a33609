from __future__ import annotations

import json
import re
import sqlite3
import sys
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.cli.conftest import APP, Run


@pytest.fixture
def scheduled(queue: Rowcall) -> Rowcall:
    queue.add_schedule("nightly", "broken", cron="0 3 * * *", tz="Europe/Berlin", catch_up="skip")
    queue.add_schedule("often", "hello", {"name": "ann"}, every=timedelta(minutes=90))
    return queue


def test_a_table_of_all(run: Run, scheduled: Rowcall) -> None:
    scheduled.pause_schedule("nightly", actor="ann@web-1")
    result = run("schedules", "app:jobs")
    assert result.exit_code == 0, result.stderr
    head, _, nightly, often = (line.strip() for line in result.stdout.strip().splitlines())
    assert head.split() == ["schedule", "task", "when", "zone", "catch", "up", "next", "last", "last", "job"]
    assert "nightly   broken  0 3 * * *         Europe/Berlin  skip      paused by ann@web-1" in nightly
    assert "often" in often
    assert "every 1 h 30 min" in often
    assert " in " in often


def test_as_json(run: Run, scheduled: Rowcall) -> None:
    shown = json.loads(run("schedules", "app:jobs", "--json").stdout)["schedules"]
    assert [one["name"] for one in shown] == ["nightly", "often"]
    assert (shown[0]["cron"], shown[0]["every"], shown[0]["tz"]) == ("0 3 * * *", None, "Europe/Berlin")
    assert (shown[1]["every"], shown[1]["arguments"], shown[1]["last_job_id"]) == (5400.0, {"name": "ann"}, None)
    assert shown[0].keys() == {
        *("name", "task", "arguments", "cron", "every", "tz", "catch_up", "paused", "paused_by", "next_run_at"),
        *("last_run_at", "last_job_id", "problem", "declaration"),
    }


def test_one_that_no_worker_has_run_is_due(run: Run, queue: Rowcall, folder: Path) -> None:
    queue.add_schedule("often", "hello", {"name": "ann"}, every=timedelta(minutes=90))
    with closing(sqlite3.connect(folder / "queue.db")) as raw, raw:
        raw.execute("update rowcall_schedule set next_run_at = ?", (time.time_ns() // 1_000_000 - 600_000,))
    assert re.search(r" due 10 min ago", run("schedules", "app:jobs").stdout)


def test_declared_ones_before_and_after_their_declaration(run: Run, queue: Rowcall, app: Path) -> None:
    declared = APP.replace("@jobs.task\ndef hello", '@jobs.schedule("0 3 * * *")\n@jobs.task\ndef hello')
    declared = declared.replace("name: str)", 'name: str = "Ann")')
    app.write_text(declared)
    assert re.search(r"hello +hello +0 3 \* \* \* .* after a worker has started", run("schedules", "app:jobs").stdout)
    [shown] = json.loads(run("schedules", "app:jobs", "--json").stdout)["schedules"]
    assert (shown["declaration"], shown["next_run_at"]) == ("new", None)
    assert "no longer" not in run("doctor", "app:jobs").stdout
    task = queue.task(name="hello")(lambda: None)
    queue.schedule("0 3 * * *")(task)
    queue.drain()
    sys.modules.pop("app")
    app.write_text(APP)
    assert run("schedules", "app:jobs").stdout.endswith(
        "\nno longer declared here: hello; remove it with: rowcall schedules app:jobs --remove hello\n"
    )
    assert "app:jobs no longer declares schedule hello, which still enqueues hello" in run("doctor", "app:jobs").stdout
    for words in (("schedules", "--url", "sqlite:///queue.db"), ("doctor", "--url", "sqlite:///queue.db")):
        assert "no longer" not in run(*words).stdout


def test_declared_ones_before_there_is_a_file(run: Run, app: Path, folder: Path) -> None:
    app.write_text(APP + '\njobs.schedule("0 3 * * *")(jobs.task(name="report")(lambda: None))\n')
    assert re.search(r"report .* after a worker has started", run("schedules", "app:jobs").stdout)
    refused = run("schedules", "app:jobs", "--pause", "report")
    assert (refused.exit_code, "there is no file" in refused.stderr) == (1, True)
    assert not (folder / "queue.db").exists()


def test_none(run: Run, queue: Rowcall) -> None:
    assert run("schedules", "app:jobs").stdout == "no schedules\n"
    assert json.loads(run("schedules", "app:jobs", "--json").stdout) == {"schedules": []}


def test_one_more_job_by_hand(run: Run, scheduled: Rowcall) -> None:
    result = run("schedules", "app:jobs", "--run-now", "often")
    assert (result.exit_code, result.stdout) == (0, "schedule often: job 1 is pending\n")
    assert json.loads(run("schedules", "app:jobs", "--run-now", "often", "--json").stdout)["job"]["id"] == 2
    assert [event.event for event in scheduled.timeline(2)] == ["ENQUEUED", "RUN_NOW"]


def test_pause_resume_remove(run: Run, scheduled: Rowcall) -> None:
    assert run("schedules", "app:jobs", "--pause", "often").stdout == "schedule often paused\n"
    assert scheduled.schedules()[1].paused
    assert run("schedules", "app:jobs", "--resume", "often").stdout.startswith("schedule often resumed; it runs in ")
    assert not scheduled.schedules()[1].paused
    paused = json.loads(run("schedules", "app:jobs", "--pause", "nightly", "--json").stdout)["schedule"]
    assert paused["paused"]
    assert "@" in paused["paused_by"]
    assert run("schedules", "app:jobs", "--remove", "often").stdout == "schedule often removed\n"
    assert json.loads(run("schedules", "app:jobs", "--remove", "nightly", "--json").stdout) == {"removed": "nightly"}
    assert scheduled.schedules() == []


@pytest.mark.parametrize("option", ["--run-now", "--pause", "--resume", "--remove"])
def test_one_that_is_not_there(run: Run, scheduled: Rowcall, option: str) -> None:
    result = run("schedules", "app:jobs", option, "weekly")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "error: schedule 'weekly' does not exist\n")


def test_one_thing_at_a_time(run: Run, scheduled: Rowcall) -> None:
    result = run("schedules", "app:jobs", "--pause", "often", "--remove", "often")
    assert result.exit_code == 2
    assert "give only one of --pause and --remove" in result.stderr


def test_arguments_are_scrubbed(run: Run, app: Path, scheduled: Rowcall) -> None:
    app.write_text(app.read_text().replace('queue.db")', 'queue.db", scrub=lambda text: text.replace("ann", "***"))'))
    assert json.loads(run("schedules", "app:jobs", "--json").stdout)["schedules"][1]["arguments"] == {"name": "***"}
