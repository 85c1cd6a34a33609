"""The two versions of docs/deploy.md, each with a worker process, side by side on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rowcall import Job, Rowcall, Status
from tests.docs.databases import File, OnServer, PageDatabase
from tests.docs.pages import DOCS, blocks
from tests.support import ForkedProcess, PythonProcess, eventually

pytestmark = pytest.mark.no_tables

Start = Callable[[str], PythonProcess]
OLD, NEW = "greetings_v1", "greetings_v2"
JOBS = 20


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> PageDatabase:
    if request.param == "sqlite":
        return File(tmp_path)
    url: str = request.getfixturevalue("postgres_url")
    return OnServer(url, url, {})


@pytest.fixture
def jobs(database: PageDatabase, tmp_path: Path) -> Iterator[Rowcall]:
    """A queue without declared tasks, next to the modules of the page."""
    for block in blocks(DOCS / "deploy.md"):
        if block.file_name is not None:
            (tmp_path / block.file_name).write_text(database.filled_in(block.text))
    with database.open() as jobs:
        yield jobs


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[Start]:
    started: list[PythonProcess] = []

    def start(module: str) -> PythonProcess:
        started.append(ForkedProcess("-m", "rowcall", "work", f"{module}:jobs", cwd=str(tmp_path)))
        return started[-1]

    yield start
    for process in started:
        process.close()


def greet(jobs: Rowcall, name: str, *, loud: bool) -> Job:
    return jobs.enqueue("greet", {"name": name, "loud": True} if loud else {"name": name})


def test_an_old_worker_leaves_a_job_to_a_new_one(jobs: Rowcall, start_worker: Start) -> None:
    start_worker(OLD)
    job = greet(jobs, "ann", loud=True)
    plain = greet(jobs, "bob", loud=False)
    eventually(lambda: jobs.get(job.id).error_code is not None)
    assert jobs.result(plain, timeout=30) == "hello bob"
    waiting = jobs.get(job.id)
    assert (waiting.status, waiting.attempt) == (Status.PENDING, 0)
    start_worker(NEW)
    assert jobs.result(job, timeout=30) == "HELLO ANN"
    refused, done = jobs.attempts(job.id)
    assert (refused.status, done.status, done.attempt) == ("released", "succeeded", 1)
    assert refused.worker != done.worker


def test_both_work_side_by_side(jobs: Rowcall, start_worker: Start) -> None:
    for module in (OLD, NEW):
        start_worker(module)
    made = [greet(jobs, str(number), loud=number % 2 == 0) for number in range(JOBS)]
    results = [jobs.result(job, timeout=30) for job in made]
    assert results == [f"{'HELLO' if number % 2 == 0 else 'hello'} {number}" for number in range(JOBS)]
    assert {jobs.get(job.id).attempt for job in made} == {1}
    assert max(len(jobs.attempts(job.id)) for job in made) <= 2


def test_a_new_worker_takes_over_when_the_old_one_is_killed(jobs: Rowcall, start_worker: Start) -> None:
    old = start_worker(OLD)
    job = greet(jobs, "ann", loud=True)
    eventually(lambda: jobs.get(job.id).error_code is not None)
    old.kill()
    start_worker(NEW)
    assert jobs.result(job, timeout=30) == "HELLO ANN"
