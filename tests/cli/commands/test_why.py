"""`why`: the sentence, and the command that helps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime

import pytest

from rowcall import Rowcall
from tests.cli.conftest import Run


def test_why_names_the_command_that_helps(run: Run, queue: Rowcall) -> None:
    failed = queue.enqueue("broken", max_attempts=1)
    queue.fail(queue.claim("worker-1", limit=1)[0], "TIMEOUT:UPSTREAM_API")
    waiting, later = queue.enqueue("hello", queue="mail"), queue.enqueue("hello", delay=3600)
    blocked = queue.enqueue("hello", after=[waiting])
    expected = {
        failed.id: ("it failed", f"rowcall show app:jobs {failed.id}"),
        waiting.id: ("no worker is alive", "rowcall work app:jobs"),
        later.id: ("it is due at", f"rowcall reschedule app:jobs {later.id} --delay 0"),
        blocked.id: (f"it waits for job {waiting.id}", f"rowcall show app:jobs {waiting.id}"),
    }
    for job_id, (sentence, command) in expected.items():
        heading, said, helps = run("why", "app:jobs", str(job_id)).stdout.splitlines()
        assert heading.startswith(f"job {job_id}  ")
        assert said.startswith(sentence)
        assert helps == f"→ {command}"
    queue.pause("mail")
    assert "rowcall resume app:jobs mail" in run("why", "app:jobs", str(waiting.id)).stdout
    assert json.loads(run("why", "app:jobs", str(waiting.id), "--json").stdout)["reason"] == "paused"


def test_a_job_that_is_not_there(run: Run, queue: Rowcall) -> None:
    queue.enqueue("hello")
    assert run("why", "app:jobs", "99").exit_code == 1
    assert run("why", "app:jobs", "1", "2").exit_code == 2


@pytest.mark.parametrize("words", [("why", "app:jobs", "1"), ("show", "app:jobs", "1"), ("top", "app:jobs")])
def test_local_times(queue: Rowcall, words: tuple[str, ...]) -> None:
    queue.enqueue("hello", run_at=datetime.fromisoformat("2100-01-01T12:00:00+00:00"))
    command = [sys.executable, "-m", "rowcall", *words, "--local"]  # a new interpreter reads $TZ
    env = {**os.environ, "TZ": "Asia/Tokyo"}
    local = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert "UTC" not in local
    assert "JST" in local
    assert ("2100-01-01 21:00:00" in local) == (words[0] != "top")
