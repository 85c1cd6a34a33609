from __future__ import annotations

import json
from typing import NamedTuple, Protocol

import pytest

from tests.cli.conftest import Run


class Diagnosis(NamedTuple):
    """What the doctor said, by the name of each check."""

    exit_code: int
    level: dict[str, str]
    what: dict[str, str]
    advice: dict[str, str]


class Examine(Protocol):
    def __call__(self, *words: str) -> Diagnosis: ...


@pytest.fixture
def examine(run: Run) -> Examine:
    def ask(*words: str) -> Diagnosis:
        result = run("doctor", *(words or ("app:jobs",)), "--json")
        answer = json.loads(result.stdout)
        findings = answer["findings"]
        assert answer["ok"] == (result.exit_code == 0) == all(found["level"] != "problem" for found in findings)
        assert all(bool(found["advice"]) == (found["level"] != "ok") for found in findings)
        level, what, advice = (
            {found["check"]: found[key] for found in findings} for key in ("level", "what", "advice")
        )
        return Diagnosis(result.exit_code, level, what, advice)

    return ask
