"""Rows that do not fit their task: the job fails at once, with an error code that says why; other jobs run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def jobs(path: Path) -> Iterator[Rowcall]:
    with Rowcall(path, mismatch_grace=0) as jobs:

        @jobs.task(max_attempts=5)
        def double(number: int) -> int:
            return 2 * number

        @jobs.task(max_attempts=5)
        async def triple(number: int) -> int:
            return 3 * number

        jobs.migrate()
        yield jobs


@pytest.mark.parametrize("task", ["double", "triple"])
@pytest.mark.parametrize(
    ("payload", "code", "said"),
    [
        ("not json", "INVALID_INPUT:NOT_JSON", "the payload is not JSON"),
        ("", "INVALID_INPUT:NOT_JSON", "the payload is not JSON"),
        ('{"number": 1', "INVALID_INPUT:NOT_JSON", "the payload is not JSON"),
        ("[1]", "INVALID_INPUT:SCHEMA_MISMATCH", "expected `object`, got `array`"),
        ("null", "INVALID_INPUT:SCHEMA_MISMATCH", "got `null`"),
        ("{}", "INVALID_INPUT:SCHEMA_MISMATCH", "missing argument 'number'"),
        ('{"number": "one"}', "INVALID_INPUT:SCHEMA_MISMATCH", "argument 'number': expected `int`, got `str`"),
        ('{"number": 1, "more": 2}', "INVALID_INPUT:SCHEMA_MISMATCH", "unexpected argument 'more'"),
    ],
)
def test_a_payload_that_does_not_fit_fails_without_a_retry(
    jobs: Rowcall, path: Path, task: str, payload: str, code: str, said: str
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("insert into rowcall_job (type, payload) values (?, ?)", [task, payload])
    good = jobs.enqueue(task, {"number": 7})
    summary = jobs.drain()
    assert (summary.failed, summary.succeeded, summary.retried) == (1, 1, 0)
    bad = jobs.get(1)
    assert (bad.status, bad.attempt, bad.max_attempts, bad.error_code) == ("failed", 1, 5, code)
    assert said in (bad.error_detail or "")
    assert jobs.get(good.id).status == "succeeded"
    (attempt,) = jobs.attempts(bad.id)
    assert (attempt.status, attempt.error_code, attempt.next_run_at) == ("failed", code, None)


def test_a_payload_that_is_no_object_is_shown_as_it_is(jobs: Rowcall, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("insert into rowcall_job (type, payload) values ('double', 'not json')")
    assert jobs.get(1).payload == {"__raw__": "not json"}


def test_a_retry_policy_that_is_none_is_passed_over(
    jobs: Rowcall, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task
    def fail() -> None:
        raise ValueError("no")

    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("insert into rowcall_job (type, retry) values ('fail', 'whenever')")
    assert jobs.drain().retried == 1
    assert jobs.get(1).status == "scheduled"
    assert "ignored the retry policy in a job's row: not a retry policy" in caplog.text
