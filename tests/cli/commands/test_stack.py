"""`rowcall stack`: where the handler of a running job is, as text and as JSON."""

from __future__ import annotations

import json
import threading

from rowcall import Rowcall
from tests.cli.conftest import Run
from tests.support import eventually


def test_a_running_handler_and_one_that_does_not_run(run: Run, queue: Rowcall) -> None:
    go_on = threading.Event()

    @queue.task
    def held() -> None:
        go_on.wait()

    with queue.worker() as worker:
        job = held.enqueue()
        eventually(lambda: queue.get(job).started_at is not None)
        shown = run("stack", "app:jobs", str(job.id)).stdout.splitlines()
        found = json.loads(run("stack", "app:jobs", str(job.id), "--json").stdout)
        go_on.set()
        eventually(lambda: queue.get(job).status == "succeeded")
    assert shown[0].startswith(f"job {job.id} held attempt 1 on {worker.name}, started ")
    assert shown[1] == f'  File "{__file__}", line {held.__wrapped__.__code__.co_firstlineno + 2}, in held'
    assert shown[2] == "    go_on.wait()"
    assert (found["job_id"], found["worker"], found["frames"][0]["function"]) == (job.id, worker.name, "held")
    ended = run("stack", "app:jobs", str(job.id))
    assert ended.exit_code == 1
    assert "it is succeeded, not running" in ended.stderr
    assert run("stack", "app:jobs", "1", "2").exit_code == 2
