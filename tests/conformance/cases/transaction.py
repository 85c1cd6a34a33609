"""`jobs.transaction()`: all of a block or nothing, blocks inside it are savepoints, and who joins it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from rowcall import (
    DuplicateJob,
    InvalidArguments,
    InvalidOption,
    Job,
    JobNotFound,
    Rowcall,
    Transaction,
    WrongState,
)
from rowcall.task import Task
from rowcall.testing.deadline import eventually
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.notes import Notes
from tests.conformance.store import Store, all_rows


class Undo(Exception):
    pass


class Steered:
    """Jobs, and one call of each action on them, without `connection=`."""

    def __init__(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        self._jobs = jobs
        later = send.using(delay=60)
        names = (
            "cancelled",
            "deleted",
            "retried",
            "moved",
            "raised",
            "edited",
            "completed",
            "by id",
            "failed",
            "signalled",
        )
        self._jobs_by_name = {name: later.enqueue(name) for name in names}
        for name in ("completed", "failed"):
            jobs.reschedule(self._jobs_by_name[name], delay=0)
        for claimed in jobs.claim("hand", limit=2):
            self._jobs_by_name[str(claimed.payload["to"])] = claimed
        jobs.cancel(self._jobs_by_name["retried"])
        self._chains = [jobs.start_chain([later.bind(name), send.bind(name)]) for name in ("ended", "stopped", "gone")]

    def calls(self) -> list[tuple[str, tuple[object, ...], dict[str, object]]]:
        one, (ended, stopped, gone) = self._jobs_by_name, self._chains
        return [
            ("cancel", (one["cancelled"],), {}),
            ("delete", (one["deleted"],), {}),
            ("retry", (one["retried"],), {}),
            ("reschedule", (one["moved"],), {"delay": 0}),
            ("set_priority", (one["raised"], 7), {}),
            ("edit", (one["edited"], {"to": "edited twice"}), {}),
            ("complete", (one["completed"], "ok"), {}),
            ("complete", (one["by id"].id, "ok"), {}),
            ("fail", (one["failed"], "TEST:CODE"), {}),
            ("signal", (one["signalled"], "go"), {}),
            ("complete_chain", (ended, "ok"), {}),
            ("cancel_chain", (stopped,), {}),
            ("delete_chain", (gone,), {}),
        ]

    def steer(self) -> None:
        for name, args, options in self.calls():
            getattr(self._jobs, name)(*args, **options)

    async def asteer(self) -> None:
        for name, args, options in self.calls():
            await getattr(self._jobs, f"a{name}")(*args, **options)

    def check(self) -> None:
        """Check that the calls have happened, as far as the caller can see."""
        one = self._jobs_by_name
        self._check([self._jobs.get(job) for name, job in one.items() if name != "deleted"], self._jobs.list().jobs)

    async def acheck(self) -> None:
        one = self._jobs_by_name
        found = [await self._jobs.aget(job) for name, job in one.items() if name != "deleted"]
        self._check(found, (await self._jobs.alist()).jobs)

    @staticmethod
    def _check(found: list[Job], listed: list[Job]) -> None:
        shown = [(job.status.value, job.priority, job.payload["to"]) for job in found]
        assert shown == [
            ("cancelled", 0, "cancelled"),
            ("pending", 0, "retried"),
            ("pending", 0, "moved"),
            ("scheduled", 7, "raised"),
            ("scheduled", 0, "edited twice"),
            ("succeeded", 0, "completed"),
            ("succeeded", 0, "by id"),
            ("scheduled", 0, "failed"),
            ("scheduled", 0, "signalled"),
        ]
        of_chains = [(job.status.value, job.payload["to"]) for job in reversed(listed) if job.chain_id is not None]
        assert of_chains == [
            ("cancelled", "ended"),
            ("succeeded", "ended"),
            ("cancelled", "stopped"),
            ("cancelled", "stopped"),
        ]


def undone() -> contextlib.AbstractContextManager[object]:
    """Around a block that is left by an exception."""
    return pytest.raises(Undo)


class TestTransaction:
    @pytest.fixture
    def send(self, jobs: Rowcall) -> Task[[str], None]:
        jobs.migrate()

        @jobs.task
        def send(to: str) -> None: ...

        return send

    @staticmethod
    def written(jobs: Rowcall) -> list[object]:
        """Whom the jobs go to, in the order of their ids."""
        return [job.payload["to"] for job in reversed(jobs.list(limit=1000).jobs)]

    def committed(self, jobs: Rowcall) -> list[object]:
        """`written`, as another thread sees it, which does not join the block."""
        with ThreadPoolExecutor(1) as other:
            return other.submit(self.written, jobs).result()

    def test_nothing_is_there_before_the_end_and_all_of_it_after(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        with jobs.transaction() as tx:
            first = send.enqueue("a")
            send.enqueue_many([{"to": "b"}, {"to": "c"}])
            jobs.enqueue("send", {"to": "d"})
            tx.enqueue("send", {"to": "e"})
            send.using(connection=tx, priority=1).enqueue("f")
            assert self.committed(jobs) == []
        assert self.written(jobs) == ["a", "b", "c", "d", "e", "f"]
        assert jobs.get(first.id) == first

    def test_actions_join_it(self, jobs: Rowcall, send: Task[[str], None], store: Store) -> None:
        story = Steered(jobs, send)
        before = all_rows(store)
        with undone(), jobs.transaction():
            story.steer()
            story.check()
            assert all_rows(store) == before
            raise Undo
        assert all_rows(store) == before
        with jobs.transaction():
            with undone(), jobs.transaction():
                story.steer()
                raise Undo
            with jobs.transaction():
                story.steer()
            story.check()
            assert all_rows(store) == before
        story.check()

    def test_actions_join_an_async_block(self, jobs: Rowcall, send: Task[[str], None], store: Store) -> None:
        story = Steered(jobs, send)
        before = all_rows(store)

        async def blocks() -> None:
            with undone():
                async with jobs.transaction():
                    await story.asteer()
                    await story.acheck()
                    raise Undo
            assert all_rows(store) == before
            async with jobs.transaction():
                await story.asteer()
                await story.acheck()
                assert all_rows(store) == before

        asyncio.run(blocks())
        story.check()

    def test_actions_on_all_that_match_join_it(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        send.using(delay=60, tags=["late"]).enqueue_many([{"to": str(number)} for number in range(5)])
        for undo in (True, False):
            with undone() if undo else contextlib.nullcontext(), jobs.transaction():
                assert jobs.reschedule(tag="late", delay=0) == 5
                assert jobs.set_priority(tag="late", priority=3) == 5
                assert jobs.cancel(tag="late", limit=2) == 2
                assert jobs.retry(tag="late", status="cancelled", limit=1) == 1
                assert jobs.delete(tag="late", status="cancelled") == 1
                if undo:
                    raise Undo
            assert [job.priority for job in jobs.list(tag="late").jobs] == ([0] * 5 if undo else [3] * 4)

    def test_actions_of_others_do_not_join_it_unless_they_are_given_it(
        self, jobs: Rowcall, send: Task[[str], None]
    ) -> None:
        a, b = send.using(delay=60).enqueue("a"), send.using(delay=60).enqueue("b")
        with ThreadPoolExecutor(1) as other:
            with undone(), jobs.transaction() as tx:
                send.enqueue("undone")
                by_itself = other.submit(jobs.set_priority, a, 1)  # SQLite: it waits for the end of the block
                raise Undo
            by_itself.result()
            with undone(), jobs.transaction() as tx:
                assert other.submit(jobs.cancel, b, connection=tx).result().status == "cancelled"
                assert other.submit(jobs.get, b).result().status == "scheduled"
                raise Undo

        async def story() -> None:
            with undone():
                async with jobs.transaction() as tx:
                    by_itself = asyncio.create_task(jobs.aset_priority(b, 2))
                    await asyncio.create_task(jobs.acancel(a, connection=tx))
                    raise Undo
            await by_itself

        asyncio.run(story())
        assert [(jobs.get(one).status, jobs.get(one).priority) for one in (a, b)] == [
            ("scheduled", 1),
            ("scheduled", 2),
        ]

    def test_an_action_that_is_refused_leaves_the_block_usable(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        a = send.enqueue("a")
        with jobs.transaction():
            jobs.cancel(a)
            with pytest.raises(WrongState):
                jobs.reschedule(a, delay=1)
            with pytest.raises(JobNotFound):
                jobs.delete(a.id + 1)
            b = send.enqueue("b")
            jobs.delete(b)
        assert (self.written(jobs), jobs.get(a).status) == (["a"], "cancelled")

    def test_an_exception_undoes_all_of_it(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        with undone(), jobs.transaction():
            send.enqueue("a")
            with jobs.transaction():
                send.enqueue("b")
            raise Undo
        send.enqueue("after")
        assert self.written(jobs) == ["after"]
        assert jobs.stats().by_status["pending"] == 1

    def test_inner_blocks_are_savepoints(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        with jobs.transaction():
            send.enqueue("a")
            with undone(), jobs.transaction():
                send.enqueue("undone")
                with jobs.transaction():
                    send.enqueue("undone too")
                raise Undo
            with jobs.transaction():
                send.enqueue("b")
                with undone(), jobs.transaction():
                    send.enqueue("undone")
                    raise Undo
                send.enqueue("c")
            send.enqueue("d")
        assert self.written(jobs) == ["a", "b", "c", "d"]

    def test_what_is_refused_leaves_the_block_usable(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        with jobs.transaction() as tx:
            send.enqueue("a")
            with pytest.raises(InvalidArguments):
                send.enqueue(5)  # type: ignore[arg-type]
            with pytest.raises(InvalidArguments):
                send.enqueue_many([{"to": "x"}, {"of": "y"}])
            with pytest.raises(InvalidOption):
                tx.enqueue("send", {"to": "x"}, priority="high")  # type: ignore[arg-type]
            send.enqueue("b")
        assert self.written(jobs) == ["a", "b"]

    def test_keys_chains_and_blockers_are_part_of_it(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        taken = send.using(key="order-1").enqueue("a")
        with jobs.transaction():
            with pytest.raises(DuplicateJob):
                send.using(key="order-1", on_duplicate="raise").enqueue("refused")
            assert send.using(key="order-1").enqueue("returned").id == taken.id
            first = send.using(key="order-2").enqueue("b")
            assert send.using(key="order-2").enqueue("returned").id == first.id
            send.using(after=[first]).enqueue("c")
            jobs.start_chain([send.bind("d"), send.bind("e")])
            assert self.committed(jobs) == ["a"]
        assert self.written(jobs) == ["a", "b", "c", "d", "e"]
        with undone(), jobs.transaction():
            send.using(key="order-3").enqueue("undone")
            jobs.start_chain([send.bind("undone"), send.bind("undone")])
            raise Undo
        assert not send.using(key="order-3").enqueue("f").duplicate
        assert self.written(jobs) == ["a", "b", "c", "d", "e", "f"]

    def test_workers_are_notified_once_it_is_committed(self, open_queue: OpenQueue) -> None:
        jobs, ran = open_queue(), threading.Event()

        @jobs.task
        def note() -> None:
            ran.set()

        with jobs.worker(concurrency=1):
            eventually(lambda: jobs.workers(), message="a worker")
            with jobs.transaction():
                job = note.enqueue()
            assert ran.wait(20), "the worker was not notified"
            eventually(lambda: jobs.get(job.id).status == "succeeded", message="its success")

    def test_other_threads_do_not_join_unless_they_are_given_it(
        self, jobs: Rowcall, send: Task[[str], None], open_queue: OpenQueue
    ) -> None:
        def given(tx: Transaction) -> None:
            send.using(connection=tx).enqueue("given")
            tx.enqueue("send", {"to": "given too"})

        with undone(), ThreadPoolExecutor(1) as other, jobs.transaction() as tx:
            send.enqueue("a")
            other.submit(given, tx).result()
            raise Undo
        assert self.written(jobs) == []
        with ThreadPoolExecutor(1) as other:
            with undone(), jobs.transaction():
                send.enqueue("undone")
                waiting = other.submit(send.enqueue, "on its own")
                raise Undo
            waiting.result()
        assert self.written(jobs) == ["on its own"]

    def test_async_blocks(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        async def story() -> None:
            async with jobs.transaction() as tx:
                await send.aenqueue("a")
                await send.aenqueue_many([{"to": "b"}])
                await tx.aenqueue("send", {"to": "c"})
                send.enqueue("d")
                with undone():
                    async with jobs.transaction():
                        await send.aenqueue("undone")
                        raise Undo
                assert (await asyncio.create_task(jobs.alist())).jobs == []
                assert len((await jobs.alist()).jobs) == 4
            with undone():
                async with jobs.transaction():
                    await send.aenqueue("undone")
                    raise Undo

        asyncio.run(story())
        assert self.written(jobs) == ["a", "b", "c", "d"]

    def test_other_tasks_do_not_join_unless_they_are_given_it(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        async def story() -> None:
            with undone():
                async with jobs.transaction() as tx:
                    await asyncio.gather(*(send.using(connection=tx).aenqueue(f"given {n}") for n in range(5)))
                    by_itself = asyncio.create_task(send.aenqueue("on its own"))
                    await asyncio.sleep(0)
                    raise Undo
            await by_itself

        asyncio.run(story())
        assert self.written(jobs) == ["on its own"]

    def test_a_block_that_is_cancelled_is_undone_and_blocks_no_other(
        self, jobs: Rowcall, send: Task[[str], None]
    ) -> None:
        async def in_a_block(entered: asyncio.Event) -> None:
            async with jobs.transaction():
                await send.aenqueue("undone")
                entered.set()
                await asyncio.Event().wait()

        async def story() -> None:
            entered = asyncio.Event()
            task = asyncio.create_task(in_a_block(entered))
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for pauses in range(5):  # at any moment while it begins
                task = asyncio.create_task(in_a_block(asyncio.Event()))
                for _ in range(pauses):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await send.aenqueue("after")

        asyncio.run(story())
        assert self.written(jobs) == ["after"]

    def test_a_block_that_is_cancelled_at_its_end_is_over(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        async def in_a_block(to: str, at_its_end: asyncio.Event) -> None:
            async with jobs.transaction():
                await send.aenqueue_many([{"to": to}, {"to": to}])
                at_its_end.set()

        async def story() -> None:
            for number in range(8):
                at_its_end = asyncio.Event()
                task = asyncio.create_task(in_a_block(str(number), at_its_end))
                await at_its_end.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await send.aenqueue("after")

        asyncio.run(story())
        counts = Counter(map(str, self.written(jobs)))
        assert counts.pop("after") == 1
        assert set(counts.values()) <= {2}

    def test_many_blocks_at_once_take_turns(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()

        async def block(number: int) -> None:
            async with jobs.transaction():
                await jobs.aenqueue("send", {"to": number})
                await jobs.alist(limit=1)
                await jobs.aenqueue("send", {"to": number})

        async def story() -> None:
            await asyncio.gather(*(block(number) for number in range(8)))

        asyncio.run(story())
        assert sorted(map(str, self.written(jobs))) == sorted([*map(str, range(8)), *map(str, range(8))])

    def test_wrong_use_is_refused(self, jobs: Rowcall, send: Task[[str], None], open_queue: OpenQueue) -> None:
        block = jobs.transaction()
        with pytest.raises(InvalidOption, match="not begun"):
            send.using(connection=block).enqueue("early")
        with block:
            send.enqueue("a")
        with pytest.raises(InvalidOption, match="over"):
            send.using(connection=block).enqueue("late")
        with pytest.raises(InvalidOption, match="over"):
            asyncio.run(send.using(connection=block).aenqueue("late"))
        with pytest.raises(InvalidOption, match="used already"), block:
            pass
        with jobs.transaction() as outer, jobs.transaction():
            with pytest.raises(InvalidOption, match="still open"):
                send.using(connection=outer).enqueue("past the inner one")
            with pytest.raises(InvalidOption, match="another queue"):
                open_queue().enqueue("send", {"to": "x"}, connection=outer)
        assert self.written(jobs) == ["a"]

    def test_closing_the_queue_undoes_an_open_block(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        block = jobs.transaction()
        block.__enter__()
        send.enqueue("a")
        jobs.close()
        with pytest.raises(InvalidOption, match="closed"):
            send.enqueue("b")
        with pytest.raises(InvalidOption, match="closed"):
            block.__exit__(None, None, None)
        send.enqueue("after")
        assert self.written(jobs) == ["after"]


@pytest.mark.crash
class TestTransactionCrash:
    def test_of_a_block_whose_process_is_killed_nothing_is_written(
        self, open_queue: OpenQueue, start_program: StartProgram, notes: Notes
    ) -> None:
        jobs = open_queue()
        jobs.migrate()
        program = start_program("transaction", "20")
        eventually(lambda: notes.read("ready"), message="the block")
        program.kill()
        jobs.enqueue("after")
        assert [job.type for job in jobs.list().jobs] == ["after"]
