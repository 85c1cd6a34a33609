"""The file by which others learn that a worker is dead, and what it had begun."""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path

import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.drivers import liveness_file
from rowcall.drivers.liveness_file import NO_SLOT, PAIRS, LivenessFile, cannot_create
from rowcall.testing import eventually
from rowcall.testing.process import ForkedProcess

HOLD = """
import signal, sys
from rowcall.drivers.liveness_file import LivenessFile
held = LivenessFile(sys.argv[1], "worker-x")
held.mark_started(7, 3, 12.5)
print("held", flush=True)
signal.pause()
"""


FORK_DURING_THE_CHECK = """
import fcntl, os, sys, threading
from rowcall.drivers import liveness_file
read, write = os.pipe()
locked, forked, flock = threading.Event(), threading.Event(), fcntl.flock
def slow_flock(fd, how):
    flock(fd, how)
    locked.set()
    forked.wait(0.3)
fcntl.flock = slow_flock
checking = threading.Thread(target=lambda: print("checked", liveness_file.is_dead(sys.argv[1]), flush=True))
checking.start()
locked.wait()
if os.fork() == 0:
    os.close(write)
    os.read(read, 1)
    os._exit(0)
forked.set()
checking.join()
fcntl.flock = flock
print("after the fork", liveness_file.is_dead(sys.argv[1]), flush=True)
"""


FORK = """
import os, signal, sys, threading
from rowcall.drivers.liveness_file import LivenessFile
held = LivenessFile(sys.argv[1], "worker-x")
read, write = os.pipe()
def grow():
    for _ in range(6):
        held.reserve(os.path.getsize(held.path) // 24)
growing = threading.Thread(target=grow)
growing.start()
for _ in range(10):
    if os.fork() == 0:
        os.close(write)
        os.read(read, 1)  # until the parent dies
        os._exit(0)
growing.join()
print("forked", flush=True)
signal.pause()
"""


def test_a_living_owner_is_not_dead(tmp_path: Path) -> None:
    held = LivenessFile(str(tmp_path), "worker-x")
    assert not liveness_file.is_dead(held.path)
    held.close()
    assert not os.path.exists(held.path)
    assert not liveness_file.is_dead(held.path)  # gone in order, not dead
    assert liveness_file.started_jobs(held.path) is None


def test_what_a_killed_owner_had_begun_can_be_read(tmp_path: Path) -> None:
    path = str(tmp_path / "worker-x")
    with ForkedProcess("-c", HOLD, str(tmp_path)) as process:
        process.wait_for("held")
        assert not liveness_file.is_dead(path)
        process.send(signal.SIGSTOP)
        assert not liveness_file.is_dead(path)
        process.kill()
        assert liveness_file.is_dead(path)
        assert liveness_file.started_jobs(path) == {(7, 3): 12.5}
    liveness_file.remove(path)
    assert not os.path.exists(path)
    liveness_file.remove(path)


def test_a_slot_is_kept_until_it_is_freed(tmp_path: Path) -> None:
    held = LivenessFile(str(tmp_path), "worker-x")
    slow = held.mark_started(1, 1)
    slots = [held.mark_started(number, 1) for number in range(2, PAIRS + 1)]
    assert held.mark_started(PAIRS + 1, 1) == NO_SLOT
    held.free(slots)
    for number in range(PAIRS + 1, 3 * PAIRS):
        held.free([held.mark_started(number, 1)])
    found = liveness_file.started_jobs(held.path)
    assert found is not None
    assert (1, 1) in found
    assert (3 * PAIRS - 1, 1) in found
    held.free([slow, NO_SLOT])
    held.close()
    assert held.mark_started(1, 2) == NO_SLOT


def test_the_file_grows_and_keeps_what_was_written(tmp_path: Path) -> None:
    held = LivenessFile(str(tmp_path), "worker-x")
    first = [held.mark_started(number, 1) for number in range(1, PAIRS + 1)]
    held.reserve(5 * PAIRS)
    more = [held.mark_started(number, 1) for number in range(PAIRS + 1, 6 * PAIRS + 1)]
    assert NO_SLOT not in more
    assert len({*first, *more}) == 6 * PAIRS
    assert set(liveness_file.started_jobs(held.path) or ()) == {(number, 1) for number in range(1, 6 * PAIRS + 1)}
    held.close()


