"""The log has a line for each attempt that did not simply succeed, with the job's fields on the record."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rowcall import Backoff, Cancel, Rowcall


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_failures_are_logged_and_successes_are_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="rowcall")
    with Rowcall(tmp_path / "app.db") as jobs:

        @jobs.task(retry=Backoff.constant(0), max_attempts=2)
        def break_down() -> None:
            raise LookupError("no needle")

        @jobs.task
        def give_up() -> None:
            raise Cancel("not today")

        @jobs.task
        def succeed() -> None: ...

        broken, given_up = break_down.enqueue(), give_up.enqueue()
        succeed.enqueue()
        jobs.drain()
    assert sorted(told(caplog)) == [
        (
            "ERROR",
            f"job {broken.id} (break_down): failed for good at attempt 2 of 2 (INTERNAL:LookupError: no needle)",
        ),
        ("INFO", f"job {given_up.id} (give_up): was cancelled by its handler (CANCELLED:BY_HANDLER: not today)"),
        (
            "WARNING",
            f"job {broken.id} (break_down): attempt 1 of 2 failed, the next one comes in 0 s"
            " (INTERNAL:LookupError: no needle)",
        ),
    ]
    record = next(record for record in caplog.records if record.levelname == "ERROR")
    fields = vars(record)
    assert {name: fields[name] for name in ("job_id", "job_type", "job_attempt", "error_code")} == {
        "job_id": broken.id,
        "job_type": "break_down",
        "job_attempt": 2,
        "error_code": "INTERNAL:LookupError",
    }
