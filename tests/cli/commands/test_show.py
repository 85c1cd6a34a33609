from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from rowcall import Rowcall
from tests.cli.conftest import Run
from tests.cli.terminal import on_a_terminal


def test_show_prints_everything_about_a_failed_job(run: Run, filled: Rowcall) -> None:
    shown = run("show", "app:jobs", "1").stdout
    assert shown.startswith("job 1  broken")
    for word in ("ENQUEUED", "CLAIMED", "STARTED", "FAILED", "attempts", "timeline", "error_code", "created_at"):
        assert word in shown
    assert "traceback of attempt 1\nTraceback (most recent call last):" in shown
    assert "\x1b" not in shown
    assert "holder" not in shown


def test_show_says_that_times_are_utc(run: Run, filled: Rowcall) -> None:
    lines = run("show", "app:jobs", "1").stdout.splitlines()
    fields = [line.split() for line in lines]
    [created] = [words for words in fields if words[:1] == ["created_at"]]
    assert created[-1] == "UTC"
    assert ["no.", "status", "claimed", "(UTC)", "took", "worker"] in fields
    assert ["at", "(UTC)", "event", "by", "detail"] in fields


def test_show_prints_the_progress_as_the_timeline_does(run: Run, queue: Rowcall, folder: Path) -> None:
    queue.enqueue("hello")
    queue.claim("worker-1", limit=1)
    with closing(sqlite3.connect(folder / "queue.db")) as raw, raw:
        raw.execute("update rowcall_claim set progress = 0.09902655283610029, heartbeat_at = claimed_at + 1")
    lines = [line.split() for line in run("show", "app:jobs", "1").stdout.splitlines()]
    assert ["progress", "10", "%"] in lines
    assert [line[-2:] for line in lines if "PROGRESS" in line] == [["10", "%"]]


def test_a_long_error_pads_no_line(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello", max_attempts=1)
    queue.fail(queue.claim("worker-1", limit=1)[0], "TEST:LONG", "x" * 300)
    for words in (("show", "app:jobs", str(job.id)), ("jobs", "app:jobs"), ("stats", "app:jobs")):
        lines = run(*words).stdout.splitlines()
        assert [line for line in lines if line != line.rstrip()] == []
        assert all(len(line) < 200 or "x" * 300 in line for line in lines)


def test_an_error_is_said_once_and_a_traceback_is_never_wrapped(queue: Rowcall) -> None:
    queue.enqueue("hello", max_attempts=2)
    for _ in range(2):
        queue.fail(queue.claim("w")[0], ValueError("a long story " * 12))
        queue.reschedule(1, delay=0) if queue.get(1).status == "scheduled" else None
    drawn = on_a_terminal("show", "app:jobs", "1", columns=80, NO_COLOR="1")
    above, _, below = drawn.replace("\r", "").partition("traceback of attempt 2")
    assert above.count("story") == 12
    assert "1, 2  INTERNAL:ValueError: a long story" in above
    assert ("a long story " * 12).rstrip() in below


def test_show_and_jobs_say_why_a_job_waits(run: Run, queue: Rowcall) -> None:
    queue.enqueue("hello", queue="mail")
    queue.pause("mail", actor="ann")
    for words in (("show", "app:jobs", "1"), ("jobs", "app:jobs")):
        assert "queue mail was paused by ann" in run(*words).stdout


def test_show_names_the_jobs_that_wait_for_it(run: Run, queue: Rowcall) -> None:
    first = queue.enqueue("hello")
    for _ in range(22):
        queue.enqueue("after_it", after=first)
    lines = [line.split() for line in run("show", "app:jobs", "1").stdout.splitlines()]
    assert ["2", "after_it", "blocked", "waits", "for", "this", "job"] in lines
    assert ["and", "more"] in lines


def test_show_in_json(run: Run, filled: Rowcall) -> None:
    shown = json.loads(run("show", "app:jobs", "1", "--json").stdout)
    assert list(shown) == ["job", "why", "attempts", "blockers", "dependents", "steps", "timeline", "log"]
    assert shown["job"]["status"] == "failed"
    assert shown["attempts"][0]["traceback"].startswith("Traceback")
    assert [event["event"] for event in shown["timeline"]] == ["ENQUEUED", "CLAIMED", "STARTED", "FAILED"]


def test_show_takes_one_job(run: Run, filled: Rowcall) -> None:
    assert run("show", "app:jobs", "1", "2").exit_code == 2
    assert run("show", "app:jobs").exit_code == 2
    assert run("show", "app:jobs", "99").exit_code == 1
