"""An attempt that another process ends while it runs: its handler is stopped, and its outcome is dropped."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from rowcall import Context, Job, Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.operations.enqueue import Bound
from rowcall.store.recovery.recover import recover_worker
from rowcall.testing.deadline import eventually
from tests.conformance import isolated
from tests.conformance.fixtures import OpenQueue
from tests.conformance.notes import Notes
from tests.conformance.store import Store, all_rows


class Outsider:
    """Ends an attempt in one of many ways."""

    def __init__(self, jobs: Rowcall, store: Store) -> None:
        self._jobs = jobs
        self._store = store

    def complete_chain(self, job: Job) -> None:
        self._jobs.complete_chain(job.id, "by hand")

    def retry(self, job: Job) -> None:
        self.complete_chain(job)
        self._jobs.pause("default")
        self._jobs.retry(job.id)

    def complete(self, job: Job) -> None:
        self._jobs.complete(self._jobs.get(job.id), "by hand")

    def fail(self, job: Job) -> None:
        self._jobs.fail(self._jobs.get(job.id), "BY:HAND")

    def release(self, job: Job) -> None:
        self._jobs.pause("default")
        self._jobs.release(self._jobs.get(job.id))

    def recover(self, job: Job) -> None:
        self._jobs.pause("default")
        worker = self._jobs.get(job.id).worker or ""
        queue_of(self._jobs).run(Write(lambda: recover_worker(queue_of(self._jobs).dialect, worker, None)))

    def delete(self, job: Job) -> None:
        self._store.execute(f"delete from rowcall_job where id = {job.id}")

    def raise_lease(self, job: Job) -> None:
        self._store.execute(f"update rowcall_claim set lease = lease + 1 where job_id = {job.id}")

    def change_status(self, job: Job) -> None:
        self._store.execute(f"update rowcall_job set status = 'cancelled' where id = {job.id}")


WAYS = [name for name in vars(Outsider) if not name.startswith("_")]
FEW_WAYS = ["complete_chain", "delete", "raise_lease"]


class Scene:
    """A task that runs until it is stopped, and a queue whose other jobs need its slot."""

    def __init__(self, jobs: Rowcall, store: Store, notes: Path) -> None:
        self.jobs = jobs
        self.outsider = Outsider(jobs, store)
        self.notes = Notes(notes)
        self.path = notes
        self.store = store
        jobs.task(name="quick", queue="other")(lambda: None)

    def ends(self, way: str, endless: Bound) -> None:
        """Start it, end its attempt, and see its slot come free; nothing is written by its handler's end."""
        with self.jobs.worker(concurrency=1):
            chain = self.jobs.start_chain([endless])
            eventually(lambda: self.notes.read("started"), message="its start")
            getattr(self.outsider, way)(chain.steps[0])
            rows = all_rows(self.store)
            eventually(lambda: self.notes.read("stopped"), message="its end")
            other = self.jobs.enqueue("quick", queue="other")
            eventually(lambda: self.jobs.get(other.id).status == "succeeded", message="a free slot")
            # before the worker leaves: a job that still names it is then recovered
            for table, found in all_rows(self.store).items():
                assert found[: len(rows[table])] == rows[table]
        assert len(self.notes.read("started")) == 1
        assert self.notes.read("ended") == []


