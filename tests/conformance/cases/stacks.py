"""The stacks of running handlers, as another process reads them through the database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Job, NoAnswer, Rowcall, Stack, WrongState
from rowcall.app import queue_of
from rowcall.operations.effects import Read
from rowcall.store.queries.counts import SETTINGS
from rowcall.testing.deadline import eventually
from tests.conformance import isolated
from tests.conformance.fixtures import OpenQueue
from tests.conformance.notes import Notes


def held(event: threading.Event) -> None:
    event.wait()


async def napping(event: asyncio.Event) -> None:
    await event.wait()


def functions(stack: Stack) -> list[str]:
    """The functions of this module, and of what was called in them the last."""
    return [frame.function for frame in stack.frames if frame.module == __name__]


@pytest.mark.concurrency
class TestStacks:
    @pytest.fixture
    def real(self, open_queue: OpenQueue) -> Rowcall:
        return open_queue()

    @pytest.fixture
    def release(self) -> Iterator[threading.Event]:
        """Set at the end: handlers in threads wait for it."""
        event = threading.Event()
        yield event
        event.set()

    def started(self, jobs: Rowcall, *sent: Job) -> None:
        eventually(lambda: all(jobs.get(job).started_at for job in sent), message="their start")

    def requests(self, jobs: Rowcall) -> list[str]:
        settings = queue_of(jobs).run(Read(queue_of(jobs).dialect.ask(SETTINGS)))
        return [name for name, _ in settings if name.startswith("stack:")]

    def test_of_each_kind_of_handler(
        self, real: Rowcall, open_queue: OpenQueue, release: threading.Event, tmp_path: Path
    ) -> None:
        @real.task
        def in_a_thread() -> None:
            held(release)

        @real.task(batch=2, batch_wait=0.0)
        def in_a_batch(items: list[int]) -> None:
            held(release)

        @real.task
        async def waiting() -> None:
            await asyncio.create_task(napping(asyncio.Event()))

        real.task(isolation="process")(isolated.endless)
        sent = [in_a_thread.enqueue(), in_a_batch.enqueue(7), waiting.enqueue()]
        child = real.enqueue("endless", {"notes": str(tmp_path / "notes")})
        reader = open_queue()
        worker = real.worker()
        worker.start()
        try:
            self.started(reader, *sent, child)
            thread, batch, coroutine = (reader.stack(job, timeout=20) for job in sent)
            assert functions(thread) == ["in_a_thread", "held"]
            assert functions(batch) == ["in_a_batch", "held"]
            assert functions(coroutine) == ["waiting", "napping"]
            assert thread.frames[0].function == "in_a_thread"
            assert thread.frames[1].code == "event.wait()"
            assert "line 23, in held\n    event.wait()" in str(thread)
            assert (thread.job_id, thread.attempt, thread.worker) == (sent[0].id, 1, worker.name)
            eventually(lambda: Notes(tmp_path / "notes").read("started"), message="its start")
            in_child = asyncio.run(reader.astack(child, timeout=20))
            assert in_child.frames[0].function == "endless"
            assert in_child.frames[1].function == "wait"
            assert self.requests(reader) == []
        finally:
            release.set()
            worker.stop(grace_seconds=0)

    def test_while_the_event_loop_is_blocked(
        self, real: Rowcall, open_queue: OpenQueue, release: threading.Event
    ) -> None:
        @real.task
        async def blocking() -> None:
            held(release)

        @real.task
        async def behind() -> None: ...

        reader = open_queue()
        with real.worker():
            first = blocking.enqueue()
            self.started(reader, first)
            assert functions(reader.stack(first, timeout=20)) == ["blocking", "held"]
            second = behind.enqueue()
            eventually(lambda: reader.get(second).status == "running", message="its claim")
            with pytest.raises(WrongState, match="has not started its handler yet"):
                reader.stack(second, timeout=20)
            release.set()

    def test_of_jobs_without_a_handler(self, real: Rowcall) -> None:
        @real.task
        def quick() -> None: ...

        job = quick.enqueue()
        with pytest.raises(WrongState, match=f"cannot read the stack of job {job.id}: it is pending, not running"):
            real.stack(job)
        by_hand = real.dequeue("me")
        assert by_hand is not None
        with pytest.raises(WrongState, match="no worker named 'me' is registered: it was claimed by hand"):
            real.stack(by_hand)
        real.complete(by_hand)
        with pytest.raises(WrongState, match="it is succeeded, not running"):
            real.stack(job)

    def test_of_a_worker_that_does_not_answer(self, real: Rowcall) -> None:
        worker = real.worker()
        worker.start()
        try:
            real.enqueue("unknown here")
            (job,) = real.claim(worker.name)
            with pytest.raises(NoAnswer, match=r"did not answer within 0.1 s: it is alive") as error:
                real.stack(job, timeout=0.1)
            assert (error.value.job_id, error.value.worker) == (job.id, worker.name)
            assert isinstance(error.value, TimeoutError)
            assert self.requests(real) == []
        finally:
            worker.stop()
