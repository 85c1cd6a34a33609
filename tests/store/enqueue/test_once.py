"""Requests in a process that dies, and notes that cannot be read. The conformance kit has what a request does."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.testing.process import ForkedProcess
from tests.conformance.cases.requests import requested

DIES = """
import os, sys
from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.declare.option_table import Options
from rowcall.operations.enqueue import bind_by_name, enqueue_once
from rowcall.store.enqueue import once

def die(*args, **kwargs):
    os._exit(9)
    yield

once.write_related = die
queue = queue_of(Rowcall(sys.argv[1]))
queue.run(enqueue_once(queue, [bind_by_name(queue, "send", {}, Options())], "order-7", "a", 60_000))
"""


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_process_that_dies_in_between_leaves_nothing(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}" if database == "sqlite" else request.getfixturevalue("postgres_url")
    with Rowcall(url) as jobs:
        jobs.migrate()
        with ForkedProcess("-c", DIES, url) as process:
            assert process.wait() == 9, process.output
        assert [job.duplicate for job in requested(jobs)] == [False, False]
        assert jobs.stats().total == 2


@pytest.mark.parametrize("value", ["", "{}", "[1, 2]", "nothing"])
def test_a_note_that_cannot_be_read_is_another_request(tmp_path: Path, value: str) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        requested(jobs)
        with sqlite3.connect(tmp_path / "app.db") as raw:
            raw.execute("update rowcall_note set value = ?", (value,))
        with pytest.raises(InvalidOption, match="was used with another request"):
            requested(jobs)
