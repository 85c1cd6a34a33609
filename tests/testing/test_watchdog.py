"""A process and its folders go with the process that owns them."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from rowcall.testing import eventually
from rowcall.testing.process import PythonProcess
from rowcall.testing.watchdog import Watchdog
from tests.testing.support import ask, port_is_closed

OWNER = """
import signal
from rowcall.testing.postgres import PostgresServer

server = PostgresServer()
server.start()
print("started", server.url(), server.data.parent, flush=True)
signal.pause()
"""


@pytest.mark.crash
def test_nothing_is_left_of_a_killed_owner() -> None:
    with PythonProcess("-c", OWNER) as owner:
        owner.wait_for("started ")
        url, folder = owner.output.split()[1:3]
        assert ask(url, "select 1") == [(1,)]
        owner.kill()
    eventually(lambda: not Path(folder).exists())
    assert port_is_closed(url)


def test_a_dismissed_watchdog_leaves_the_process_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        Watchdog(process.pid, by=signal.SIGTERM, remove=[tmp_path]).dismiss()
        assert process.poll() is None
        assert tmp_path.exists()
        process.kill()
