"""A worker makes sure that its jobs are still its own."""

from __future__ import annotations

import threading
from pathlib import Path

from rowcall import Rowcall
from rowcall.testing import FakeClock
from tests.worker.support import all_ended, ended


def test_a_worker_that_was_out_of_touch_and_is_still_registered_continues(tmp_path: Path) -> None:
    clock, go, began = FakeClock(), threading.Event(), threading.Event()
    with Rowcall(tmp_path / "queue.db", clock=clock) as jobs:

        @jobs.task
        def hold() -> None:
            began.set()
            go.wait()

        held = hold.enqueue()
        with jobs.worker(concurrency=1):
            began.wait()
            (before,) = jobs.workers()
            clock.advance_monotonic(3600)
            hold.enqueue_many([{}] * 20)
            go.set()
            all_ended(jobs)
            (after,) = jobs.workers()
        assert after.name == before.name
        assert ended(jobs, held).status == "succeeded"
        assert jobs.stats().by_status["succeeded"] == 21
