"""The file by which others learn that a worker is dead, and what it had begun."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from rowcall.testing.process import PythonProcess
from rowcall.worker import ledger
from rowcall.worker.ledger import PAIRS, Ledger

HOLD = """
import signal, sys
from rowcall.worker.ledger import Ledger
held = Ledger(sys.argv[1], "worker-x")
held.mark_started(7, 3)
print("held", flush=True)
signal.pause()
"""


def test_a_living_owner_is_not_dead(tmp_path: Path) -> None:
    held = Ledger(str(tmp_path), "worker-x")
    assert not ledger.is_dead(held.path)
    held.close()
    assert not os.path.exists(held.path)
    assert not ledger.is_dead(held.path)  # gone in order, not dead
    assert ledger.started_jobs(held.path) == set()


def test_what_a_killed_owner_had_begun_can_be_read(tmp_path: Path) -> None:
    path = str(tmp_path / "worker-x")
    with PythonProcess("-c", HOLD, str(tmp_path)) as process:
        process.wait_for("held")
        assert not ledger.is_dead(path)
        process.send(signal.SIGSTOP)
        assert not ledger.is_dead(path)
        process.kill()
        assert ledger.is_dead(path)
        assert ledger.started_jobs(path) == {(7, 3)}
    ledger.remove(path)
    assert not os.path.exists(path)
    ledger.remove(path)


def test_the_ring_keeps_the_newest(tmp_path: Path) -> None:
    held = Ledger(str(tmp_path), "worker-x")
    for number in range(1, PAIRS + 11):
        held.mark_started(number, 1)
    found = ledger.started_jobs(held.path)
    assert len(found) == PAIRS
    assert (PAIRS + 10, 1) in found
    assert (10, 1) not in found
    held.close()


def test_nothing_is_known_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    for path in (missing, None):
        assert not ledger.is_dead(path)
        assert ledger.started_jobs(path) == set()
        ledger.remove(path)
