"""Workers of two versions of the code are killed and replaced, and still every job runs on one that it fits."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.domain.payload import MISMATCH_CODE
from rowcall.testing.deadline import eventually
from rowcall.testing.process import ForkedProcess, PythonProcess

pytestmark = [pytest.mark.crash, pytest.mark.slow]

JOBS = int(os.environ.get("ROWCALL_TEST_VERSION_JOBS", "200"))
KILLED_AFTER = 40  # finished jobs
OLD = """
from rowcall import Rowcall

jobs = Rowcall({url!r})

@jobs.task(max_attempts=1000)
def greet(name: str) -> str:
    return name
"""
NEW = OLD.replace("name: str", "name: str, loud: bool = False").replace(
    "return name", "return name.upper() if loud else name"
)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'app.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


def test_every_job_runs_where_it_fits(url: str, tmp_path: Path) -> None:
    chance = random.Random(1)
    for name, text in (("old", OLD), ("new", NEW)):
        (tmp_path / f"{name}_code.py").write_text(text.format(url=url))

    with Rowcall(url) as jobs, ExitStack() as stack:

        def start(code: str) -> PythonProcess:
            words = ("-m", "rowcall", "work", f"{code}_code:jobs", "--concurrency", "2")
            return stack.enter_context(ForkedProcess(*words, cwd=str(tmp_path)))

        def wait_for(finished: int) -> None:
            eventually(
                lambda: jobs.stats().by_status.get("succeeded", 0) >= finished,
                within=60,
                message=f"{finished} are done",
            )

        jobs.migrate()
        made = [
            jobs.enqueue("greet", {"name": f"n{number}", "loud": True} if number % 2 else {"name": f"n{number}"})
            for number in range(JOBS)
        ]
        workers = [(code, start(code)) for code in ("old", "new", "old", "new")]
        for finished in range(KILLED_AFTER, JOBS, KILLED_AFTER):
            wait_for(finished)
            code, victim = workers.pop(chance.randrange(len(workers)))
            victim.kill()
            workers.append((code, start(code)))
        wait_for(JOBS)
        results = [jobs.get(job.id).result for job in made]
        assert results == [f"{'N' if number % 2 else 'n'}{number}" for number in range(JOBS)]
        for job in made:
            *before, last = jobs.attempts(job.id)
            assert last.status == "succeeded"
            assert {attempt.status for attempt in before} <= {"released", "lost"}
            assert len([attempt for attempt in before if attempt.error_code == MISMATCH_CODE]) <= 1
