"""A fork after opening, in the places where programs really fork."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import ForkedProcess

PROLOGUE = """
import os, sys, threading
from rowcall import Rowcall
jobs = Rowcall(f"sqlite:///{sys.argv[1]}")

@jobs.task
def task(number: int) -> int:
    return number

def join(child):
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child failed"
"""

BESIDE_A_WORKER = """
with jobs.worker(concurrency=2):
    first = task.enqueue(1)
    child = os.fork()
    if child == 0:
        task.enqueue(2)
        sys.exit(0)  # leaves the with block, and with it a worker that is not its own
    join(child)
    third = task.enqueue(3)
    while any(job.status != "succeeded" for job in jobs.list().jobs):
        threading.Event().wait(0.005)
    assert len(jobs.workers()) == 1
assert jobs.workers() == []
"""

INSIDE_A_TRANSACTION = """
task.enqueue(1)
from rowcall.app import queue_of
with queue_of(jobs).database.connect().transaction():
    child = os.fork()
    if child == 0:
        print("reads", jobs.get(1).payload, flush=True)
        os._exit(0)
    join(child)
task.enqueue(2)
task.enqueue(3)
jobs.drain()
"""

PRE_FORK_SERVER = """
task.enqueue(1)
children = []
for number in (2, 3):
    child = os.fork()
    if child == 0:
        with jobs:
            task.enqueue(number)
        sys.exit(0)
    children.append(child)
for child in children:
    join(child)
assert jobs.drain().succeeded == 3
"""

PARENT_CLOSES_FIRST = """
task.enqueue(1)
child_wrote, parent_closed = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    task.enqueue(2)
    os.write(child_wrote[1], b"!")
    os.read(parent_closed[0], 1)
    task.enqueue(3)  # the log must not have been taken away by the parent's last close
    os._exit(0)
os.read(child_wrote[0], 1)
jobs.close()
os.write(parent_closed[1], b"!")
join(child)
assert jobs.drain().succeeded == 3
"""

MULTIPROCESSING = """
import multiprocessing
task.enqueue(1)

def enqueue(number):
    return task.enqueue(number).id

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert sorted(pool.map(enqueue, [2, 3])) == [2, 3]
    assert jobs.drain().succeeded == 3
"""

IN_A_HANDLER = """
@jobs.task
def forks(number: int) -> int:
    child = os.fork()
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    return number

jobs.enqueue("forks", {"number": 1})
task.enqueue(2)
task.enqueue(3)
assert jobs.drain().succeeded == 3
"""


@pytest.mark.concurrency
@pytest.mark.parametrize(
    "program",
    [BESIDE_A_WORKER, INSIDE_A_TRANSACTION, PRE_FORK_SERVER, PARENT_CLOSES_FIRST, MULTIPROCESSING, IN_A_HANDLER],
    ids=[
        *("next to a worker", "inside a transaction", "pre-fork server", "parent closes first", "multiprocessing"),
        "in a handler",
    ],
)
def test_parent_and_child_continue(tmp_path: Path, program: str) -> None:
    path = tmp_path / "app.db"
    arguments = ("-W", "ignore::DeprecationWarning", "-c", PROLOGUE + program, str(path))
    with ForkedProcess(*arguments) as process:
        assert process.wait(within=20) == 0, process.output
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        rows = connection.execute("select payload, status, result from rowcall_job order by payload").fetchall()
    assert rows == [(f'{{"number":{number}}}', "succeeded", str(number)) for number in (1, 2, 3)]
