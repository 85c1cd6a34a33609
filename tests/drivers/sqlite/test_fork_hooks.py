"""A fork next to open SQLite connections; tests/drivers/test_forking.py forks next to busy threads."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import ForkedProcess

FORK_AFTER_OPENING = """
import os, sys
from rowcall import Rowcall
jobs = Rowcall(f"sqlite:///{sys.argv[1]}")

@jobs.task
def task() -> None: ...

jobs.enqueue("before")
assert [job.type for job in jobs.list().jobs] == ["before"]
child = os.fork()
if child == 0:
    inherited = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if int(name) > 2
                 and os.path.lexists(f"/proc/self/fd/{name}")]
    assert not [file for file in inherited if "-rowcall/" in file], inherited  # locks stay with the parent
for number in range(50):
    job = jobs.enqueue("child" if child == 0 else "parent", {"number": number})
    assert jobs.get(job.id).payload == {"number": number}
if child == 0:
    task.enqueue()
    assert jobs.drain().succeeded == 1
    jobs.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child failed"
jobs.enqueue("after")
jobs.close()
print("done", flush=True)
"""


FORK_AND_ASYNC = """
import asyncio, os, sys
from rowcall import Rowcall
jobs = Rowcall(f"sqlite:///{sys.argv[1]}")
asyncio.run(jobs.aenqueue("before"))
child = os.fork()
asyncio.run(jobs.aenqueue("child" if child == 0 else "parent"))
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child failed"
print("done", flush=True)
"""


def types_in(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return dict(connection.execute("select type, count(*) from rowcall_job group by type").fetchall())


@pytest.mark.concurrency
@pytest.mark.parametrize("program", [FORK_AFTER_OPENING, FORK_AND_ASYNC])
def test_a_fork_after_opening_harms_neither_side(tmp_path: Path, program: str) -> None:
    path = tmp_path / "app.db"
    with ForkedProcess("-W", "ignore::DeprecationWarning", "-c", program, str(path)) as process:
        assert process.wait() == 0, process.output
        assert "done\n" in process.output
    each = 50 if program is FORK_AFTER_OPENING else 1
    written = types_in(path)
    assert (written["before"], written["child"], written["parent"]) == (1, each, each)
