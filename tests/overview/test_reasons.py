from __future__ import annotations

from pathlib import Path

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.overview.reasons import why_each


def test_a_page_of_jobs_is_explained_at_once(tmp_path: Path) -> None:
    with Rowcall(f"sqlite:///{tmp_path}/queue.db") as jobs:
        first, later = jobs.enqueue("send"), jobs.enqueue("send", delay=60)
        after = jobs.enqueue("send", after=first)
        found = queue_of(jobs).run(why_each(queue_of(jobs), jobs.list().jobs))
        assert {job_id: why.reason for job_id, why in found.items()} == {
            after.id: "blocked",
            later.id: "scheduled",
            first.id: "no worker",
        }
        assert found[after.id] == jobs.why(after)
