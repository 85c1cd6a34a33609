"""What handlers report: the last report is there when the attempt has ended, and repetitions do not turn it back."""

from __future__ import annotations

import contextlib

import pytest

from rowcall import Backoff, Cancel, Context, Fail, Retry, Rowcall, Snooze
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.jobs.marks import mark
from rowcall.store.queries.claims import Mark
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from rowcall.worker.progress import ProgressWriter
from tests.conformance.store import Store


def progress(jobs: Rowcall, job_id: int) -> tuple[float | None, str | None]:
    job = jobs.get(job_id)
    return job.progress, job.progress_message


class TestProgress:
    @pytest.mark.parametrize(
        "end", [Retry(delay=9), Snooze(delay=9), Fail("NO:GOOD", "bad"), Cancel("why"), ValueError("broken")], ids=repr
    )
    def test_the_last_report_before_an_end_is_written(self, jobs: Rowcall, end: Exception) -> None:
        @jobs.task
        def copy(ctx: Context) -> None:
            ctx.progress(0, "part 0")
            eventually(lambda: progress(jobs, ctx.job.id) == (0, "part 0"))  # the next ones wait for a while
            for part in range(1, 4):
                ctx.progress(part * 0.2, f"part {part}")
            raise end

        job = copy.enqueue()
        jobs.drain()
        assert progress(jobs, job.id) == (0.6000000000000001, "part 3")
        lines = [line.event for line in jobs.timeline(job.id) if line.detail == "60 %: part 3"]
        assert lines == ["PROGRESS"]

    def test_an_old_attempt_reports_nothing_about_the_next_one(self, jobs: Rowcall) -> None:
        job = jobs.enqueue("copy", retry=Backoff.constant(0))
        old = jobs.claim("hand")[0]
        jobs.fail(old, "NO:GOOD")
        new = jobs.claim("hand")[0]
        queue = queue_of(jobs)
        for fence in (
            (old.id, old.lease, old.holder),
            (new.id, new.lease, old.holder),
            (new.id, old.lease, new.holder),
        ):
            queue.run(Write(mark, queue.dialect, [Mark(*fence, progress=0.5, message="half")]))
        assert progress(jobs, job.id) == (None, None)
        queue.run(Write(mark, queue.dialect, [Mark(new.id, new.lease, new.holder, progress=0.5, message="half")]))
        assert progress(jobs, job.id) == (0.5, "half")

    def test_a_success_is_all_of_it_if_anything_was_reported(self, jobs: Rowcall) -> None:
        @jobs.task
        def copy(ctx: Context) -> str:
            ctx.progress(0.6, "part 3")
            return "done"

        @jobs.task
        async def move(ctx: Context) -> None:
            ctx.progress(0.1)

        @jobs.task
        def say_nothing() -> None: ...

        ended = [task.enqueue().id for task in (copy, move, say_nothing)]
        jobs.drain()
        assert [progress(jobs, job_id) for job_id in ended] == [(1.0, "part 3"), (1.0, None), (None, None)]

    def test_a_retry_reports_from_the_start_again(self, jobs: Rowcall, clock: FakeClock) -> None:
        seen: list[float | None] = []

        @jobs.task(retry=Backoff.constant(1))
        def copy(ctx: Context) -> None:
            seen.append(jobs.get(ctx.job.id).progress)
            if ctx.job.attempt < 2:
                ctx.progress(0.6)
            raise ValueError("broken")

        copy.using(max_attempts=2).enqueue()
        jobs.drain()
        clock.advance(1)
        jobs.drain()
        assert seen == [None, None]

    def test_replayed_code_does_not_turn_it_back(self, jobs: Rowcall, clock: FakeClock) -> None:
        seen: list[tuple[float | None, str | None]] = []

        @jobs.task
        def plan(ctx: Context) -> None:
            seen.append(progress(jobs, ctx.job.id))
            ctx.progress(0, "planning")
            ctx.step("plan", str)
            ctx.progress(0.5, "waiting for a human")
            ctx.wait_for("approval")
            ctx.progress(0.7, "approved")
            ctx.sleep(60)
            ctx.progress(0.8, "slept")
            ctx.step("look", lambda: seen.append(progress(jobs, ctx.job.id)))

        job = plan.enqueue()
        jobs.drain()
        assert progress(jobs, job.id) == (0.5, "waiting for a human")
        jobs.reschedule(job.id, delay=0)  # it looks again, and there is no signal
        jobs.drain()
        assert progress(jobs, job.id) == (0.5, "waiting for a human")
        jobs.signal(job.id, "approval")
        jobs.drain()
        assert progress(jobs, job.id) == (0.7, "approved")
        clock.advance(60)
        jobs.drain()
        assert progress(jobs, job.id) == (1.0, "slept")
        waits, approved = (0.5, "waiting for a human"), (0.7, "approved")
        assert seen[:4] == [(None, None), waits, waits, approved]
        assert seen[4] in (approved, (0.8, "slept"))  # the report may be written by then

    def test_an_attempt_that_ends_early_does_not_turn_it_back(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(retry=Backoff.constant(1))
        def plan(ctx: Context) -> None:
            ctx.progress(0, "planning")
            if ctx.job.attempt == 2:
                raise ValueError("broken before the first step")
            ctx.step("plan", str)
            ctx.progress(0.5, "planned")
            if ctx.job.attempt == 3:
                raise ValueError("broken before the second step")
            ctx.step("write", str)
            ctx.progress(0.7, "written")
            raise ValueError("broken")

        job = plan.using(max_attempts=3).enqueue()
        for _ in range(3):
            jobs.drain()
            assert progress(jobs, job.id) == (0.7, "written")
            clock.advance(1)

    def test_the_last_report_before_the_first_step_is_written(
        self, jobs: Rowcall, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ProgressWriter, "note", lambda *report: None)  # the attempt ends before its next write

        @jobs.task(retry=Backoff.constant(1))
        def plan(ctx: Context) -> None:
            if ctx.job.attempt == 1:
                raise ValueError("broken")
            ctx.progress(0.1, "planning")
            ctx.sleep(60)

        job = plan.enqueue()
        jobs.drain()
        clock.advance(1)
        jobs.drain()
        assert jobs.get(job.id).status == "scheduled"
        assert progress(jobs, job.id) == (0.1, "planning")

    def test_a_success_that_reports_nothing_more_ends_what_was_reported(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def plan(ctx: Context) -> None:
            if ctx.job.lease == 1:
                ctx.progress(0.5, "asleep")
            ctx.sleep(60)

        job = plan.enqueue()
        jobs.drain()
        clock.advance(60)
        jobs.drain()
        assert progress(jobs, job.id) == (1.0, "asleep")
        assert jobs.retry(job.id).progress is None

    def test_only_a_report_of_the_current_attempt_is_written(self, jobs: Rowcall) -> None:
        @jobs.task
        def copy(ctx: Context) -> None:
            ctx.progress(0.6)
            jobs.cancel(ctx.job.id)
            jobs.complete(jobs.get(ctx.job.id))

        job = copy.enqueue()
        jobs.drain()
        assert progress(jobs, job.id)[0] in (None, 1.0)

    def test_a_handler_that_lost_its_job_does_not_displace_a_report(self, jobs: Rowcall) -> None:
        first, writer = jobs.enqueue("copy"), ProgressWriter(queue_of(jobs))
        lost = jobs.dequeue("me")
        assert lost is not None
        jobs.release(lost)
        current = jobs.dequeue("me")
        assert current is not None
        writer.thread.stop()
        writer.note(Mark(current.id, current.lease, current.holder, None, 0.2, "current"), "copy")
        writer.note(Mark(lost.id, lost.lease, lost.holder, None, 0.9, "lost"), "copy")
        writer._write()
        assert progress(jobs, first.id) == (0.2, "current")

    def test_completing_in_a_transaction_writes_it_there(self, jobs: Rowcall, store: Store) -> None:
        @jobs.task
        def copy(ctx: Context) -> None:
            ctx.progress(0.6, "part 3")
            with jobs.transaction() as connection:
                ctx.complete(connection=connection)

        job = copy.enqueue()
        jobs.drain()
        assert progress(jobs, job.id) == (1.0, "part 3")

    def test_a_report_after_a_completion_counts_if_that_is_rolled_back(self, jobs: Rowcall) -> None:
        @jobs.task
        def copy(ctx: Context) -> None:
            with contextlib.suppress(KeyError), jobs.transaction() as connection:
                ctx.complete(connection=connection)
                raise KeyError("rolled back")
            ctx.progress(0.6, "part 3")
            raise ValueError("broken")

        job = copy.enqueue()
        jobs.drain()
        assert progress(jobs, job.id) == (0.6, "part 3")

    def test_a_report_that_may_be_a_repetition_is_written_if_there_are_no_steps(self, jobs: Rowcall) -> None:
        @jobs.task
        def plan(ctx: Context) -> None:
            ctx.sleep(60)

        @jobs.task
        def plain() -> None: ...

        plan.enqueue()
        jobs.drain()
        asleep = jobs.list().jobs[0]
        queue = queue_of(jobs)
        plain.enqueue()
        running = jobs.dequeue("me")
        assert running is not None
        marks = [Mark(job.id, job.lease, job.holder, progress=0.5, replays=1) for job in (asleep, running)]
        queue.run(Write(mark, queue.dialect, marks))
        assert [jobs.get(job.id).progress for job in (asleep, running)] == [None, 0.5]
