"""A process that has the queue open forks: neither side harms the other's connections."""

from __future__ import annotations

import pytest

from rowcall.testing.process import ForkedProcess
from tests.postgres.support import ask

pytestmark = pytest.mark.concurrency

PROLOGUE = """
import asyncio, os, sys, threading
from rowcall import Rowcall
jobs = Rowcall(sys.argv[1])

@jobs.task
def task(number: int) -> int:
    return number

def join(child):
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child failed"
"""

BOTH_AT_ONCE = """
task.enqueue(1)
jobs.stats()
child = os.fork()
for number in range(2, 100):
    task.enqueue(number if child == 0 else -number)
    assert jobs.get(1).payload == {"number": 1}
if child == 0:
    sys.exit(0)  # runs what is registered for the end: the parent's connections must outlive it
join(child)
assert jobs.get(1).payload == {"number": 1}
assert jobs.drain().succeeded == 197
"""

BESIDE_A_WORKER = """
with jobs.worker(concurrency=2):
    task.enqueue(1)
    child = os.fork()
    if child == 0:
        task.enqueue(2)
        sys.exit(0)  # leaves the with block, and with it a worker that is not its own
    join(child)
    task.enqueue(3)
    while any(job.status != "succeeded" for job in jobs.list().jobs):
        threading.Event().wait(0.005)
    assert len(jobs.workers()) == 1
assert jobs.workers() == []
"""

IN_THE_MIDDLE_OF_A_CALL = """
task.enqueue(1)
stop = threading.Event()

def read_on():
    while not stop.is_set():
        jobs.stats()
        jobs.claim("worker", queues=["empty"])

threads = [threading.Thread(target=read_on) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        task.enqueue(2)
        os._exit(0)
    join(child)
stop.set()
for thread in threads:
    thread.join()
assert jobs.drain().succeeded == 11
"""

A_POOL_OF_PROCESSES = """
import multiprocessing
task.enqueue(1)

def enqueue(number):
    return task.enqueue(number).id

with multiprocessing.get_context("fork").Pool(2) as pool:
    assert len(set(pool.map(enqueue, range(2, 22)))) == 20
assert jobs.drain().succeeded == 21
"""

ASYNC_IN_BOTH = """
async def enqueue_some(first):
    await asyncio.gather(*(task.aenqueue(number) for number in range(first, first + 20)))

asyncio.run(enqueue_some(0))
child = os.fork()
asyncio.run(enqueue_some(100 if child == 0 else 200))
if child == 0:
    jobs.close()
    os._exit(0)
join(child)
assert jobs.drain().succeeded == 60
"""

PARENT_CLOSES_FIRST = """
task.enqueue(1)
child_wrote, parent_closed = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    task.enqueue(2)
    os.write(child_wrote[1], b"!")
    os.read(parent_closed[0], 1)
    task.enqueue(3)
    os._exit(0)
os.read(child_wrote[0], 1)
jobs.close()
os.write(parent_closed[1], b"!")
join(child)
assert jobs.drain().succeeded == 3
"""

LEAVES_WITHOUT_A_WORD = """
task.enqueue(1)
task.enqueue_many([{"number": 2}])
asyncio.run(task.aenqueue(3))
jobs.stats()
print("still here", flush=True)
"""

LEAVES_BY_AN_ERROR = """
asyncio.run(task.aenqueue(1))
jobs.stats()
raise SystemExit(7)
"""

LEAVES_A_WORKER_BEHIND = """
jobs.worker().start()
task.enqueue(1)
while jobs.get(1).status != "succeeded":
    threading.Event().wait(0.005)
"""


def run(program: str, url: str, *, ends_with: int = 0) -> str:
    with ForkedProcess("-W", "ignore::DeprecationWarning", "-c", PROLOGUE + program, url) as process:
        assert process.wait(within=20) == ends_with, process.output
        return process.output


@pytest.mark.parametrize(
    "program",
    [BOTH_AT_ONCE, BESIDE_A_WORKER, IN_THE_MIDDLE_OF_A_CALL, A_POOL_OF_PROCESSES, ASYNC_IN_BOTH, PARENT_CLOSES_FIRST],
    ids=["both at once", "next to a worker", "in mid-call", "multiprocessing", "async", "parent closes first"],
)
def test_parent_and_child_continue(postgres_url: str, program: str) -> None:
    assert run(program, postgres_url) == ""
    assert ask(postgres_url, "select distinct status, attempt from rowcall_job") == [("succeeded", 1)]
    assert ask(postgres_url, "select from rowcall_worker") == []


def test_a_script_that_does_not_close_ends_without_a_word(postgres_url: str) -> None:
    assert run(LEAVES_WITHOUT_A_WORD, postgres_url) == "still here\n"
    assert ask(postgres_url, "select count(*) from rowcall_job") == [(3,)]
    assert run(LEAVES_BY_AN_ERROR, postgres_url, ends_with=7) == ""
    assert run(LEAVES_A_WORKER_BEHIND, postgres_url) == ""
