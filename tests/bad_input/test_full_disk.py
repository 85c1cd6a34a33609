"""A full disk: the call fails with words that help, nothing is half-written, and it works again once there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import PythonProcess

# a separate file system where the kernel allows that (its own mount namespace ends with the process), else a limit
FILL_THE_DISK = """
import ctypes, os, resource, sys
from rowcall import Rowcall, StoreUnavailable

CLONE_NEWNS, CLONE_NEWUSER, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 0x4000, 0x40000
folder, how = sys.argv[1:]
path = os.path.join(folder, "app.db")
libc = ctypes.CDLL(None, use_errno=True)


def small_file_system():
    namespaces = CLONE_NEWNS if os.getuid() == 0 else CLONE_NEWNS | CLONE_NEWUSER
    return (
        libc.unshare(namespaces) == 0
        and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
        and libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, b"size=3m") == 0
    )


class FileSystem:
    def fill(self):
        with open(os.path.join(folder, "filler"), "wb", buffering=0) as file:
            for block in (65536, 4096):
                try:
                    while True:
                        file.write(bytes(block))
                except OSError:
                    pass

    def make_room(self):
        os.unlink(os.path.join(folder, "filler"))


class Limit:
    def fill(self):
        size = max(os.path.getsize(path + suffix) for suffix in ("", "-wal"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, resource.RLIM_INFINITY))

    def make_room(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


if how == "own WAL":
    if not small_file_system():
        sys.exit(print("no file system"))
    jobs = Rowcall("sqlite:///" + path)
    ids = jobs.task(lambda text: None, name="task").enqueue_many([{"text": "x" * 2000}] * 200)
    jobs.close()  # the file has these pages now: written again, they need room in the WAL only
    jobs = Rowcall("sqlite:///" + path)
    reader = __import__("sqlite3").connect(path)
    reader.execute("begin")
    reader.execute("select count(*) from rowcall_job").fetchone()  # as long as it reads, the WAL grows
    full = None
    while full is None:
        try:
            for job in ids:
                jobs.edit(job, priority=job.id % 7)
        except StoreUnavailable as error:
            full = error
    assert "the disk is full" in str(full), full
    reader.rollback()
    jobs.edit(ids[0], priority=9)
    assert jobs.get(ids[0].id).priority == 9
    jobs.enqueue("after")
    sys.exit(print("emptied"))
disk = FileSystem() if how == "file system" and small_file_system() else Limit()
jobs = Rowcall("sqlite:///" + path)


@jobs.task
def task(text: str = "") -> None: ...


written = [jobs.enqueue("before", {"number": number}).id for number in range(10)]
disk.fill()
errors = []
for _ in range(2000):
    try:
        written.append(task.enqueue("x" * 2000).id)
    except StoreUnavailable as error:
        errors.append(error)
        if len(errors) == 3:
            break
try:
    task.enqueue_many([{"text": "x" * 2000}] * 2000)
except StoreUnavailable as error:
    errors.append(error)
assert len(errors) == 4, errors
if isinstance(disk, FileSystem):
    assert jobs.attention()[0].code == "no_space", jobs.attention()
assert [job.id for job in jobs.list(limit=1000).jobs] == sorted(written, reverse=True), "half-written"
disk.make_room()
written.append(task.enqueue("after").id)
assert sorted(job.id for job in jobs.list(limit=1000).jobs) == sorted(written)
summary = jobs.drain()
assert summary.succeeded == len(written) - 10, summary
jobs.close()
import sqlite3
assert sqlite3.connect(path).execute("pragma integrity_check").fetchall() == [("ok",)]
print(type(disk).__name__)
print(errors[0])
"""


def test_a_disk_that_its_own_wal_has_filled(tmp_path: Path) -> None:
    """A reader kept the WAL from being copied back. Once it has ended, a write makes room, and succeeds."""
    with PythonProcess("-c", FILL_THE_DISK, str(tmp_path), "own WAL") as process:
        assert process.wait() == 0, process.output
        *_, said = process.output.splitlines()
    if said == "no file system":
        pytest.skip("no small file system can be mounted here")
    assert said == "emptied"


@pytest.mark.parametrize("how", ["file system", "limit"])
def test_a_full_disk(tmp_path: Path, how: str) -> None:
    with PythonProcess("-c", FILL_THE_DISK, str(tmp_path), how) as process:
        assert process.wait() == 0, process.output
        kind, error = process.output.splitlines()[-2:]
    if kind == "FileSystem":
        assert error == (
            f"{tmp_path}/app.db: the disk is full. Nothing of this call was written; free some space and call again"
        )
    else:
        assert f"{tmp_path}/app.db: reading or writing failed" in error or "the disk is full" in error
        assert "space" in error
