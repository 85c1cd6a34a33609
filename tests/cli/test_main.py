from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from rowcall import Rowcall
from rowcall.cli.main import COMMANDS, GROUPS
from rowcall.testing.process import fork_program
from tests.cli.conftest import Run


def test_help_names_every_command(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    listed = result.stdout.split("\n\nRun:\n")[1]
    for heading, names in GROUPS.items():
        group = listed.split(f"{heading}:\n")[-1].split("\n\n")[0]
        assert [line.split()[0] for line in group.splitlines()] == [*names]
    assert "..." not in listed
    assert list(GROUPS) == ["Run", "Look", "Change", "Maintain"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_documents_its_json(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert ("With --json: {" in result.stdout) == (command not in ("work", "dashboard", "mcp", "completion"))


def test_version(run: Run) -> None:
    assert run("--version").stdout.startswith("rowcall, version ")


def test_no_command_shows_the_help_as_wrong_use(run: Run) -> None:
    result = run()
    assert result.exit_code == 2
    assert "Maintain:" in result.output
    assert "error:" not in result.output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nonsense"], "unknown command 'nonsense'"),
        (["wrok"], "unknown command 'wrok' (did you mean 'work'?)"),
        (["run"], "unknown command 'run' (did you mean 'work'?)"),
        (["stats", "--nonsense"], "No such option '--nonsense'"),
        (["work"], "Missing argument 'APP'"),
        (["stats", "--url", "oracle://host/db"], "unknown database oracle://"),
        (["jobs", "--status", "done"], "'done' is not one of"),
        (["jobs", "--limit", "0"], "0 is not in the range"),
        (["work", "app:jobs", "--concurrency", "0"], "--concurrency must be a whole number"),
        (["work", "app:jobs", "--lease", "-1"], "--lease must be"),
        (["work", "app:jobs", "--queues", "mail=x"], "--queues: 'mail=x' must be name or name=number"),
    ],
)
def test_wrong_use_is_reported_under_the_usage_with_exit_code_2(
    run: Run, app: Path, words: list[str], problem: str
) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 2
    assert result.stderr.startswith("Usage: rowcall ")
    assert problem in result.stderr.splitlines()[-1]
    assert result.stderr.splitlines()[-1].startswith("error: ")


def test_an_error_of_rowcall_is_one_line_and_exit_code_1(run: Run, queue: Rowcall) -> None:
    for missing in ("99", "0", str(10**23)):
        result = run("show", "app:jobs", missing)
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"error: job {missing} does not exist\n")


def test_a_reader_that_leaves_is_no_error(queue: Rowcall) -> None:
    queue.enqueue("hello", {"name": "x" * 200_000})
    command = [sys.executable, "-m", "rowcall", "jobs", "app:jobs", "--json"]
    reading, writing = os.pipe()
    process = subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    os.close(reading)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (1, b"")


@pytest.mark.parametrize("words", [("jobs", "app:jobs"), ("stats", "app:jobs", "--json"), ("jobs", "--help")])
def test_output_that_cannot_be_written_is_one_line(queue: Rowcall, words: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rowcall", *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30
        )
    assert done.returncode == 1
    assert done.stderr == "error: writing failed: No space left on device\n"


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_closed_output_is_no_error(queue: Rowcall, option: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "rowcall", "stats", "app:jobs", *option]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, timeout=30)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("command", ["jobs", "stats", "workers", "doctor", "show"])
def test_an_ascii_output_is_drawn_in_ascii(queue: Rowcall, folder: Path, command: str) -> None:
    job = queue.enqueue("hello", {"name": "Zoë"}, queue="naïve")
    with closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as connection:
        connection.execute("update rowcall_job set run_at = run_at - 3600000, created_at = created_at - 3600000")
    done = in_ascii(command, "app:jobs", *([str(job.id)] if command == "show" else []))
    assert done.returncode == int(command == "doctor"), done.stderr
    printed = done.stdout.decode("ascii")
    expected = {
        "jobs": ["----", "na\\xefve"],
        "stats": ["----", "#" * 30],
        "workers": ["no workers"],
        "doctor": ["-> Start a worker: rowcall work app:jobs"],
        "show": ["Zo\\xeb", "na\\xefve"],
    }
    assert [said for said in expected[command] if said not in printed] == []
    assert "\\u" not in printed


def test_json_is_json_in_ascii_too(queue: Rowcall) -> None:
    queue.enqueue("hello", {"name": "Zoë 😀"})
    printed = in_ascii("jobs", "app:jobs", "--json").stdout.decode("ascii")
    assert json.loads(printed)["jobs"][0]["payload"] == {"name": "Zoë 😀"}


@pytest.mark.parametrize("words", [("--help",), *((command, "--help") for command in COMMANDS)])
def test_help_in_ascii(words: tuple[str, ...]) -> None:
    done = in_ascii(*words)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u" not in done.stdout


def in_ascii(*words: str) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    with open(os.devnull) as nothing, TemporaryFile() as output, TemporaryFile() as errors:
        files = (nothing.fileno(), output.fileno(), errors.fileno())
        code = fork_program(("-m", "rowcall", *words), files, env).wait(30)
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(words, code, output.read(), errors.read())
