from __future__ import annotations

import re
import signal
from pathlib import Path

import httpx
import pytest

from rowcall import Rowcall
from tests.cli.conftest import Run
from tests.support import ForkedProcess, eventually

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/")


@pytest.mark.slow
def test_the_dashboard_is_served_until_a_signal(queue: Rowcall, folder: Path) -> None:
    queue.enqueue("hello", {"name": "Ann"})
    with ForkedProcess("-m", "rowcall", "dashboard", "app:jobs", "--port=0", cwd=str(folder)) as server:
        found = eventually(lambda: ADDRESS.search(server.output))
        assert found is not None
        assert httpx.get(f"{found[0]}api/jobs").json()["jobs"][0]["type"] == "hello"
        server.send(signal.SIGINT)
        server.wait()


def test_other_addresses_need_a_token(run: Run, queue: Rowcall) -> None:
    queue.migrate()
    answer = run("dashboard", "app:jobs", "--host=0.0.0.0")
    assert answer.exit_code == 2
    assert "can be reached from elsewhere: set $ROWCALL_DASHBOARD_TOKEN" in answer.output


def test_a_short_token_is_refused(run: Run, queue: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.migrate()
    monkeypatch.setenv("ROWCALL_DASHBOARD_TOKEN", "short")
    assert "token must be a secret of 16 or more" in run("dashboard", "app:jobs", "--host=0.0.0.0").output
