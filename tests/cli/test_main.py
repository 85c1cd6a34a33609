from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rowcall import Rowcall
from rowcall.cli.main import COMMANDS
from tests.cli.conftest import Run


def test_help_names_every_command(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.split("Commands:\n")[1].splitlines()[: len(COMMANDS)]] == [
        *COMMANDS
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_documents_its_json(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert ("With --json: {" in result.stdout) == (command != "work")


def test_version(run: Run) -> None:
    assert run("--version").stdout.startswith("rowcall, version ")


def test_no_command_shows_the_help_as_wrong_use(run: Run) -> None:
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.output
    assert "error:" not in result.output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["stats", "--nonsense"], "No such option '--nonsense'"),
        (["work"], "Missing argument 'APP'"),
        (["stats", "--url", "mysql://host/db"], "mysql:// is not a kind of database known here"),
        (["jobs", "--status", "done"], "'done' is not one of"),
        (["jobs", "--limit", "0"], "0 is not in the range"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(run: Run, words: list[str], problem: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert problem in result.stderr.splitlines()[-1]
    assert result.stderr.splitlines()[-1].startswith("error: ")


def test_an_error_of_ours_is_one_line_and_exit_code_1(run: Run, queue: Rowcall) -> None:
    result = run("show", "app:jobs", "99")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "error: there is no job 99\n")


def test_a_reader_that_leaves_is_no_error(queue: Rowcall) -> None:
    queue.enqueue("hello", {"name": "x" * 200_000})
    command = [sys.executable, "-m", "rowcall", "jobs", "app:jobs", "--json"]
    reading, writing = os.pipe()
    process = subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    os.close(reading)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (1, b"")
