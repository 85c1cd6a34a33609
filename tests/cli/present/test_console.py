from __future__ import annotations

import subprocess
import sys

import pytest

from rowcall import Rowcall
from rowcall.cli.present import console
from tests.cli.terminal import on_a_terminal


def test_colours_are_for_terminals_and_can_be_turned_off(queue: Rowcall) -> None:
    queue.cancel(queue.enqueue("hello").id)
    coloured = on_a_terminal("stats", "app:jobs")
    assert "\x1b[32msucceeded" in coloured
    plain = on_a_terminal("stats", "app:jobs", NO_COLOR="1")
    assert "\x1b[3" not in plain
    piped = subprocess.run(
        [sys.executable, "-m", "rowcall", "stats", "app:jobs"], capture_output=True, text=True, check=True
    ).stdout
    assert "\x1b" not in piped


def test_a_pipe_breaks_no_line(queue: Rowcall) -> None:
    long = "q" * 200
    queue.enqueue("hello", queue=long)
    command = [sys.executable, "-m", "rowcall", "jobs", "app:jobs"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert len(printed.splitlines()) == 3
    assert long in printed


def test_spaces_at_the_end_of_a_line_are_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A search that starts again at each space takes hours for this many."""
    monkeypatch.setattr(console, "_PIPE_COLUMNS", 2_000_000)
    spaces = " " * 1_000_000
    console.show(f"a{spaces}b \nc\t {spaces}\n")
    assert capsys.readouterr().out == f"a{spaces}b\nc\n\n"
