"""What all commands have in common: empty databases, terminals of any width, ids."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from rowcall import Rowcall
from rowcall.cli.command import job_ids, optional_job_ids, split_app
from tests.cli.answers import answer_of
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal


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


QUESTIONS = ["stats", "stuck", "retries", "errors", "retention"]


@pytest.mark.parametrize("command", [*QUESTIONS, "prune", "vacuum", "top"])
def test_an_empty_database_is_no_error(run: Run, queue: Rowcall, command: str) -> None:
    assert run(command, "app:jobs").exit_code == 0
    assert run(command, "app:jobs", "--json").exit_code == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("stuck", "no running jobs\n"),
        ("retries", "no jobs\n"),
        ("errors", "no failed jobs\n"),
        ("prune", "no jobs to delete\n"),
    ],
)
def test_an_empty_answer_is_said(run: Run, queue: Rowcall, command: str, said: str) -> None:
    assert run(command, "app:jobs").stdout == said


def test_an_empty_answer_in_json(run: Run, queue: Rowcall) -> None:
    assert answer_of(run, "stuck", "app:jobs") == {"jobs": []}
    assert answer_of(run, "errors", "app:jobs") == {"errors": [], "failing": []}
    retries = answer_of(run, "retries", "app:jobs")
    assert (retries["by_attempts"], retries["by_type"]) == ({}, {})
    report = answer_of(run, "retention", "app:jobs")
    assert (report["kept"], report["jobs"], report["prunable"]) == ([], 0, 0)
    assert report["size_bytes"] > 0


@pytest.mark.parametrize(
    ("command", "columns"), [*((command, 40) for command in QUESTIONS), ("stuck", 110), ("errors", 110)]
)
def test_answers_fit_a_terminal(old: Rowcall, command: str, columns: int) -> None:
    name = "a-task-with-a-name-that-is-longer-than-some-terminals-are-wide"
    old.enqueue(name, max_attempts=1)
    old.fail(old.claim("w", limit=1)[0], "TEST:LONG", "said " * 60)
    old.enqueue(name, queue=name)
    old.claim("a-worker-of-some-host:4242:9f3c01", limit=1)
    with Terminal(command, "app:jobs", columns=columns, NO_COLOR="1") as terminal:
        assert terminal.wait() == 0
    assert max(len(line) for line in terminal.text.splitlines()) <= columns
    assert "…" not in terminal.text
    assert "\x1b[3" not in terminal.drawn


def test_colours_show_what_is_bad(troubled: Rowcall) -> None:
    with Terminal("errors", "app:jobs") as terminal:
        assert terminal.wait() == 0
    assert re.search(r"\x1b\[31mTIMEOUT:UPSTREAM_API", terminal.drawn)


def test_ids_are_checked_before_anything_is_done(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    for words in ([], ["app:jobs"], ["app:jobs", str(job.id), "x"]):
        assert run("delete", *words).exit_code == 2
    assert queue.get(job.id).status in ("pending", "scheduled")


def test_ids_may_follow_an_app() -> None:
    assert split_app(("app:jobs", "7"), None) == ("app:jobs", ("7",))
    assert split_app(("7",), None) == (None, ("7",))
    assert split_app(("a:b", "7"), "sqlite:///given.db") == (None, ("a:b", "7"))
    assert job_ids(("7", "8", "7")) == [7, 8]
    assert optional_job_ids(()) == []
    for words in ((), ("app", "7"), ("²",), ("7", "app:jobs")):
        with pytest.raises(click.UsageError):
            job_ids(words)
