"""A result that the database refuses: what the database says of it is scrubbed like the rest."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from rowcall import Rowcall
from tests.connected import connected


def drained(jobs: Rowcall) -> str | None:
    @jobs.task
    def answer() -> int:
        return 42

    job = answer.enqueue()
    assert jobs.drain().failed == 1
    settled = jobs.get(job.id)
    assert settled.error_code == "INVALID_OUTPUT:NOT_STORABLE"
    return settled.error_detail


def hide(text: str) -> str:
    return text.replace("hunter2", "***")


def test_by_a_file(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", scrub=hide) as jobs:
        jobs.migrate()
        with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
            connection.execute(
                "create trigger refuse before update of result on rowcall_job when new.result is not null"
                " begin select raise(abort, 'not with hunter2'); end"
            )
        detail = drained(jobs)
    assert detail is not None
    assert "not with ***" in detail


def test_by_a_server(postgres_url: str) -> None:
    with Rowcall(postgres_url, scrub=hide) as jobs:
        jobs.migrate()
        with connected(postgres_url) as connection:
            connection.execute("alter table rowcall_job add constraint with_hunter2 check (result is null)")
        detail = drained(jobs)
    assert detail is not None
    assert "with_***" in detail
    assert "hunter2" not in detail
