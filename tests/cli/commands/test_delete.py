from __future__ import annotations

import json

from rowcall import Rowcall
from tests.cli.conftest import Run


def test_delete_in_json(run: Run, queue: Rowcall) -> None:
    gone, running = queue.enqueue("hello"), queue.enqueue("hello", priority=1)
    assert [job.id for job in queue.claim("worker-1", limit=1)] == [running.id]
    result = run("delete", "app:jobs", "--json", str(gone.id), str(running.id), "99")
    assert result.exit_code == 1
    outcomes = json.loads(result.stdout)["jobs"]
    assert [(job["id"], job["ok"], job["status"]) for job in outcomes] == [
        (gone.id, True, None),
        (running.id, False, "running"),
        (99, False, None),
    ]
    assert outcomes[0]["error"] is None
    assert outcomes[2]["error"] == "job 99 does not exist"
    assert result.stderr == ""
    assert queue.stats().total == 1
