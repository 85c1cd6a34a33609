"""Durable steps in child processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from tests.worker import isolated
from tests.worker.isolation.support import enqueue
from tests.worker.support import Site, ended


@pytest.mark.parametrize("handler", [isolated.sign_up, isolated.sign_up_async])
def test_steps_sleeps_and_signals(
    site: Site, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch, handler: Callable[..., object]
) -> None:
    monkeypatch.setenv("NOTES", str(site.folder))
    job = enqueue(jobs, handler, user_id=7)
    with jobs.worker(concurrency=1):
        eventually(lambda: [step.kind for step in jobs.steps(job)] == ["step", "sleep", "wait"])
        jobs.signal(job, "confirmed", True)
        assert ended(jobs, job).result == [7, True, 3_000_000]
    assert len(site.lines) == 1
    assert jobs.get(job).attempt == 1


def test_a_name_that_is_used_twice(jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.repeat_step)
    jobs.drain(concurrency=1)
    assert jobs.get(job).error_code == "STEPS:DUPLICATE_NAME"
