from __future__ import annotations

import json

import pytest

from rowcall import Rowcall
from tests.cli.conftest import Run


def test_pause_and_resume_every_queue(run: Run, queue: Rowcall) -> None:
    result = run("pause", "app:jobs", "*")
    assert result.stdout.startswith("every queue paused by ")
    assert result.stderr == ""
    queue.pause("mail")
    assert "paused: every queue (by " in run("stats", "app:jobs").stdout
    assert "rowcall resume app:jobs '*'" in run("doctor", "app:jobs").stdout
    result = run("resume", "app:jobs", "mail")
    assert (result.stdout, result.stderr) == ("queue mail resumed\n", "warning: every queue is still paused\n")
    again = run("resume", "app:jobs", "mail")
    assert again.exit_code == 1
    assert again.stderr == "warning: every queue is still paused\nerror: queue mail is not paused\n"
    queue.pause("mail")
    queue.pause(task="hello")
    result = run("resume", "app:jobs", "*")
    assert result.stdout == "every queue resumed\n"
    assert result.stderr == "warning: still paused: queue mail, task hello\n"
    again = run("resume", "app:jobs", "*")
    assert (again.exit_code, again.stderr) == (1, "error: queue * is not paused\n")


def test_pause_and_resume(run: Run, queue: Rowcall) -> None:
    result = run("pause", "app:jobs", "mail")
    assert result.stdout.startswith("queue mail paused by ")
    paused = json.loads(run("pause", "--task", "hello", "--json", "--url", "sqlite:///queue.db").stdout)
    assert (paused["kind"], paused["name"]) == ("task", "hello")
    assert "paused: queue mail (by " in run("stats", "app:jobs").stdout
    assert len(json.loads(run("stats", "app:jobs", "--json").stdout)["paused"]) == 2
    assert "queue mail was paused by " in run("doctor", "app:jobs").stdout
    assert run("resume", "app:jobs", "mail").stdout == "queue mail resumed\n"
    again = run("resume", "app:jobs", "mail")
    assert (again.exit_code, again.stderr) == (1, "error: queue mail is not paused\n")
    gone = json.loads(run("resume", "app:jobs", "--task", "hello", "--json").stdout)
    assert gone == {"kind": "task", "name": "hello", "was_paused": True}


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (
            ["app:jobs", "--task", "helo"],
            "unknown task 'helo': app:jobs does not declare it, and no job has it (did you mean 'hello'?)",
        ),
        (
            ["app:jobs", "dflt"],
            "unknown queue 'dflt': app:jobs does not declare it, and no job has it (did you mean 'default'?)",
        ),
        (["app:jobs", "x"], "unknown queue 'x': app:jobs does not declare it, and no job has it"),
        (["--url", "sqlite:///queue.db", "dflt"], "unknown queue 'dflt': no job has it"),
        (["--url", "sqlite:///queue.db", "--task", "hello"], "unknown task 'hello': no job has it"),
        (["app:jobs", "default"], ""),
        (["app:jobs", "--task", "hello"], ""),
        (["app:jobs", "mail"], ""),
        (["app:jobs", "--task", "of-another-app"], ""),
    ],
    ids=str,
)
def test_pausing_an_unknown_name_warns(run: Run, queue: Rowcall, words: list[str], warning: str) -> None:
    queue.enqueue("of-another-app", queue="mail")
    result = run("pause", *words)
    assert result.exit_code == 0
    assert result.stderr == (f"warning: {warning}\n" if warning else "")
    assert len(queue.paused()) == 1
