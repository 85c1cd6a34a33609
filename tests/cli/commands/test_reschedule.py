from __future__ import annotations

import json

from rowcall import Rowcall
from tests.cli.conftest import Run


def test_reschedule_and_set_priority(run: Run, queue: Rowcall) -> None:
    job = queue.enqueue("hello")
    result = run("reschedule", "app:jobs", str(job.id), "--run-at", "2030-01-02T09:00+01:00")
    assert result.stdout == f"job {job.id} is scheduled for 2030-01-02 08:00:00.000 UTC\n"
    result = run("set-priority", "app:jobs", str(job.id), "99", "--priority", "-5", "--json")
    assert result.exit_code == 1
    assert [one["ok"] for one in json.loads(result.stdout)["jobs"]] == [True, False]
    assert (queue.get(job.id).priority, queue.get(job.id).status) == (-5, "scheduled")
