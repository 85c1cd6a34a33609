"""`rowcall tasks`: what is declared, and how many jobs each has."""

from __future__ import annotations

from pathlib import Path

from rowcall import Rowcall
from tests.cli.answers import answer_of, rows_of
from tests.cli.conftest import Run
from tests.cli.terminal import on_a_terminal


def test_declared_tasks_are_listed_before_there_are_tables(run: Run, app: Path, folder: Path) -> None:
    assert rows_of(run, "tasks", "app:jobs")[2:] == [
        ["broken", "default", "1", "-", "0", "0", "0"],
        ["hello", "default", "5", "-", "0", "0", "0", "name"],
    ]
    assert not (folder / "queue.db").exists()


def test_jobs_are_counted_for_each_task(run: Run, filled: Rowcall) -> None:
    filled.enqueue("gone", {"x": 1})
    rows = rows_of(run, "tasks", "app:jobs")
    assert rows[2:4] == [
        ["broken", "default", "1", "-", "0", "0", "1"],
        ["hello", "default", "5", "-", "2", "0", "0", "name"],
    ]
    assert rows[5:] == [
        ["not", "declared", "by", "app:jobs"],
        ["task", "waiting", "running", "failed"],
        rows[7],
        ["gone", "1", "0", "0"],
    ]
    found = answer_of(run, "tasks", "app:jobs")["tasks"]
    assert [(task["name"], task["declared"]) for task in found] == [("broken", True), ("hello", True), ("gone", False)]
    assert (found[1]["function"], found[1]["arguments"], found[1]["runs_in"]) == ("app.hello", ["name"], "thread")
    assert (found[1]["jobs"]["scheduled"], found[1]["jobs"]["succeeded"]) == (1, 1)
    assert found[2]["max_attempts"] is None


def test_without_an_app_only_jobs_name_tasks(run: Run, filled: Rowcall) -> None:
    rows = rows_of(run, "tasks", "--url", "sqlite:///queue.db")
    assert rows[0] == ["tasks", "of", "jobs", "in", "the", "database"]
    assert rows[3:] == [["broken", "0", "0", "1"], ["hello", "2", "0", "0"]]


def test_a_task_that_fails_at_once_has_one_attempt(run: Run, folder: Path) -> None:
    (folder / "strict.py").write_text(
        "from rowcall import Backoff, Rowcall\n"
        "jobs = Rowcall('sqlite:///strict.db')\n"
        "once = jobs.task(name='once', retry=Backoff.constant(0, give_up_on=BaseException))(lambda: None)\n"
    )
    assert rows_of(run, "tasks", "strict:jobs")[2] == ["once", "default", "1", "-", "0", "0", "0"]
    assert answer_of(run, "tasks", "strict:jobs")["tasks"][0]["max_attempts"] == 5


def test_an_app_without_tasks_says_so(run: Run, folder: Path) -> None:
    (folder / "idle.py").write_text("from rowcall import Rowcall\njobs = Rowcall('sqlite:///idle.db')\n")
    assert run("tasks", "idle:jobs").stdout == "idle:jobs declares no task\n"


def test_a_narrow_terminal_shows_every_figure(filled: Rowcall) -> None:
    shown = on_a_terminal("tasks", "app:jobs", columns=70)
    assert "failed" in shown
    assert "arguments name" in shown  # below the row
