from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.cli.load import load
from tests.cli.answers import answer_of, rows_of
from tests.cli.conftest import Run

on_both = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


@on_both
def test_stuck_says_who_has_what_for_how_long(run: Run, troubled: Rowcall) -> None:
    [job] = answer_of(run, "stuck", "app:jobs")["jobs"]
    assert (job["type"], job["queue"], job["worker"]) == ("hello", "slow", "by-hand")
    assert list(job)[-4:] == ["silent_for", "host", "worker_silent_for", "worker_state"]
    assert (job["host"], job["worker_silent_for"], job["worker_state"]) == (None, None, None)
    assert 0 <= job["silent_for"] < 60
    [head, _, row] = rows_of(run, "stuck", "app:jobs")
    assert " ".join(head) == "id type queue attempt silent for running for worker host worker seen progress"
    assert row[:4] == [str(job["id"]), "hello", "slow", "1/5"]
    assert row[-3:] == ["by-hand", "not", "registered"]


def test_stuck_begins_with_the_longest_silence(run: Run, queue: Rowcall, folder: Path) -> None:
    for _ in range(3):
        queue.enqueue("hello")
    claimed = queue.claim("worker-1", limit=3)
    with closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as raw:
        raw.execute("update rowcall_job set created_at = created_at - 7500000")
        raw.execute(
            "update rowcall_claim set claimed_at = claimed_at - 7500000, started_at = started_at - 7500000,"
            " progress = 0.4, progress_message = 'row 40' where job_id = ?",
            (claimed[1].id,),
        )
    shown = answer_of(run, "stuck", "app:jobs", "--limit", "2")["jobs"]
    assert [job["id"] for job in shown] == [claimed[1].id, claimed[0].id]
    assert (shown[0]["progress"], shown[0]["progress_message"]) == (0.4, "row 40")
    assert shown[0]["silent_for"] > 7500
    row = rows_of(run, "stuck", "app:jobs")[2]
    assert " ".join(row).startswith(f"{claimed[1].id} hello default 1/5 2 h 5 min 2 h 5 min worker-1")
    assert row[-3:] == ["40%", "row", "40"]


def test_a_silent_worker_is_shown_next_to_its_job(run: Run, queue: Rowcall, folder: Path) -> None:
    jobs = load("app:jobs")
    job = jobs.enqueue("hello", {"name": "Ann"})
    with (
        jobs.worker(queues="nothing-else", lease=3600) as worker,
        closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as raw,
    ):
        raw.execute("update rowcall_worker set heartbeat_at = heartbeat_at - 9000000")
        raw.execute("delete from rowcall_ready")
        raw.execute(
            "insert into rowcall_claim (job_id, lease, holder, attempt, worker, claimed_at)"
            " select id, 1, 7, 1, ?, run_at from rowcall_job",
            (worker.name,),
        )
        [shown] = answer_of(run, "stuck", "app:jobs")["jobs"]
        assert (shown["id"], shown["worker_state"]) == (job.id, "silent")
        assert shown["worker_silent_for"] > 9000
        assert shown["host"]
        assert "2 h 30 min ago (silent)" in run("stuck", "app:jobs").stdout
        raw.execute("delete from rowcall_claim")
    jobs.close()
