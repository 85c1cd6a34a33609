from __future__ import annotations

import logging

import pytest

from rowcall.cli.present.log import JobFormatter


@pytest.mark.parametrize(
    ("extra", "message", "said"),
    [
        ({}, "stopped", "stopped"),
        ({"job_id": 12}, "sent", "job 12: sent"),
        ({"job_id": 12, "job_type": "mail"}, "sent", "job 12 mail: sent"),
        ({"job_id": 12, "job_type": "mail", "job_attempt": 2}, "sent", "job 12 mail attempt 2: sent"),
        ({"job_id": 12, "job_type": "mail", "job_attempt": 2}, "job 12 (mail): sent", "job 12 (mail): sent"),
        ({"job_id": 12, "job_type": "mail", "job_attempt": 2}, "job 123 next", "job 12 mail attempt 2: job 123 next"),
    ],
)
def test_a_line_names_the_job_once(extra: dict[str, object], message: str, said: str) -> None:
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", "process": 7, "created": 0.25, "msecs": 250.0})
    record.__dict__.update(extra)
    assert JobFormatter().format(record) == f"1970-01-01 00:00:00.250Z INFO     [7] {said}"
