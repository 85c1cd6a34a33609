from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Context, JobFailed, Rowcall


def test_values_that_the_database_refuses_hold_up_no_other_job(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with Rowcall(path) as jobs:
        read = threading.Event()

        @jobs.task(max_attempts=1)
        def tell(ctx: Context, word: str) -> bool:
            ctx.stream(word)
            return read.wait(20)

        jobs.migrate()
        with closing(sqlite3.connect(path)) as mine:
            mine.execute(
                "create trigger refuse before insert on rowcall_stream when new.value like '%bad%'"
                " begin select raise(abort, 'not this one'); end"
            )
        bad, good = tell.enqueue("bad"), tell.enqueue("good")
        with jobs.worker(concurrency=2):
            reader = jobs.stream(good)
            assert next(reader) == "good"  # while both still run
            read.set()
            assert jobs.result(good, timeout=20) is True
            assert list(reader) == []
            with pytest.raises(JobFailed, match="INVALID_OUTPUT:NOT_STORABLE"):
                jobs.result(bad, timeout=20)
