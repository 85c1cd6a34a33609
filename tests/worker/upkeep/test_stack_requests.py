"""Requests of any form: only one about an attempt of this worker is answered."""

from __future__ import annotations

import threading

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Read, Write
from rowcall.store.queries.counts import PUT_SETTING, SETTING
from rowcall.testing import eventually
from tests.worker.support import ended


def test_odd_requests_disturb_nothing(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    queue, go_on = queue_of(jobs), threading.Event()

    @jobs.task
    def held() -> None:
        go_on.wait()

    def answer(request: str) -> str:
        return "".join(queue.run(Read(queue.dialect.ask(SETTING, request))))

    odd = ["stack:", "stack:x:y", "stack:1", "stack:-1:1:0:", "stack:999:1:0:ab", "stack:\u0661:\u0662"]
    with jobs.worker():
        job = held.enqueue()
        for request in [*odd, f"stack:{job.id}:1:0:ab"]:
            queue.run(Write(queue.dialect.ask, PUT_SETTING, request, ""))
        eventually(lambda: answer(f"stack:{job.id}:1:0:ab"))
        assert [answer(request) for request in odd] == [""] * len(odd)
        jobs.cancel(job.id)  # still found by the same check
        eventually(lambda: jobs.get(job.id).status == "running")
        go_on.set()
        ended(jobs, job)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
