"""`jobs`, `show`, `stats`, `workers`, `migrate`: what they print, for people and for programs."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.cli.load import load
from tests.cli.conftest import Run
from tests.support import PythonProcess, eventually

SLOW = """
import threading
from app import jobs

@jobs.task
def endless() -> None:
    threading.Event().wait()
"""


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


def test_jobs_are_listed_newest_first_in_aligned_columns(run: Run, filled: Rowcall) -> None:
    lines = run("jobs", "app:jobs").stdout.splitlines()
    assert lines[0].split() == ["id", "type", "queue", "status", "attempt", "when", "detail"]
    assert [line.split()[0] for line in lines[2:]] == ["4", "3", "2", "1"]
    column = lines[0].index("status")
    assert [line[column:].split()[0] for line in lines[2:]] == ["pending", "scheduled", "succeeded", "failed"]
    assert "due in 3 d" in lines[3]
    assert "ValueError: it is [bold]broken[/bold] \\x1b[31m" in lines[5]


def test_jobs_can_be_narrowed_and_paged(run: Run, filled: Rowcall) -> None:
    def ids(*options: str) -> list[int]:
        return [job["id"] for job in json.loads(run("jobs", "app:jobs", "--json", *options).stdout)["jobs"]]

    assert ids() == [4, 3, 2, 1]
    assert ids("--status", "failed") == [1]
    assert ids("--queue", "mail") == [4]
    assert ids("--type", "broken") == [1]
    assert ids("--tag", "paid") == [3]
    page = json.loads(run("jobs", "app:jobs", "--json", "--limit", "3").stdout)
    assert ids("--cursor", page["next_cursor"]) == [1]
    assert json.loads(run("jobs", "app:jobs", "--json", "--limit", "4").stdout)["next_cursor"] is None
    shown = run("jobs", "app:jobs", "--limit", "3").stdout
    assert f"--cursor {page['next_cursor']}" in shown


def test_a_wrong_cursor_is_wrong_use(run: Run, filled: Rowcall) -> None:
    result = run("jobs", "app:jobs", "--cursor", "7")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "next_cursor" in result.stderr


def test_no_jobs_is_said(run: Run, queue: Rowcall) -> None:
    assert run("jobs", "app:jobs").stdout == "no jobs\n"


JOB_FIELDS = [
    *("id", "type", "queue", "payload", "status", "priority", "attempt", "max_attempts", "run_at", "created_at"),
    *("claimed_at", "started_at", "finished_at", "worker", "heartbeat_at", "progress", "progress_message", "result"),
    *("error_code", "error_detail", "key", "tags", "chain_id", "chain_index", "expires_at", "timeout", "retry"),
]


def test_a_job_in_json_has_the_documented_fields(run: Run, filled: Rowcall) -> None:
    job = json.loads(run("jobs", "app:jobs", "--status", "succeeded", "--json").stdout)["jobs"][0]
    assert list(job) == JOB_FIELDS
    assert (job["payload"], job["result"], job["tags"]) == ({"name": "Ann"}, "hello Ann", [])
    assert job["created_at"].endswith("Z")


def test_show_tells_all_about_a_failed_job(run: Run, filled: Rowcall) -> None:
    shown = run("show", "app:jobs", "1").stdout
    assert shown.startswith("job 1  broken")
    for word in ("ENQUEUED", "CLAIMED", "STARTED", "FAILED", "attempts", "timeline", "error_code", "created_at"):
        assert word in shown
    assert "traceback of attempt 1\nTraceback (most recent call last):" in shown
    assert "\x1b" not in shown


def test_show_says_that_times_are_utc(run: Run, filled: Rowcall) -> None:
    lines = run("show", "app:jobs", "1").stdout.splitlines()
    fields = [line.split() for line in lines]
    [created] = [words for words in fields if words[:1] == ["created_at"]]
    assert created[-1] == "UTC"
    assert ["no.", "status", "claimed", "(UTC)", "took", "worker"] in fields
    assert ["at", "(UTC)", "event", "by", "detail"] in fields


def test_show_tells_the_progress_as_the_timeline_does(run: Run, queue: Rowcall, folder: Path) -> None:
    queue.enqueue("hello")
    queue.claim("somebody", limit=1)
    with closing(sqlite3.connect(folder / "queue.db")) as raw, raw:
        raw.execute("update rowcall_job set progress = 0.09902655283610029, heartbeat_at = claimed_at + 1")
    lines = [line.split() for line in run("show", "app:jobs", "1").stdout.splitlines()]
    assert ["progress", "10", "%"] in lines
    assert [line[-2:] for line in lines if "PROGRESS" in line] == [["10", "%"]]


def test_a_long_error_pads_no_line(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello", max_attempts=1)
    queue.fail(queue.claim("somebody", limit=1)[0], "TEST:LONG", "x" * 300)
    for words in (("show", "app:jobs", str(job.id)), ("jobs", "app:jobs"), ("stats", "app:jobs")):
        lines = run(*words).stdout.splitlines()
        assert [line for line in lines if line != line.rstrip()] == []
        assert all(len(line) < 200 or "x" * 300 in line for line in lines)


def test_show_in_json(run: Run, filled: Rowcall) -> None:
    shown = json.loads(run("show", "app:jobs", "1", "--json").stdout)
    assert list(shown) == ["job", "attempts", "blockers", "timeline"]
    assert shown["job"]["status"] == "failed"
    assert shown["attempts"][0]["traceback"].startswith("Traceback")
    assert [event["event"] for event in shown["timeline"]] == ["ENQUEUED", "CLAIMED", "STARTED", "FAILED"]


def test_show_takes_one_job(run: Run, filled: Rowcall) -> None:
    assert run("show", "app:jobs", "1", "2").exit_code == 2
    assert run("show", "app:jobs").exit_code == 2
    assert run("show", "app:jobs", "99").exit_code == 1


def test_stats_count_by_state_and_queue(run: Run, filled: Rowcall) -> None:
    stats = json.loads(run("stats", "app:jobs", "--json").stdout)
    assert stats["total"] == 4
    assert stats["by_status"] == {
        **dict.fromkeys(["blocked", "running", "cancelled"], 0),
        **dict.fromkeys(["scheduled", "pending", "succeeded", "failed"], 1),
    }
    assert stats["by_queue"]["mail"]["pending"] == 1
    shown = run("stats", "app:jobs").stdout
    lines = [line.split() for line in shown.splitlines()]
    assert ["failed", "1", "███████▌"] in lines
    assert ["type", "scheduled", "pending", "succeeded", "failed", "all"] in lines
    assert ["mail", "0", "1", "0", "0", "1"] in [line[:6] for line in lines]


def test_stats_of_an_empty_queue(run: Run, queue: Rowcall) -> None:
    assert run("stats", "app:jobs").exit_code == 0


def test_workers_are_listed(run: Run, queue: Rowcall) -> None:
    assert run("workers", "app:jobs").stdout.startswith("no workers")
    assert json.loads(run("workers", "app:jobs", "--json").stdout) == {"workers": []}
    with queue.worker(concurrency=3, queues="mail=2") as worker:
        [shown] = json.loads(run("workers", "app:jobs", "--json").stdout)["workers"]
        assert (shown["name"], shown["concurrency"], shown["queues"]) == (worker.name, 3, "mail=2")
        assert (shown["state"], shown["lease_seconds"]) == ("alive", 15.0)
        [_, _, row] = run("workers", "app:jobs").stdout.splitlines()
        assert row.split()[:4] == [worker.name, str(os.getpid()), "alive", "mail=2"]


def test_no_workers_is_said_with_the_command_that_starts_one(run: Run, queue: Rowcall) -> None:
    said = run("workers", "app:Holder.inner").stdout
    assert said == "no workers; start one with: rowcall work app:Holder.inner\n"


def test_a_worker_that_was_killed_is_gone(run: Run, queue: Rowcall, folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW)
    job = queue.enqueue("endless")
    with PythonProcess("-m", "rowcall", "work", "slow:jobs", cwd=str(folder)) as process:
        eventually(lambda: queue.get(job.id).status == "running")
        assert run("jobs", "app:jobs").stdout.rstrip().endswith(f"on {queue.get(job.id).worker}")
        process.kill()
    [worker] = json.loads(run("workers", "app:jobs", "--json").stdout)["workers"]
    assert worker["state"] == "gone"
    assert " gone " in run("workers", "app:jobs").stdout
    assert run("jobs", "app:jobs").stdout.rstrip().endswith(f"on {worker['name']} (gone)")


def test_a_worker_without_a_beat_for_longer_than_its_lease_is_silent(run: Run, queue: Rowcall, folder: Path) -> None:
    with queue.worker(lease=3600), closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as raw:
        raw.execute("update rowcall_worker set beat_at = beat_at - 7200000")
        assert "silent for 2 h" in run("workers", "app:jobs").stdout
        raw.execute("update rowcall_worker set beat_at = beat_at - 7200000")
        [worker] = json.loads(run("workers", "app:jobs", "--json").stdout)["workers"]
        assert worker["state"] == "silent"


def test_migrate_says_from_where_to_where(run: Run, app: Path, folder: Path) -> None:
    made = json.loads(run("migrate", "app:jobs", "--json").stdout)
    assert made == {"path": str(folder / "queue.db"), "from": 0, "to": made["to"]}
    assert made["to"] >= 1
    assert run("migrate", "app:jobs").stdout.endswith(f"already at version {made['to']}\n")
    assert "created the tables" in run("migrate", "--url", "sqlite:///other.db").stdout


@pytest.mark.parametrize(
    "command",
    [
        *(["jobs"], ["show", "1"], ["stats"], ["workers"], ["retry", "1"], ["delete", "1"]),
        *(["stuck"], ["retries"], ["errors"], ["retention"], ["prune"], ["vacuum"], ["top", "--once"]),
    ],
)
def test_a_database_that_is_not_there_is_said_and_not_made(run: Run, folder: Path, command: list[str]) -> None:
    result = run(*command, "--url", "sqlite:///nothing.db")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: there is no file {folder / 'nothing.db'}")
    assert list(folder.iterdir()) == []
