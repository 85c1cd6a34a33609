"""A worker that stops: what happens to handlers that are asked to stop and raise."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rowcall import Cancel, Context, Fail, Retry, Rowcall, Snooze
from rowcall.testing.deadline import eventually
from tests.conformance import isolated
from tests.conformance.fixtures import OpenQueue
from tests.conformance.notes import Notes

RAISED = [ValueError("broken off"), SystemExit(3), KeyboardInterrupt()]
CHOSEN = [
    (Fail("A:B", "said so"), ("failed", "A:B", 1)),
    (Cancel("not needed"), ("cancelled", "CANCELLED:BY_HANDLER", 1)),
    (Retry(600), ("scheduled", "RETRY:REQUESTED", 1)),
    (Snooze(600), ("scheduled", None, 0)),
]


@pytest.mark.concurrency
class TestStopping:
    @pytest.fixture
    def real(self, open_queue: OpenQueue) -> Rowcall:
        return open_queue()

    def end(self, jobs: Rowcall, began: Callable[[], object], job_id: int) -> tuple[str, str | None, int]:
        """Stop a worker while the job runs, with no grace; return what became of the job."""
        worker = jobs.worker()
        worker.start()
        eventually(began, message="its start")
        worker.stop(grace_seconds=0)
        job = jobs.get(job_id)
        return str(job.status), job.error_code, job.attempt

    def test_once_it_is_asked_to_stop_it_starts_no_job_of_its_buffer(self, real: Rowcall) -> None:
        began: list[int] = []

        @real.task
        def quick(number: int) -> None:
            began.append(number)
            if len(began) == 500:
                worker.ask_to_stop()

        quick.enqueue_many([{"number": number} for number in range(1500)])
        worker = real.worker(concurrency=1)
        worker.start()
        assert worker.ended.wait(60)
        assert len(began) == 500
        assert real.stats().by_status["pending"] == 1000

    @pytest.mark.parametrize("looks", [True, False], ids=["looks", "does not look"])
    @pytest.mark.parametrize("error", RAISED, ids=repr)
    def test_a_thread_that_raises_does_not_lose_its_attempt(
        self, real: Rowcall, caplog: pytest.LogCaptureFixture, error: BaseException, looks: bool
    ) -> None:
        began = threading.Event()

        @real.task(max_attempts=1)
        def patient(ctx: Context) -> None:
            began.set()
            told = (lambda: ctx.cancelled) if looks else (lambda: ctx._attempt.cancelled)
            eventually(told, within=30)
            raise error

        job_id = patient.enqueue().id
        assert self.end(real, began.is_set, job_id) == ("pending", None, 0)
        assert [attempt.status for attempt in real.attempts(job_id)] == ["released"]
        line = f"job {job_id} (patient): failed after it was asked to stop; released ("
        assert [message for message in caplog.messages if message.startswith(line)]

    @pytest.mark.parametrize(("chosen", "ended"), CHOSEN, ids=lambda value: type(value).__name__)
    def test_how_a_handler_says_it_ends_is_heeded(
        self, real: Rowcall, chosen: Exception, ended: tuple[str, str | None, int]
    ) -> None:
        began = threading.Event()

        @real.task
        def patient(ctx: Context) -> None:
            began.set()
            eventually(lambda: ctx.cancelled, within=30)
            raise chosen

        assert self.end(real, began.is_set, patient.enqueue().id) == ended

    def test_an_async_handler_that_raises_something_else(self, real: Rowcall) -> None:
        began = threading.Event()

        @real.task(max_attempts=1)
        async def patient() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise OSError("could not clean up")

        assert self.end(real, began.is_set, patient.enqueue().id) == ("pending", None, 0)

    def test_a_batch_that_raises_or_says_so_of_each(self, real: Rowcall) -> None:
        began = threading.Event()

        @real.task(batch=3, max_attempts=1)
        def patient(ctx: Context, items: list[int]) -> list[object]:
            began.set()
            eventually(lambda: ctx.cancelled, within=30)
            return [ValueError("broken off"), Fail("A:B"), None]

        first, second, third = patient.enqueue_many([{"item": number} for number in range(3)])
        assert self.end(real, began.is_set, first.id) == ("pending", None, 0)
        assert [str(real.get(job.id).status) for job in (second, third)] == ["failed", "pending"]

    @pytest.mark.parametrize(
        ("way", "ended"), [("raise", ("pending", None, 0)), ("fail", ("failed", "A:B", 1))], ids=["raise", "fail"]
    )
    def test_a_child_process(self, real: Rowcall, tmp_path: Path, way: str, ended: tuple[str, str | None, int]) -> None:
        notes = Notes(tmp_path / "notes")
        task = real.task(isolation="process", max_attempts=1)(isolated.raise_when_told)
        job_id = task.enqueue(notes=str(tmp_path / "notes"), way=way).id
        assert self.end(real, lambda: notes.read("started"), job_id) == ended
        assert notes.read("stopped")