def test_a_thread_that_writes_while_the_file_grows_is_heard(tmp_path: Path) -> None:
    held = LivenessFile(str(tmp_path), "worker-x")

    def mark() -> None:
        for number in range(1, PAIRS + 1):
            assert held.mark_started(number, 1) != NO_SLOT

    thread = threading.Thread(target=mark)
    thread.start()
    for _ in range(6):
        held.reserve(os.path.getsize(held.path) // 24)
    thread.join()
    assert set(liveness_file.started_jobs(held.path) or ()) == {(number, 1) for number in range(1, PAIRS + 1)}
    held.close()


def test_a_child_that_is_forked_during_the_check_does_not_keep_the_lock(tmp_path: Path) -> None:
    (tmp_path / "worker-x").touch()
    with ForkedProcess("-c", FORK_DURING_THE_CHECK, str(tmp_path / "worker-x")) as process:
        process.wait_for("checked True")
        process.wait_for("after the fork True")


def test_a_child_that_is_forked_while_the_file_grows_does_not_keep_the_lock(tmp_path: Path) -> None:
    with ForkedProcess("-c", FORK, str(tmp_path)) as process:
        process.wait_for("forked")
        process.kill()
        assert liveness_file.is_dead(str(tmp_path / "worker-x"))


def test_a_full_disk_keeps_the_file_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = LivenessFile(str(tmp_path), "worker-x")
    fill_the_disk(monkeypatch)
    with pytest.raises(StoreUnavailable, match=r"cannot grow to 384 KB \(No space left on device\)"):
        held.reserve(PAIRS + 1)
    held.reserve(PAIRS)
    assert held.mark_started(7, 3) != NO_SLOT
    assert liveness_file.started_jobs(held.path) == {(7, 3): 0.0}
    held.close()


def test_no_handler_starts_that_cannot_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(liveness_file, "PAIRS", 4)
    monkeypatch.setattr(liveness_file, "_SIZE", 5 * 24)
    calls: list[int] = []
    with Rowcall(tmp_path / "queue.db") as jobs:

        @jobs.task(batch=10, batch_wait=0)
        def take(items: list[int]) -> None:
            calls.append(len(items))

        made = take.enqueue_many([{"item": number} for number in range(10)])
        full = fill_the_disk(monkeypatch)
        with jobs.worker(concurrency=1):
            eventually(lambda: full.refused > 1)
            eventually(lambda: all(jobs.get(job.id).status == "pending" for job in made))
            assert calls == []
            full.freed = True
            eventually(lambda: all(jobs.get(job.id).status == "succeeded" for job in made))
        assert calls == [10]
        assert {jobs.get(job.id).attempt for job in made} == {1}
    assert "cannot grow" in caplog.text


class FullDisk:
    """A file system that has no room for a file to grow, until it is freed."""

    def __init__(self) -> None:
        self.freed = False
        self.refused = 0

    def allocate(self, fd: int, start: int, size: int) -> None:
        if start and not self.freed:
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(fd, start + size)


def fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    disk = FullDisk()
    monkeypatch.setattr(os, "posix_fallocate", disk.allocate)
    return disk


def test_a_file_from_before_a_reboot_says_nothing(tmp_path: Path) -> None:
    held = LivenessFile(str(tmp_path), "worker-x")
    held.mark_started(7, 3)
    with open(held.path, "r+b") as file:
        file.write(b"another boot id.")
    assert liveness_file.started_jobs(held.path) is None
    held.close()


def test_nothing_is_known_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    for path in (missing, None):
        assert not liveness_file.is_dead(path)
        assert liveness_file.started_jobs(path) is None
        liveness_file.remove(path)


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
    assert said.format(tmp_path) in str(cannot_create(str(tmp_path), OSError(number, os.strerror(number))))
