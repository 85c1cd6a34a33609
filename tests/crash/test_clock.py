"""The machine's clock is set forward and back by an hour while jobs run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from tests.worker.support import MovedClock, Site, comes_to, ended, some_heartbeats

pytestmark = pytest.mark.crash

HOUR = 3600.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, moved_clock=True)
    yield site
    site.jobs.close()


@pytest.mark.parametrize("moves", [[HOUR, 0.0], [-HOUR, 0.0], [HOUR, -HOUR]])
def test_nothing_is_stolen_and_nothing_is_stuck(site: Site, jobs: Rowcall, moves: list[float]) -> None:
    held = [
        jobs.enqueue(task, {"name": f"{task}{number}"}, max_attempts=1, timeout=600)
        for number in range(2)
        for task in ("hold", "ahold")
    ]
    with site.worker(lease=0.5, moved_clock=True) as one, site.worker(lease=0.5, moved_clock=True) as other:
        workers = {worker.name for worker in jobs.workers()}
        for job in held:
            site.wait_for_line(f"start {job.payload['name']}")
        for number, seconds in enumerate(moves):
            MovedClock(site.folder).move_to(seconds)
            some_heartbeats(jobs, 15)
            assert {worker.name for worker in jobs.workers()} == workers
            assert {(jobs.get(job.id).status, jobs.get(job.id).attempt) for job in held} == {("running", 1)}
            at_once = jobs.enqueue("note", {"text": f"at once {number}"})
            delayed = jobs.enqueue("anote", {"text": f"delayed {number}"}, delay=0.2)
            for job in (at_once, delayed):
                done = ended(jobs, job)
                assert (done.status, done.attempt) == ("succeeded", 1)
        for job in held:
            site.open(str(job.payload["name"]))
        for job in held:
            done = ended(jobs, job)
            assert (done.status, done.attempt) == ("succeeded", 1)
        for process in (one, other):
            assert [line for line in process.output.splitlines() if not line.startswith("INFO ")] == []


def test_what_became_due_by_the_clock_is_noticed(site: Site, jobs: Rowcall) -> None:
    with site.worker(moved_clock=True):
        later = jobs.enqueue("note", {"text": "later"}, delay=HOUR / 2)
        comes_to(jobs, later, "scheduled")
        MovedClock(site.folder).move_to(HOUR)
        eventually(lambda: jobs.get(later.id).status == "succeeded", within=15)


def test_a_lost_worker_is_found_whatever_the_clock_says(site: Site, jobs: Rowcall) -> None:
    job = jobs.enqueue("hold", {"name": "x"})
    with site.worker(moved_clock=True) as first:
        site.wait_for_line("start x")
        MovedClock(site.folder).move_to(-HOUR)
        with site.worker(moved_clock=True):
            first.kill()
            site.wait_for_line("start x", times=2)
            site.open("x")
            assert ended(jobs, job).attempt == 2
