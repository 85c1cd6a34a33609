"""A warning about handlers that take long."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.middleware import soft_timeout
from rowcall.testing import eventually


def test_a_handler_that_still_runs_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    warned = threading.Event()

    class Watching(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "still runs" in record.getMessage():
                warned.set()

    watching = Watching()
    logging.getLogger("rowcall").addHandler(watching)
    try:
        with Rowcall(tmp_path / "app.db") as jobs:

            @jobs.task(middleware=[soft_timeout(0.01)])
            async def blocking() -> bool:
                return warned.wait(20)

            @jobs.task(middleware=[soft_timeout(60)])
            def quick() -> None: ...

            sent = [blocking.enqueue(), quick.enqueue()]
            jobs.drain(concurrency=1)
            assert jobs.get(sent[0]).result is True
    finally:
        logging.getLogger("rowcall").removeHandler(watching)
    (record,) = [one for one in caplog.records if "still runs" in one.getMessage()]
    assert record.getMessage() == "handler still runs after 0.01 s"
    assert (record.levelname, getattr(record, "job_id", None)) == ("WARNING", sent[0].id)
    eventually(lambda: not [one for one in threading.enumerate() if getattr(one, "interval", 0) == 60.0])


def test_it_needs_a_time() -> None:
    with pytest.raises(InvalidOption, match="after must be"):
        soft_timeout(0)
