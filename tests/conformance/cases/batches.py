"""Batches: named groups of jobs with counts, and what follows when all of them have ended."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from rowcall import (
    Backoff,
    Batch,
    BatchInfo,
    BatchNotFound,
    BatchNotOver,
    BatchSealed,
    Context,
    InvalidOption,
    Job,
    Rowcall,
)
from rowcall.app import queue_of
from rowcall.store.batches.finishing import fold_batches
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue


class Loads:
    """Tasks of a batch, and what was called when it ended."""

    def __init__(self, jobs: Rowcall) -> None:
        self.jobs, self.reports, self.successes = jobs, list[BatchInfo](), list[int]()

        @jobs.task(max_attempts=1, retry=Backoff.constant(0))
        def load(page: int) -> int:
            if page < 0:
                raise ValueError(page)
            return page

        @jobs.task
        def report(batch: BatchInfo) -> None:
            self.reports.append(batch)

        @jobs.task
        def celebrate() -> None:
            self.successes.append(1)

        self.load, self.report, self.celebrate = load, report, celebrate

    def batch(self, *pages: int, seal: bool = True) -> Batch:
        batch = self.jobs.batch("import", on_finish=self.report, on_success=self.celebrate)
        batch.add([self.load.bind(page) for page in pages])
        if seal:
            batch.seal()
        return batch


def ends(info: BatchInfo) -> tuple[int, int, int, int, int, int]:
    return info.total, info.waiting, info.running, info.succeeded, info.failed, info.cancelled


def fold(jobs: Rowcall) -> None:
    queue = queue_of(jobs)
    while queue.database.write(lambda: fold_batches(queue.dialect)):
        pass


class TestBatches:
    def test_counts_and_callbacks(self, jobs: Rowcall) -> None:
        loads = Loads(jobs)
        batch = loads.batch(1, 2, -3, seal=False)
        assert ends(batch.counts()) == (3, 3, 0, 0, 0, 0)
        first = jobs.dequeue("hand")
        assert first is not None
        assert ends(batch.counts()) == (3, 2, 1, 0, 0, 0)
        jobs.complete(first)
        jobs.drain()
        info = batch.counts()
        assert (ends(info), info.status, info.progress, loads.reports) == ((3, 0, 0, 2, 1, 0), "open", 1.0, [])
        assert batch.seal()
        assert not batch.seal()
        jobs.drain()
        (report,) = loads.reports
        assert (report.id, report.name, report.status, ends(report)) == (batch.id, "import", "finished", ends(info))
        finished = batch.wait(0)
        assert (finished.status, finished.success_job, loads.successes) == ("finished", None, [])
        assert jobs.get(finished.finish_job or 0).type == "report"
        fold(jobs)
        assert batch.counts() == finished

    def test_failed_jobs_that_are_retried_finish_the_batch_again(self, jobs: Rowcall) -> None:
        loads = Loads(jobs)
        batch = loads.batch(1, -2)
        jobs.drain()
        (failed,) = jobs.list(batch=batch, status="failed").jobs
        jobs.retry(failed)
        jobs.edit(failed, {"page": 2})
        assert (batch.counts().status, ends(batch.counts())) == ("sealed", (2, 1, 0, 1, 0, 0))
        jobs.drain()
        assert (batch.counts().status, ends(batch.counts())) == ("finished", (2, 0, 0, 2, 0, 0))
        jobs.drain()
        assert (len(loads.reports), len(loads.successes)) == (1, 1)
        assert batch.retry() == 0

    def test_jobs_are_added_from_inside_until_it_is_sealed(self, jobs: Rowcall, open_queue: OpenQueue) -> None:
        loads = Loads(jobs)

        @jobs.task
        def split(ctx: Context, pages: int) -> None:
            assert ctx.batch is not None
            ctx.batch.add([loads.load.bind(page) for page in range(pages)])
            ctx.batch.seal()

        @jobs.task
        async def look(ctx: Context) -> str | None:
            found = ctx.batch
            return None if found is None else found.name

        batch = jobs.batch("import", on_finish=loads.report)
        batch.add(split.bind(4), look.bind())
        alone = look.enqueue()
        jobs.drain()
        assert ends(batch.counts()) == (6, 0, 0, 6, 0, 0)
        assert jobs.result(alone) is None
        with pytest.raises(BatchSealed, match=f"batch {batch.id} is sealed"):
            open_queue().get_batch(batch.id).add(loads.load.bind(1))
        jobs.drain()
        assert [one.total for one in loads.reports] == [6]

    def test_the_next_step_of_a_chain_is_in_the_batch_of_the_step_before(self, jobs: Rowcall) -> None:
        loads = Loads(jobs)

        @jobs.task
        def first(ctx: Context) -> None:
            ctx.continue_with(loads.load, 1)

        batch = jobs.batch("chained", on_finish=loads.report)
        batch.add(first.bind())
        batch.seal()
        jobs.drain()
        assert [job.type for job in jobs.list(batch=batch).jobs] == ["load", "first"]
        jobs.drain()
        assert [(one.total, one.succeeded) for one in loads.reports] == [(2, 2)]

    def test_jobs_that_leave_and_jobs_that_are_pruned(self, jobs: Rowcall, clock: FakeClock) -> None:
        loads = Loads(jobs)
        batch = loads.batch(1, 2, -3)
        deleted, *_ = jobs.list(batch=batch, order="oldest").jobs
        jobs.delete(deleted)
        assert ends(batch.counts()) == (2, 2, 0, 0, 0, 0)
        jobs.drain()
        assert ends(batch.counts()) == (2, 0, 0, 1, 1, 0)
        other = loads.batch(1)
        jobs.delete(*jobs.list(batch=other).jobs)
        assert (other.counts().status, ends(other.counts())) == ("finished", (0, 0, 0, 0, 0, 0))
        jobs.drain()
        clock.advance(89 * 86_400)
        jobs.prune()
        assert [job.status for job in jobs.list(batch=batch).jobs] == ["failed"]
        assert ends(batch.counts()) == (2, 0, 0, 1, 1, 0)
        clock.advance(2 * 86_400)
        jobs.prune()
        assert jobs.list_batches().batches == []
        with pytest.raises(BatchNotFound, match=f"batch {batch.id} does not exist"):
            batch.counts()

    def test_cancel_delete_and_pages(self, jobs: Rowcall) -> None:
        loads = Loads(jobs)
        batch, other = loads.batch(1, 2, seal=False), loads.batch(3)
        with pytest.raises(BatchNotOver, match="some of its jobs have not ended"):
            batch.delete()
        running = jobs.dequeue("hand")
        assert running is not None
        assert batch.cancel("wrong file") == 2
        jobs.fail(running, "TEST:CODE")
        assert ends(batch.counts())[:3] == (2, 0, 0)
        assert ends(other.counts()) == (1, 1, 0, 0, 0, 0)
        page = jobs.list_batches(limit=1)
        assert [one.id for one in page.batches] == [other.id]
        assert [one.id for one in jobs.list_batches(cursor=page.next_cursor).batches] == [batch.id]
        batch.delete()
        assert [one.id for one in jobs.list_batches().batches] == [other.id]
        assert len(jobs.list(batch=batch.id).jobs) == 2

    def test_a_duplicate_is_no_member(self, jobs: Rowcall) -> None:
        loads = Loads(jobs)
        existing = loads.load.using(key="k").enqueue(1)
        batch = jobs.batch("import")
        added = batch.add(loads.load.using(key="k").bind(1), loads.load.using(after=existing).bind(2))
        assert [(job.duplicate, job.batch_id) for job in added] == [(True, None), (False, batch.id)]
        assert ends(batch.counts()) == (1, 1, 0, 0, 0, 0)

    def test_a_batch_in_a_transaction(self, jobs: Rowcall) -> None:
        loads = Loads(jobs)

        def rolled_back() -> None:
            with jobs.transaction() as tx:
                batch = jobs.batch("import", on_finish=loads.report, connection=tx)
                batch.add(loads.load.bind(1), connection=tx)
                assert batch.counts(connection=tx).total == 1
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            rolled_back()
        assert jobs.list_batches().batches == []
        with jobs.transaction():
            loads.batch(1, 2)
        jobs.drain()
        jobs.drain()
        assert [one.succeeded for one in loads.reports] == [2]

    def test_an_end_in_a_transaction_that_is_open_for_long(
        self, jobs: Rowcall, open_queue: OpenQueue, clock: FakeClock
    ) -> None:
        loads, other = Loads(jobs), open_queue(clock=clock)
        one_writer = queue_of(jobs).dialect.one_writer

        @jobs.task
        def last(ctx: Context) -> None:
            with jobs.transaction() as tx:
                ctx.complete(connection=tx)
                if not one_writer:
                    other.complete(claimed)
                    assert batch.counts().status == "sealed"
            if one_writer:
                other.complete(claimed)

        batch = loads.batch(1, seal=False)
        claimed = other.claim("hand")[0]
        batch.add(last.bind())
        batch.seal()
        jobs.drain()
        assert (batch.counts().status, ends(batch.counts())) == ("finished", (2, 0, 0, 2, 0, 0))
        jobs.drain()
        assert (len(loads.reports), len(loads.successes)) == (1, 1)

    def test_the_last_jobs_end_at_the_same_time(self, jobs: Rowcall) -> None:
        loads = Loads(jobs)
        batches = [loads.batch(*range(4)) for _ in range(5)]
        claimed = jobs.claim("hand", limit=20)
        begin = threading.Barrier(4)

        def end(some: list[Job]) -> None:
            for job in some:
                begin.wait(10)
                jobs.complete(job)

        threads = [threading.Thread(target=end, args=(claimed[number::4],)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [batch.wait(10).succeeded for batch in batches] == [4] * 5
        jobs.drain()
        assert sorted(one.id for one in loads.reports) == sorted(batch.id for batch in batches)

    def test_wait(self, jobs: Rowcall) -> None:
        loads = Loads(jobs)
        batch = loads.batch(*range(20), seal=False)
        with pytest.raises(TimeoutError, match=r"has not finished within 0 s: 0 of 20 jobs have ended, and it is open"):
            batch.wait(timeout=0)
        waiting = threading.Thread(target=batch.wait, args=(timedelta(seconds=30),))
        waiting.start()
        jobs.drain()
        batch.seal()
        assert asyncio.run(batch.await_(30)).succeeded == 20
        waiting.join(30)
        assert not waiting.is_alive()

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"name": ""}, "batch: the name must have 1 to 200 characters, got 0"),
            ({"on_finish": 3}, "on_finish must be a task, a bound call or the name of a task, got 3"),
            ({"on_success": "load"}, "on_success must take no arguments, or one, batch: BatchInfo"),
        ],
    )
    def test_wrong_options(self, jobs: Rowcall, options: dict[str, Any], problem: str) -> None:
        loads = Loads(jobs)
        with pytest.raises(InvalidOption, match=problem):
            jobs.batch(**{"name": "import", **options})
        with pytest.raises(InvalidOption, match="cannot be an option of on_finish"):
            jobs.batch("import", on_finish=loads.report.using(delay=5))
        with pytest.raises(
            InvalidOption, match=r"must be a task that is bound to its arguments, task.bind\(…\), got 3"
        ):
            jobs.batch("import").add(3)  # type: ignore[arg-type]
        assert [one.total for one in jobs.list_batches().batches] == [0]
