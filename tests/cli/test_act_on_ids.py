from __future__ import annotations

import json

import pytest

from rowcall import Rowcall
from tests.cli.conftest import Run


@pytest.mark.parametrize("command", ["delete", "retry"])
def test_a_running_job_is_left_alone_and_what_to_do_is_said(run: Run, queue: Rowcall, command: str) -> None:
    job = queue.enqueue("hello")
    assert queue.claim("worker-1", limit=1)
    result = run(command, "app:jobs", str(job.id))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: job {job.id} is running: wait for it to end, or cancel it first\n"
    told = json.loads(run(command, "app:jobs", str(job.id), "--json").stdout)["jobs"][0]["error"]
    assert f"error: {told}\n" == result.stderr
