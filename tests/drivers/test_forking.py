"""A process that forks while other threads of it use the queue: both sides continue, whatever the threads are doing."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rowcall.drivers import forking
from tests.support import ForkedProcess

pytestmark = pytest.mark.concurrency

PROLOGUE = """
import multiprocessing, os, sys, threading, traceback
from rowcall import Rowcall
url, forks = sys.argv[1], int(sys.argv[2])
jobs = Rowcall(url, busy_timeout=60)
on_sqlite = url.startswith("sqlite")

@jobs.task
def task(number: int) -> int:
    return number

@jobs.task
def of_child(number: int) -> int:
    return number

def fork(run):
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        run()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)

def join(child):
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child failed"

def count(**filters):
    return len(jobs.list(limit=1000, **filters).jobs)

def wait_until(condition):
    while not condition():
        threading.Event().wait(0.002)

errors = []

class Background(threading.Thread):
    def __init__(self, step):
        super().__init__()
        self.step, self.stop = step, threading.Event()

    def run(self):
        try:
            while not self.stop.is_set():
                self.step()
        except BaseException as error:
            errors.append(error)
            raise

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.join()
        assert not errors, errors

task.enqueue(0)
"""

BESIDE_A_BLOCK_AND_ONE_WHO_WAITS = """
begun, over = threading.Event(), threading.Event()

def block():
    with jobs.transaction():
        jobs.enqueue("in_block")
        begun.set()
        over.wait()
        jobs.enqueue("in_block")
    enqueuer.stop.set()

def wait_for_it():
    begun.wait()
    task.enqueue(2)

from rowcall.app import queue_of
block, enqueuer = threading.Thread(target=block), Background(wait_for_it)
block.start()
begun.wait()
with enqueuer:
    if on_sqlite:
        wait_until(lambda: queue_of(jobs).database._lock.locked())
    released = os.pipe()

    def child():
        assert jobs.get(1).payload == {"number": 0}
        os.close(released[1])
        os.read(released[0], 1)
        of_child.enqueue(3)
        jobs.close()
        of_child.enqueue(3)

    children = [fork(child) for _ in range(forks)]
    os.close(released[1])
    over.set()
    block.join()
    for child in children:
        join(child)
assert count(type="in_block") == 2
assert count(type="of_child") == 2 * forks
"""

BESIDE_CLOSE = """
def open_and_close():
    task.enqueue(1)
    jobs.get(1)
    jobs.close()

with Background(open_and_close):
    for _ in range(forks):
        join(fork(lambda: (of_child.enqueue(2), jobs.get(1), jobs.close())))
assert count(type="of_child") == forks
"""

BESIDE_A_WORKER = """
def enqueue():
    with jobs.transaction():
        task.enqueue(1)
        task.enqueue(1)
    wait_until(lambda: count(status="pending") < 20)

with jobs.worker(concurrency=4), Background(enqueue):
    for _ in range(forks):
        join(fork(lambda: jobs.result(of_child.enqueue(2), timeout=60)))
assert jobs.workers() == []
assert count(type="of_child", status="succeeded") == forks
"""

A_POOL_OF_PROCESSES = """
def enqueue(number):
    return of_child.enqueue(number).id

def block():
    with jobs.transaction():
        task.enqueue(-1)
        task.enqueue(-2)

with Background(block), Background(lambda: jobs.list(limit=100)):
    for _ in range(max(1, forks // 10)):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert len(set(pool.map(enqueue, range(20), chunksize=1))) == 20
assert count(type="of_child") == 20 * max(1, forks // 10)
"""

PRE_FORK_SERVER = """
def serve():
    with jobs.worker(concurrency=2):
        assert jobs.result(of_child.enqueue(2), timeout=60) == 2

def write():
    task.enqueue(3)

with Background(write):
    for _ in range(max(1, forks // 5)):
        for child in [fork(serve) for _ in range(2)]:
            join(child)
assert jobs.workers() == []
assert count(type="of_child", status="succeeded") == 2 * max(1, forks // 5)
"""

FROM_SEVERAL_THREADS = """
def fork_one():
    join(fork(lambda: jobs.enqueue("of_another")))

with Background(fork_one), Background(fork_one), Background(lambda: task.enqueue(2)):
    for _ in range(forks):
        join(fork(lambda: of_child.enqueue(3)))
assert count(type="of_child") == forks
"""

INSIDE_A_BIG_BLOCK = """
from concurrent.futures import ThreadPoolExecutor

def read_next_to_the_block():
    with ThreadPoolExecutor(1) as threads:  # this thread is inside the block, which belongs to the parent
        threads.submit(jobs.get, 1).result()

with jobs.transaction():
    for _ in range(forks):  # more than SQLite's cache holds: no page may reach the log before the commit
        for _ in range(20):
            jobs.enqueue("big", {"text": "x" * 60_000})
        join(fork(read_next_to_the_block))
join(fork(lambda: of_child.enqueue(1)))
task.enqueue(1)
assert jobs.stats().by_status["pending"] == 3 + 20 * forks
"""

BESIDE_LONG_READS = """
from rowcall.app import queue_of
from rowcall.operations.effects import Read
from rowcall.store.statement import Statement, fetch

def summed(most):
    series = f"with recursive series(n) as (select 1 union all select n + 1 from series where n < {most})"
    plan = fetch(Statement(f"{series} select sum(n) from series", (), lambda row: int(row[0])))
    return queue_of(jobs).run(Read(plan))

def read():
    assert summed(10_000) == [50_005_000]

threading.Thread(target=summed, args=[10**15], daemon=True).start()
with Background(read):
    for _ in range(forks):
        join(fork(lambda: of_child.enqueue(1)))
assert count(type="of_child") == forks
os._exit(0)  # without the read that runs for ever
"""


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize(
    "program",
    [
        BESIDE_A_BLOCK_AND_ONE_WHO_WAITS,
        BESIDE_CLOSE,
        BESIDE_A_WORKER,
        A_POOL_OF_PROCESSES,
        PRE_FORK_SERVER,
        FROM_SEVERAL_THREADS,
        BESIDE_LONG_READS,
        INSIDE_A_BIG_BLOCK,
    ],
    ids=[
        "block and waiting enqueue",
        "close",
        "worker",
        "multiprocessing",
        "pre-fork server",
        "several threads",
        "long reads",
        "big block",
    ],
)
def test_parent_and_child_continue(
    request: pytest.FixtureRequest, tmp_path: Path, database: str, program: str, forks: str
) -> None:
    path = tmp_path / "app.db"
    url = f"sqlite:///{path}" if database == "sqlite" else request.getfixturevalue("postgres_url")
    with ForkedProcess("-W", "ignore::DeprecationWarning", "-c", PROLOGUE + program, url, forks) as process:
        assert process.wait(within=60) == 0, process.output
        assert "Traceback" not in process.output
    if database == "sqlite":
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def forks() -> str:
    return os.environ.get("ROWCALL_TEST_FORKS", "4")


def test_an_error_in_one_step_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    def step(number: int) -> None:
        seen.append(number // (number - 1))

    forking.each([3, 1, 2], step)
    assert seen == [1, 2]
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_only_one_side_gets_the_permit() -> None:
    handshake = forking.Handshake()
    assert handshake.take_permit()
    assert not handshake.take_permit()
    handshake.wait_for_child()  # there is none, so its end of the pipe is closed
