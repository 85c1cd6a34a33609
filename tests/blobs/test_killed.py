"""SIGKILL between the write of a blob and the write of its row, at each point where that can happen."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.blobs import collect_blobs
from tests.blobs.support import TEXT, Shelves, referred
from tests.support import ForkedProcess

pytestmark = pytest.mark.crash

ROOT = Path(__file__).parents[2]
PROGRAM = f"""
import os, signal, sys
from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import open_target

def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

jobs = Rowcall(sys.argv[1], blob_threshold=2048)
jobs.migrate()
queue = queue_of(jobs)
TEXT = {TEXT!r}

@jobs.task
def shout(text: str) -> str:
    return text + "!"
"""
AFTER_THE_PUT = """
put = queue.blobs.store.put
queue.blobs.store.put = lambda digest, data: (put(digest, data), die())
"""
IN_AUTOCOMMIT = """
if queue.database.path:
    import sqlite3
    mine = sqlite3.connect(queue.database.path, isolation_level=None)
else:
    import psycopg
    mine = psycopg.connect(sys.argv[1], autocommit=True)
queue.run(open_target(queue, mine))
from rowcall.store.blobs import references
references.REFER_TO_BLOBS = None
ask = queue.backend.for_callers.dialect.ask
queue.backend.for_callers.dialect.ask = lambda query, *values: ask(query, *values) if query is not None else die()
shout.using(connection=mine).enqueue(TEXT)
"""
WHILE_A_FILE_IS_WRITTEN = "os.rename = die; shout.enqueue(TEXT)"
WHILE_ONE_IS_REMOVED = """
from rowcall.drivers import blob_folder
store = queue.blobs.store
(digest,) = store.digests(0)
blob_folder._is_older = die
store.delete(digest, 86400)
"""


def kill_itself(url: str, program: str) -> None:
    with ForkedProcess("-c", PROGRAM + program, url, cwd=str(ROOT)) as process:
        assert process.wait() == -signal.SIGKILL, process.output


def declared(jobs: Rowcall) -> list[str]:
    ran: list[str] = []

    @jobs.task
    def shout(text: str) -> str:
        ran.append(text)
        return text + "!"

    return ran


def test_between_the_blob_and_the_row(url: str, jobs: Rowcall) -> None:
    kill_itself(url, AFTER_THE_PUT + "shout.enqueue(TEXT)")
    shelves = Shelves(jobs)
    assert (jobs.list().jobs, referred(jobs), len(shelves.digests)) == ([], [], 1)
    job = jobs.enqueue("shout", {"text": TEXT})
    assert jobs.get(job.id).payload == {"text": TEXT}
    jobs.delete(job.id)
    shelves.age()
    assert (collect_blobs(queue_of(jobs)), shelves.digests) == (1, set())


def test_between_the_result_and_its_row(url: str, jobs: Rowcall) -> None:
    ran = declared(jobs)
    job = jobs.enqueue("shout", {"text": TEXT})
    kill_itself(url, AFTER_THE_PUT + "jobs.drain()")
    assert len(Shelves(jobs).digests) == 2
    assert jobs.drain().succeeded == 1
    assert (ran, jobs.get(job.id).result, jobs.get(job.id).attempt) == ([TEXT], TEXT + "!", 2)


def test_between_the_row_and_what_is_written_down_of_it(url: str, jobs: Rowcall) -> None:
    """On a connection that commits each statement on its own: the job is there, and so must its payload be."""
    ran = declared(jobs)
    kill_itself(url, IN_AUTOCOMMIT)
    (job,) = jobs.list().jobs
    assert referred(jobs) == []
    Shelves(jobs).age()
    assert collect_blobs(queue_of(jobs)) == 0
    assert [job_id for _, job_id in referred(jobs)] == [job.id]
    assert jobs.drain().succeeded == 1
    assert ran == [TEXT]


def test_while_a_file_is_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    kill_itself(url, WHILE_A_FILE_IS_WRITTEN)
    with Rowcall(url, blob_threshold=2048) as jobs:
        shelves = Shelves(jobs)
        (left,) = shelves.digests
        assert left.endswith(".new")
        job = jobs.enqueue("shout", {"text": TEXT})
        assert jobs.get(job.id).payload == {"text": TEXT}
        shelves.age()
        assert collect_blobs(queue_of(jobs)) == 0
        assert left not in shelves.digests
        assert len(shelves.digests) == 1


def test_while_a_file_is_removed_that_was_put_again(tmp_path: Path) -> None:
    """The blob was found to be unused, another process enqueued it again, and then the remover died half way."""
    url = f"sqlite:///{tmp_path / 'app.db'}"
    with Rowcall(url, blob_threshold=2048) as jobs:
        ran = declared(jobs)
        jobs.enqueue("shout", {"text": TEXT})
        kill_itself(url, WHILE_ONE_IS_REMOVED)
        shelves = Shelves(jobs)
        assert [name.endswith(".taken") for name in shelves.digests] == [True]
        assert jobs.drain().succeeded == 1
        assert ran == [TEXT]
        collect_blobs(queue_of(jobs))
        assert [name.endswith(".taken") for name in sorted(shelves.digests)] == [False, False]
