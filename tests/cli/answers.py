"""What a command prints, for programs and for people."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import Run


def answer_of(run: Run, *words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def rows_of(run: Run, *words: str) -> list[list[str]]:
    """The words of each line, as they are printed into a pipe."""
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    assert [line for line in result.stdout.splitlines() if line != line.rstrip()] == []
    return [line.split() for line in result.stdout.splitlines()]
