from __future__ import annotations

from pathlib import Path

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.domain.config import Config
from rowcall.queue import Backend
from rowcall.testing import FakeClock


def test_a_swapped_backend_brings_its_database_and_clock_and_leaves_the_declarations(tmp_path: Path) -> None:
    jobs, clock = Rowcall(tmp_path / "own.db"), FakeClock()

    @jobs.task(queue="mail")
    def send() -> None: ...

    queue, other = queue_of(jobs), Backend(lambda: Config(path=str(tmp_path / "other.db")), clock)
    queue.backend = other
    job = send.enqueue()
    assert (queue.is_swapped, job.queue, job.created_at) == (True, "mail", clock.now())
    later = FakeClock()
    jobs.configure(clock=later)  # as an app factory does inside a test
    assert queue.clock is clock
    jobs.close()
    queue.backend = queue.own_backend
    assert (queue.is_swapped, queue.clock, len(jobs.list())) == (False, later, 0)
    jobs.close()