@pytest.mark.concurrency
class TestEndedFromOutside:
    @pytest.fixture
    def scene(self, open_queue: OpenQueue, store: Store, tmp_path: Path) -> Scene:
        return Scene(open_queue(), store, tmp_path / "notes")

    @pytest.mark.parametrize("way", WAYS)
    def test_a_thread_sees_that_it_is_cancelled(self, scene: Scene, way: str) -> None:
        @scene.jobs.task
        def endless(ctx: Context) -> str:
            scene.notes.write("started")
            eventually(lambda: ctx.cancelled, within=30)
            scene.notes.write("stopped")
            return "half of it"

        scene.ends(way, endless.bind())

    @pytest.mark.parametrize("way", WAYS)
    def test_an_async_handler_gets_cancelled_error(self, scene: Scene, way: str) -> None:
        @scene.jobs.task
        async def endless(ctx: Context) -> None:
            scene.notes.write("started")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                scene.notes.write("stopped" if ctx.cancelled else "ended")
                raise ValueError("broken off") from None

        scene.ends(way, endless.bind())

    @pytest.mark.parametrize("way", FEW_WAYS)
    def test_a_child_process_is_terminated(self, scene: Scene, way: str) -> None:
        endless = scene.jobs.task(isolation="process")(isolated.endless)
        scene.ends(way, endless.bind(notes=str(scene.path)))

    def test_others_continue_and_so_does_one_that_has_completed_itself(self, scene: Scene) -> None:
        began, go_on, stopped = threading.Semaphore(0), threading.Event(), threading.Event()
        jobs = scene.jobs

        @jobs.task
        async def endless() -> None:
            began.release()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        @jobs.task
        def patient(ctx: Context, complete: bool) -> bool | str:
            if complete:
                with jobs.transaction() as transaction:
                    ctx.complete("on its own", connection=transaction)
            began.release()
            assert go_on.wait(30)
            scene.notes.write("stopped" if ctx.cancelled else "ended", ctx.job.id)
            return complete

        with jobs.worker():
            ended, other, completed = endless.enqueue(), patient.enqueue(complete=False), patient.enqueue(complete=True)
            assert all(began.acquire(timeout=30) for _ in range(3))
            scene.outsider.delete(ended)
            assert stopped.wait(30)
            go_on.set()
            eventually(lambda: len(scene.notes.read("ended")) == 2, message="the ends of the others")
            eventually(lambda: jobs.get(other.id).status == "succeeded", message="the end of the other")
        assert (jobs.get(other.id).result, jobs.get(completed.id).result) == (False, "on its own")

    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_a_batch_is_cancelled_when_all_of_its_jobs_have_ended(
        self, scene: Scene, caplog: pytest.LogCaptureFixture, is_async: bool
    ) -> None:
        began, stopped = threading.Event(), threading.Event()

        def wait(ctx: Context, items: list[int]) -> None:
            began.set()
            eventually(lambda: ctx.cancelled, within=30)
            stopped.set()

        async def await_it(ctx: Context, items: list[int]) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        task = scene.jobs.task(name="wait", batch=2, batch_wait=30)(await_it if is_async else wait)
        first, second = task.enqueue_many([{"item": 1}, {"item": 2}])
        with scene.jobs.worker(concurrency=1):
            assert began.wait(30)
            scene.outsider.delete(first)
            _is_told(caplog, first)
            assert not stopped.is_set()
            scene.outsider.raise_lease(second)
            assert stopped.wait(30)

    def test_the_rest_of_a_batch_ends_by_itself(self, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
        began, go_on = threading.Event(), threading.Event()

        @scene.jobs.task(batch=2, batch_wait=30)
        def double(ctx: Context, items: list[int]) -> list[int]:
            began.set()
            assert go_on.wait(30)
            assert not ctx.cancelled
            return [item * 2 for item in items]

        first, second = double.enqueue_many([{"item": 1}, {"item": 2}])
        with scene.jobs.worker(concurrency=1):
            assert began.wait(30)
            scene.outsider.complete(first)
            _is_told(caplog, first)
            go_on.set()
            eventually(lambda: scene.jobs.get(second.id).status == "succeeded", message="the end of the other")
        assert (scene.jobs.get(first.id).result, scene.jobs.get(second.id).result) == ("by hand", 4)


def _is_told(caplog: pytest.LogCaptureFixture, job: Job) -> None:
    line = f"job {job.id} ({job.type}): its attempt was ended from outside"
    eventually(lambda: any(message.startswith(line) for message in caplog.messages), message=line)
