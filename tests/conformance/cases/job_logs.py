"""Logs of jobs: what handlers write with `ctx.log` is kept with the attempt, up to a bound."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Literal

import pytest

from rowcall import Backoff, Context, InvalidOption, JobLog, JobNotFound, Rowcall
from rowcall.testing import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.isolated import logged_between_sleeps, logged_in_a_child
from tests.conformance.store import Store


def told(jobs: Rowcall, job_id: int) -> list[tuple[int, str, str]]:
    return [(line.attempt, line.level, line.message) for line in jobs.log(job_id)]


class TestJobLogs:
    @pytest.fixture
    def kept(self, store: Store, clock: FakeClock) -> Iterator[Rowcall]:
        with ExitStack() as opened:
            few = JobLog(lines=3, bytes=300, level="DEBUG", everything=True)
            yield opened.enter_context(Rowcall(store.url, clock=clock, job_log=few))

    def test_each_attempt_keeps_its_lines(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(retry=Backoff.constant(1))
        async def write(ctx: Context) -> None:
            ctx.log.debug("not kept")
            ctx.log.info("attempt %d of %s", ctx.job.attempt, "two")
            if ctx.job.attempt == 1:
                try:
                    raise ValueError("broken")
                except ValueError:
                    ctx.log.exception("it failed")
                raise RuntimeError("again")

        @jobs.task
        def silent(ctx: Context) -> None:
            assert ctx.log.extra

        job, other = write.enqueue(), silent.enqueue()
        at = clock.now()
        jobs.drain()
        clock.advance(1)
        jobs.drain()
        first, failed, second = jobs.log(job)
        assert (first.attempt, first.level, first.message, first.at) == (1, "INFO", "attempt 1 of two", at)
        assert failed.message.startswith("it failed\nTraceback")
        assert failed.message.endswith("ValueError: broken")
        assert (second.attempt, second.message) == (2, "attempt 2 of two")
        assert jobs.log(other) == []
        jobs.delete(job)
        with pytest.raises(JobNotFound):
            jobs.log(job)

    def test_the_lines_of_a_running_attempt_are_written_from_time_to_time(self, jobs: Rowcall) -> None:
        go, began = threading.Event(), threading.Event()

        @jobs.task
        def write(ctx: Context) -> None:
            ctx.log.warning("running")
            began.set()
            assert go.wait(60)
            ctx.log.info("\0 and \ud800")

        job = write.enqueue()
        with jobs.worker():
            assert began.wait(30)
            eventually(lambda: told(jobs, job.id) == [(1, "WARNING", "running")])
            go.set()
            jobs.result(job, timeout=30)
        assert [message for _, _, message in told(jobs, job.id)] == ["running", "\ufffd and ?"]

    def test_the_newest_lines_are_kept(self, kept: Rowcall) -> None:
        @kept.task
        def write(ctx: Context) -> None:
            for number in range(9):
                ctx.log.info("line %d", number)

        @kept.task
        def write_long(ctx: Context) -> None:
            for letter in "abcde":
                ctx.log.info(letter * 1000)

        short, long = write.enqueue(), write_long.enqueue()
        kept.drain()
        assert [message for _, _, message in told(kept, short.id)] == ["line 6", "line 7", "line 8"]
        assert [message[0] for _, _, message in told(kept, long.id)] == ["c", "d", "e"]
        assert sum(len(line.message.encode()) for line in kept.log(long)) <= 300

    def test_everything_that_is_logged_while_a_handler_runs(self, kept: Rowcall) -> None:
        @kept.task
        def write(ctx: Context) -> None:
            logging.getLogger("library").warning("from %s", "elsewhere")
            ctx.log.warning("once")

        job = write.enqueue()
        kept.drain()
        assert told(kept, job.id) == [(1, "WARNING", "from elsewhere"), (1, "WARNING", "once")]
        logging.getLogger("library").warning("outside of a handler")

    @pytest.mark.parametrize("isolation", ["thread", "process"])
    def test_lines_are_not_repeated_after_a_pause(
        self, jobs: Rowcall, clock: FakeClock, isolation: Literal["thread", "process"]
    ) -> None:
        job = jobs.task(retry=Backoff.constant(1), isolation=isolation)(logged_between_sleeps).enqueue(4)
        for _ in range(6):
            jobs.drain()
            clock.advance(1)
        assert jobs.get(job).status == "succeeded"
        messages = ["begin", *(text for number in range(4) for text in (f"before {number}", f"in {number}"))]
        assert told(jobs, job.id) == [
            *((1, "INFO", message) for message in [*messages, "attempt 1"]),
            (2, "INFO", "attempt 2"),
        ]

    def test_child_processes_and_completed_jobs(self, jobs: Rowcall) -> None:
        @jobs.task
        def write(ctx: Context) -> None:
            with jobs.transaction() as transaction:
                ctx.log.info("before")
                ctx.complete(connection=transaction)

        child, completed = jobs.task(isolation="process")(logged_in_a_child).enqueue("hello"), write.enqueue()
        jobs.drain()
        assert told(jobs, child.id) == [(1, "INFO", "hello")]
        assert told(jobs, completed.id) == [(1, "INFO", "before")]

    def test_nothing_is_kept_where_it_is_off(self, store: Store) -> None:
        with Rowcall(store.url, job_log=None) as jobs:

            @jobs.task
            def write(ctx: Context) -> None:
                ctx.log.warning("gone")

            job = write.enqueue()
            jobs.drain()
            assert jobs.log(job) == []
        assert store.execute("select * from rowcall_log") == []

    @pytest.mark.parametrize("wrong", [{"lines": 0}, {"bytes": 1}, {"level": "LOUD"}, {"everything": 1}, {"rows": 1}])
    def test_wrong_options(self, wrong: dict[str, object]) -> None:
        with pytest.raises(InvalidOption, match=next(iter(wrong))):
            JobLog(**wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match="must be a JobLog"):
            Rowcall("sqlite:///:memory:", job_log=7)  # type: ignore[arg-type]
