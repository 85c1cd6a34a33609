"""`jobs.transaction()`: all of a block or nothing, blocks inside it are savepoints, and who joins it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from rowcall import DuplicateJob, InvalidArguments, InvalidOption, Rowcall, Transaction
from rowcall.task import Task
from rowcall.testing.conformance.fixtures import OpenQueue, StartProgram
from rowcall.testing.conformance.notes import Notes
from rowcall.testing.waiting import eventually


class Undo(Exception):
    pass


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
        """Whom the jobs that are committed go to, in the order of their ids."""
        return [job.payload["to"] for job in reversed(jobs.list(limit=1000).jobs)]

    def test_nothing_is_there_before_the_end_and_all_of_it_after(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        with jobs.transaction() as tx:
            first = send.enqueue("a")
            send.enqueue_many([{"to": "b"}, {"to": "c"}])
            jobs.enqueue("send", {"to": "d"})
            tx.enqueue("send", {"to": "e"})
            send.using(connection=tx, priority=1).enqueue("f")
            assert self.written(jobs) == []
        assert self.written(jobs) == ["a", "b", "c", "d", "e", "f"]
        assert jobs.get(first.id) == first

    def test_actions_join_it_by_its_name(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        a, b = send.using(delay=60).enqueue("a"), send.using(delay=60).enqueue("b")
        with jobs.transaction() as tx:
            jobs.cancel(a, connection=tx)
            jobs.delete(b, connection=tx)
            assert jobs.get(a, connection=tx).status == "cancelled"
            assert [job.id for job in jobs.list(connection=tx).jobs] == [a.id]
            assert self.written(jobs) == ["a", "b"]
        assert (jobs.get(a).status, self.written(jobs)) == ("cancelled", ["a"])
        with undone(), jobs.transaction() as tx:
            jobs.retry(a, connection=tx)
            raise Undo
        assert jobs.get(a).status == "cancelled"

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
            assert self.written(jobs) == ["a"]
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
                waiting = other.submit(send.enqueue, "by itself")
                raise Undo
            waiting.result()
        assert self.written(jobs) == ["by itself"]

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
                assert (await jobs.alist()).jobs == []
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
                    by_itself = asyncio.create_task(send.aenqueue("by itself"))
                    await asyncio.sleep(0)
                    raise Undo
            await by_itself

        asyncio.run(story())
        assert self.written(jobs) == ["by itself"]

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

    def test_reads_in_a_block_see_what_is_committed(self, jobs: Rowcall, send: Task[[str], None]) -> None:
        before = send.enqueue("before")
        with jobs.transaction():
            inside = send.enqueue("inside")
            assert jobs.get(before.id) == before
            assert [job.id for job in jobs.list().jobs] == [before.id]
        assert jobs.get(inside.id) == inside

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
