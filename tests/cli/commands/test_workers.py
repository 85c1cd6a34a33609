from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from rowcall import Rowcall
from tests.cli.conftest import Run
from tests.support import ForkedProcess, eventually

SLOW = """
import threading
from app import jobs

@jobs.task
def endless() -> None:
    threading.Event().wait()
"""


def test_workers_are_listed(run: Run, queue: Rowcall) -> None:
    assert run("workers", "app:jobs").stdout.startswith("no workers")
    assert json.loads(run("workers", "app:jobs", "--json").stdout) == {"workers": []}
    with queue.worker(concurrency=3, queues="mail=2") as worker:
        [shown] = json.loads(run("workers", "app:jobs", "--json").stdout)["workers"]
        assert (shown["name"], shown["concurrency"], shown["queues"]) == (worker.name, 3, "mail=2")
        assert (shown["state"], shown["lease_seconds"]) == ("alive", 15.0)
        [_, _, row] = run("workers", "app:jobs").stdout.splitlines()
        assert row.split()[:7] == [worker.name, str(os.getpid()), "alive", "mail=2", "0", "3", "0"]
        assert "1 worker, running 0 of 3" in run("top", "app:jobs", "--once").stdout


def test_no_workers_is_said_with_the_command_that_starts_one(run: Run, queue: Rowcall) -> None:
    said = run("workers", "app:Holder.inner").stdout
    assert said == "no workers; start one with: rowcall work app:Holder.inner\n"


def test_a_worker_that_was_killed_is_gone(run: Run, queue: Rowcall, folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW)
    job = queue.enqueue("endless")
    with ForkedProcess("-m", "rowcall", "work", "slow:jobs", cwd=str(folder)) as process:
        eventually(lambda: queue.get(job.id).status == "running")
        assert run("jobs", "app:jobs").stdout.rstrip().endswith(f"on {queue.get(job.id).worker}")
        process.kill()
    [worker] = json.loads(run("workers", "app:jobs", "--json").stdout)["workers"]
    assert worker["state"] == "gone"
    assert " gone " in run("workers", "app:jobs").stdout
    assert run("jobs", "app:jobs").stdout.rstrip().endswith(f"on {worker['name']} (gone)")


def test_a_worker_without_a_heartbeat_for_its_lease_is_silent(run: Run, queue: Rowcall, folder: Path) -> None:
    with queue.worker(lease=3600), closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as raw:
        raw.execute("update rowcall_worker set heartbeat_at = heartbeat_at - 7200000")
        assert "silent for 2 h" in run("workers", "app:jobs").stdout
        raw.execute("update rowcall_worker set heartbeat_at = heartbeat_at - 7200000")
        [worker] = json.loads(run("workers", "app:jobs", "--json").stdout)["workers"]
        assert worker["state"] == "silent"
