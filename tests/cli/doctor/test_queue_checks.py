"""What the doctor says of the jobs, the workers and the version of the tables, on any database."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from rowcall import Limit, Rowcall
from rowcall.cli.doctor import sqlite_tables
from rowcall.store.sqlite.schema import NEWEST_VERSION
from tests.cli.conftest import Examine, Run, change
from tests.support import ForkedProcess, eventually


def test_tables_of_a_newer_version(queue: Rowcall, folder: Path, examine: Examine) -> None:
    change(folder, "insert into rowcall_migration (version, name, applied_at) values (99, 'later', 1)")
    found = examine()
    assert (found.exit_code, found.level["tables"]) == (1, "problem")
    assert "newer than this code" in found.what["tables"]
    change(folder, "update rowcall_migration set oldest = 1 where version = 99")
    found = examine()
    assert (found.exit_code, found.level["tables"]) == (0, "ok")
    assert found.what["tables"].startswith("version 99, newer than this code")


def test_tables_of_an_unreleased_version(queue: Rowcall, folder: Path, examine: Examine, run: Run) -> None:
    change(folder, "update rowcall_migration set fingerprint = 'other'")
    found = examine()
    assert (found.exit_code, found.level["tables"]) == (1, "problem")
    assert "made by an unreleased version" in found.what["tables"]
    assert "drop all tables" in found.advice["tables"]


def test_a_table_that_is_missing(queue: Rowcall, folder: Path, examine: Examine) -> None:
    change(folder, "drop table rowcall_event")
    found = examine()
    assert (found.exit_code, found.level["tables"]) == (1, "problem")
    assert found.what["tables"] == f"version {NEWEST_VERSION}, but rowcall_event is missing"
    assert found.advice["tables"].startswith("Restore what is missing from a backup")
    assert "database" not in found.level


def test_tables_of_an_older_version(
    queue: Rowcall, folder: Path, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_tables, "NEWEST_VERSION", 99)
    assert examine().advice["tables"] == "Update them with: rowcall migrate app:jobs"


AGE_JOBS = "update rowcall_job set run_at = run_at - {0}, created_at = created_at - {0}"


def test_jobs_without_a_worker(queue: Rowcall, folder: Path, examine: Examine) -> None:
    assert examine().what["waiting"] == "no due jobs are waiting"
    assert examine().what["attention"] == "nothing needs attention"
    queue.enqueue("hello")
    queue.enqueue("hello", delay=7200)
    found = examine()
    assert (found.exit_code, found.level["waiting"], found.level["attention"]) == (0, "ok", "ok")
    assert found.what["waiting"].startswith("1 due job has been waiting for ")
    change(folder, AGE_JOBS.format(3_600_000))
    found = examine()
    assert (found.exit_code, found.level["no_worker"]) == (1, "problem")
    assert found.what["no_worker"] == "no worker is alive: 1 job has been due for 1 h"
    assert found.advice["no_worker"] == "Start a worker: rowcall work app:jobs"


def test_a_queue_that_no_living_worker_serves(queue: Rowcall, folder: Path, examine: Examine) -> None:
    queue.enqueue("hello", queue="mail")
    queue.enqueue("hello", queue="odd=1,name")
    change(folder, AGE_JOBS.format(60_000))
    with queue.worker(queues={"mails": 2, "odd=1,name": None}):
        found = examine()
        assert (found.exit_code, found.level["queue_unserved"]) == (1, "problem")
        assert found.what["queue_unserved"] == "no worker serves queue mail: 1 job has been due for 1 min"
        assert (
            "rowcall work app:jobs --queues mail; the workers that are alive serve mails=2,odd=1,name"
            in (found.advice["queue_unserved"])
        )
        with queue.worker(queues="mail"):
            assert "queue_unserved" not in examine().level


def test_tasks_that_the_app_does_not_declare(queue: Rowcall, folder: Path, examine: Examine) -> None:
    for kind in ("hello", "hello", "helo", "helo"):
        queue.enqueue(kind)
    assert "tasks" not in examine().level
    change(folder, "update rowcall_job set unfit = '0123abcd' where id % 2 = 0")  # as if a worker had refused them
    change(folder, AGE_JOBS.format(20_000))
    found = examine()
    assert (found.exit_code, found.level["tasks"]) == (0, "warn")
    assert found.what["tasks"] == "app:jobs declares no task for helo (2 waiting)"
    insert = "insert into rowcall_worker (name, host, pid, queues, concurrency, version, started_at, heartbeat_at"
    change(
        folder,
        f"""{insert}, lease_ms, tasks) values ('w', 'elsewhere', 1, 'other', 1, '0', 0,
        strftime('%s', 'now') * 1000, 60000, '{{"helo": ""}}')""",
    )
    assert "tasks" not in examine().level  # a worker of another app runs them
    assert "tasks" not in examine("--url", "sqlite:///queue.db").level


def test_a_worker_that_died(queue: Rowcall, folder: Path, examine: Examine) -> None:
    with ForkedProcess("-m", "rowcall", "work", "app:jobs", cwd=str(folder)) as process:
        [worker] = eventually(queue.workers)
        process.send(signal.SIGKILL)
        process.wait()
    queue.enqueue("hello")
    found = examine()
    assert found.level["workers"] == "warn"
    assert found.what["workers"] == f"{worker.name} died while it held 0 jobs"
    change(
        folder,
        "insert into rowcall_claim (job_id, lease, holder, attempt, worker, claimed_at)"
        f" select id, 1, 7, 1, '{worker.name}', run_at from rowcall_job",
    )
    change(folder, "delete from rowcall_ready")
    found = examine()
    assert found.what["workers"] == f"{worker.name} died while it held 1 job"
    assert found.what["waiting"] == "no due jobs are waiting"


def test_a_worker_that_is_silent(queue: Rowcall, folder: Path, examine: Examine) -> None:
    with queue.worker(lease=3600) as worker:
        change(folder, "update rowcall_worker set heartbeat_at = heartbeat_at - 7200000")
        assert examine().what["workers"] == f"{worker.name} sent its last heartbeat 2 h ago, and holds 0 jobs"


def test_a_slot_of_a_handler_that_still_runs(queue: Rowcall, examine: Examine) -> None:
    began, let_go = threading.Event(), threading.Event()

    @queue.task(
        limit=Limit("stripe", concurrency=1), timeout=0.5, max_attempts=1
    )  # long enough to begin, also on busy cores
    def charge() -> None:
        began.set()
        assert let_go.wait(30)

    job = charge.enqueue()
    with queue.worker(concurrency=2) as worker:
        eventually(lambda: queue.get(job.id).status == "failed")
        said = f"the handler of job {job.id} still runs in {worker.name} after its attempt ended"
        assert examine().what["limits"] == f'{said}, and keeps a slot of ["stripe"]'
        let_go.set()
        eventually(lambda: "limits" not in examine().level)


def test_a_job_from_the_future(queue: Rowcall, folder: Path, examine: Examine) -> None:
    queue.enqueue("hello")
    change(folder, "update rowcall_job set created_at = created_at + 3600000")
    found = examine()
    assert (found.exit_code, found.level["clock"]) == (0, "warn")
    assert "1 h in the future" in found.what["clock"]


def test_jobs_that_fit_no_worker(examine: Examine, run: Run, queue: Rowcall, folder: Path) -> None:
    queue.enqueue("hello", {"name": "ann", "loud": True})

    @queue.task
    def hello(name: str) -> None: ...

    with queue.worker():
        eventually(lambda: queue.get(1).error_code)
        change(folder, AGE_JOBS.format(60_000), "update rowcall_tally set at = at - 60000")
        said = examine().what["arguments_refused"]
        assert said.startswith("no worker of queue default accepts jobs of task hello: 1 job has been due for")
        assert said.endswith("; unexpected argument 'loud'")
        assert "no worker accepts it: unexpected argument 'loud'" in run("jobs", "app:jobs").stdout
    shown = run("show", "app:jobs", "1").stdout
    assert "unexpected argument 'loud'" in shown
    assert "HELD" in shown
