"""The file by which others learn that a worker is dead, and what it had begun."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from rowcall.testing.process import PythonProcess
from rowcall.worker import ledger
from rowcall.worker.ledger import NO_PLACE, PAIRS, Ledger, cannot_be_kept

HOLD = """
import signal, sys
from rowcall.worker.ledger import Ledger
held = Ledger(sys.argv[1], "worker-x")
held.mark_started(7, 3, 12.5)
print("held", flush=True)
signal.pause()
"""


def test_a_living_owner_is_not_dead(tmp_path: Path) -> None:
    held = Ledger(str(tmp_path), "worker-x")
    assert not ledger.is_dead(held.path)
    held.close()
    assert not os.path.exists(held.path)
    assert not ledger.is_dead(held.path)  # gone in order, not dead
    assert ledger.started_jobs(held.path) is None


def test_what_a_killed_owner_had_begun_can_be_read(tmp_path: Path) -> None:
    path = str(tmp_path / "worker-x")
    with PythonProcess("-c", HOLD, str(tmp_path)) as process:
        process.wait_for("held")
        assert not ledger.is_dead(path)
        process.send(signal.SIGSTOP)
        assert not ledger.is_dead(path)
        process.kill()
        assert ledger.is_dead(path)
        assert ledger.started_jobs(path) == {(7, 3): 12.5}
    ledger.remove(path)
    assert not os.path.exists(path)
    ledger.remove(path)


def test_a_place_is_kept_until_it_is_freed(tmp_path: Path) -> None:
    held = Ledger(str(tmp_path), "worker-x")
    slow = held.mark_started(1, 1)
    places = [held.mark_started(number, 1) for number in range(2, PAIRS + 1)]
    assert held.mark_started(PAIRS + 1, 1) == NO_PLACE
    held.free(places)
    for number in range(PAIRS + 1, 3 * PAIRS):
        held.free([held.mark_started(number, 1)])
    found = ledger.started_jobs(held.path)
    assert found is not None
    assert (1, 1) in found
    assert (3 * PAIRS - 1, 1) in found
    held.free([slow, NO_PLACE])
    held.close()
    assert held.mark_started(1, 2) == NO_PLACE


def test_what_was_written_before_the_machine_started_anew_says_nothing(tmp_path: Path) -> None:
    held = Ledger(str(tmp_path), "worker-x")
    held.mark_started(7, 3)
    with open(held.path, "r+b") as file:
        file.write(b"another boot id.")
    assert ledger.started_jobs(held.path) is None
    held.close()


def test_nothing_is_known_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    for path in (missing, None):
        assert not ledger.is_dead(path)
        assert ledger.started_jobs(path) is None
        ledger.remove(path)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "{} cannot be written by this user, and a worker keeps a file there while it lives. It belongs"),
        (errno.EROFS, "is its file system read-only?"),
        (errno.ENOSPC, "{}: the disk is full, and a worker keeps a file of 192 KB there. Free some space"),
        (errno.EMFILE, "{}: a worker cannot keep a file there (Too many open files). It must be a folder"),
    ],
)
def test_why_it_cannot_be_kept(tmp_path: Path, number: int, said: str) -> None:
    assert said.format(tmp_path) in str(cannot_be_kept(str(tmp_path), OSError(number, os.strerror(number))))
