from __future__ import annotations

from pathlib import Path

from rowcall import Rowcall
from tests.cli.answers import answer_of
from tests.cli.conftest import Run


def test_vacuum_frees_the_space_of_deleted_jobs(run: Run, queue: Rowcall, folder: Path) -> None:
    for job in [queue.enqueue("hello", {"name": "x" * 100_000}) for _ in range(10)]:
        queue.delete(job.id)
    before = answer_of(run, "retention", "app:jobs")["size_bytes"]
    freed = answer_of(run, "vacuum", "app:jobs")
    assert freed["freed_bytes"] > 500_000
    assert freed["size_bytes"] == before - freed["freed_bytes"]
    assert run("vacuum", "app:jobs").stdout.startswith("0 bytes freed; the database is now ")
