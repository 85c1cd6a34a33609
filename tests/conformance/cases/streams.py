"""Streams: what handlers append is read once and in order, by any process, until the job ends."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rowcall import (
    Backoff,
    Context,
    InvalidArguments,
    InvalidOption,
    JobNotFound,
    Retry,
    Rowcall,
    Snooze,
    TooLarge,
    WrongState,
)
from rowcall.app import queue_of
from rowcall.domain import stream
from rowcall.operations.streams import last_values
from rowcall.testing.fake_clock import FakeClock
from rowcall.worker.streams import StreamWriter
from tests.conformance.fixtures import OpenQueue
from tests.conformance.isolated import streamed_in_a_child
from tests.conformance.store import Store

Read = list[tuple[int, object]]


def read(jobs: Rowcall, job_id: int, name: str = "out", after: str | None = None) -> Read:
    """Return the values with their parts."""
    reader = jobs.stream(job_id, name, after=after)
    return [(reader.part, value) for value in reader]


class TestStreams:
    def test_readers_follow_a_handler_until_the_job_ends(self, jobs: Rowcall) -> None:
        read_first = threading.Event()

        @jobs.task
        async def write(ctx: Context) -> None:
            ctx.stream({"word": "one"})
            await asyncio.to_thread(read_first.wait, 30)
            for number in range(3):
                ctx.stream(number)
                ctx.stream(str(number), name="other")
            ctx.stream(None)

        job = write.enqueue()
        with jobs.worker():
            reader = jobs.stream(job)
            assert next(reader) == {"word": "one"}  # while the handler runs
            read_first.set()
            assert list(reader) == [0, 1, 2, None]
        assert [value for _, value in read(jobs, job.id, "other")] == ["0", "1", "2"]
        assert read(jobs, job.id, "none") == []

    def test_a_reader_continues_where_another_one_stopped(self, jobs: Rowcall) -> None:
        @jobs.task
        def write(ctx: Context) -> None:
            for number in range(5):
                ctx.stream(number, "a")
                ctx.stream(-number, "b")

        job = write.enqueue()
        jobs.drain()
        with jobs.stream(job, "a") as reader:
            assert [next(reader), next(reader)] == [0, 1]
        assert read(jobs, job.id, "a", reader.position) == [(1, 2), (1, 3), (1, 4)]

        async def rest() -> list[object]:
            return [value async for value in jobs.astream(job, "b", after=reader.position)]

        assert asyncio.run(rest()) == [-1, -2, -3, -4]

    def test_repeated_code_appends_nothing(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        async def write(ctx: Context) -> None:
            ctx.stream("before")

            async def inside() -> None:
                ctx.stream("inside")

            await ctx.step("first", inside)
            ctx.stream("between")
            await ctx.sleep(60)
            ctx.stream("after")

        job = write.enqueue()
        jobs.drain()
        clock.advance(60)
        jobs.drain()
        assert read(jobs, job.id) == [(1, "before"), (1, "inside"), (1, "between"), (1, "after")]

    def test_an_attempt_after_a_failed_one_begins_a_part(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(retry=Backoff.constant(1))
        def write(ctx: Context) -> None:
            ctx.step("first", lambda: ctx.stream("first"))
            ctx.step("second", lambda: ctx.stream("second"))
            if ctx.job.attempt == 1:
                raise Retry(delay=1)
            ctx.stream(ctx.job.attempt)
            ctx.sleep(60)
            ctx.stream("end")

        job = write.enqueue()
        for _ in range(3):
            jobs.drain()
            clock.advance(60)
        assert read(jobs, job.id) == [(1, "first"), (1, "second"), (2, 2), (2, "end")]

    def test_each_of_several_failed_attempts_has_its_part(self, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also if what it has appended is only written when it ends, next to its row."""
        monkeypatch.setattr(StreamWriter, "note", lambda writer, stream: None)  # its thread is slow

        @jobs.task(max_attempts=4, retry=Backoff.constant(0))
        async def write(ctx: Context) -> None:
            ctx.stream("begins")
            if ctx.job.attempt < 4:
                raise ConnectionError("cut off")

        job = write.enqueue()
        jobs.drain()
        assert read(jobs, job.id) == [(part, "begins") for part in (1, 2, 3, 4)]

    def test_a_handler_that_snoozes_continues_its_part(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def poll(ctx: Context) -> None:
            ctx.stream(len(read_so_far))
            read_so_far.append(1)
            if len(read_so_far) < 3:
                raise Snooze(delay=1)

        read_so_far: list[int] = []
        job = poll.enqueue()
        for _ in range(3):
            jobs.drain()
            clock.advance(1)
        assert read(jobs, job.id) == [(1, 0), (1, 1), (1, 2)]

    @pytest.mark.parametrize("is_committed", [True, False])
    def test_a_handler_that_completes_its_job_keeps_its_values(self, jobs: Rowcall, is_committed: bool) -> None:
        @jobs.task(max_attempts=1)
        def write(ctx: Context) -> None:
            with jobs.transaction() as transaction:
                ctx.stream("before")
                ctx.complete("done", connection=transaction)
                with pytest.raises(WrongState):
                    ctx.stream("after")
                if not is_committed:
                    raise ValueError("rolled back")

        job = write.enqueue()
        jobs.drain()
        assert jobs.get(job).status == ("succeeded" if is_committed else "failed")
        assert read(jobs, job.id) == [(1, "before")]

    def test_child_processes_append_too(self, jobs: Rowcall, store: Store) -> None:
        task = jobs.task(isolation="process")(streamed_in_a_child)
        job = task.enqueue(3)
        jobs.drain()
        assert jobs.get(job).error_detail is None
        assert read(jobs, job.id) == [(1, 0), (1, 1), (1, 2)]

    def test_the_end_of_each_stream_is_shown(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(retry=Backoff.constant(0))
        def write(ctx: Context) -> None:
            for number in range(3):
                ctx.stream(number)
                ctx.stream("x" * 10, name="long")
            if ctx.job.attempt == 1:
                raise ConnectionError

        job = write.enqueue()
        jobs.drain()
        clock.advance(1)
        jobs.drain()
        job, queue = jobs.get(job), queue_of(jobs)
        long, out = queue.run(last_values(queue, job, 5, 1000))
        assert (out.name, out.part, out.position, out.values) == ("out", 2, f"{job.id}-2-11", [1, 2])
        assert long.values == ["x" * 10] * 3
        assert [one.values for one in queue.run(last_values(queue, job, 100, 13))] == [["x" * 10], [2]]
        assert queue.run(last_values(queue, jobs.enqueue("send"), 5, 1000)) == []

    def test_values_go_with_their_job(self, jobs: Rowcall, store: Store) -> None:
        @jobs.task
        def write(ctx: Context) -> None:
            ctx.stream("x")

        job = write.enqueue()
        jobs.drain()
        jobs.delete(job)
        assert store.execute("select * from rowcall_stream") == []
        with pytest.raises(JobNotFound):
            jobs.stream(job)

    @pytest.mark.parametrize("value", [object(), {"a": "\0"}, float("nan"), "x" * stream.MOST_VALUE_BYTES], ids=type)
    def test_a_bad_value_is_refused_where_it_is_appended(self, jobs: Rowcall, value: object) -> None:
        @jobs.task
        def write(ctx: Context) -> None:
            ctx.stream("before")
            with pytest.raises(TooLarge if isinstance(value, str) else InvalidArguments):
                ctx.stream(value)
            ctx.stream(value)

        job = write.enqueue()
        jobs.drain()
        assert (jobs.get(job).status, jobs.get(job).attempt) == ("failed", 1)
        assert read(jobs, job.id) == [(1, "before")]

    def test_a_full_stream_is_refused(self, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rowcall.worker.streams.MOST_VALUES", 3)

        @jobs.task
        def write(ctx: Context) -> None:
            for number in range(9):
                ctx.stream(number)

        job = write.enqueue()
        jobs.drain()
        assert jobs.get(job).error_code == "INVALID_OUTPUT:TOO_LARGE"
        assert [value for _, value in read(jobs, job.id)] == [0, 1, 2]

    def test_a_position_belongs_to_one_job(self, jobs: Rowcall) -> None:
        first, second = jobs.enqueue("write"), jobs.enqueue("write")
        for wrong in (jobs.stream(second).position, "7", 7, "", f"{first.id}-1-\u0661"):
            with pytest.raises(InvalidOption, match="after"):
                jobs.stream(first, after=wrong)  # type: ignore[arg-type]

    def test_a_reader_in_another_queue_sees_what_is_appended(self, jobs: Rowcall, open_queue: OpenQueue) -> None:
        go = threading.Event()

        @jobs.task
        def write(ctx: Context) -> None:
            go.wait(30)
            for number in range(1000):
                ctx.stream(number)

        job = write.enqueue()
        other = open_queue()
        reader = other.stream(job)
        with jobs.worker():
            go.set()
            assert list(reader) == list(range(1000))
