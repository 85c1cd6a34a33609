"""The trace context of a row: kept as it was written, and given to each who claims the job."""

from __future__ import annotations

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.domain.outcome import Released, Reported
from rowcall.operations.enqueue import enqueue
from rowcall.store.new_job import NewJob
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.worker_parts import StoreWorker

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 vendor=a,other=b"


def sent(kind: str = "send", *, traced: bool = True) -> NewJob:
    return NewJob(type=kind, queue="default", trace_context=CONTEXT if traced else None)


class TestTraceContext:
    def test_a_claim_gives_what_the_enqueue_wrote(self, jobs: Rowcall) -> None:
        queue = queue_of(jobs)
        queue.run(enqueue(queue, sent(), ["{}"]))
        queue.run(enqueue(queue, sent(traced=False), ["{}"]))
        queue.run(enqueue(queue, sent(), ["{}", "{}"]))
        queue.run(enqueue(queue, sent("other"), ["{}"]))  # several types take another way
        taken = StoreWorker(jobs, "worker").claim(slots=3, buffer=2)
        found = [ready.trace_context for ready in (*taken.started, *taken.buffered)]
        assert found == [CONTEXT, None, CONTEXT, CONTEXT, CONTEXT]

    def test_it_is_kept_however_an_attempt_ends(self, jobs: Rowcall, clock: FakeClock) -> None:
        (job,) = queue_of(jobs).run(enqueue(queue_of(jobs), sent(), ["{}"]))
        worker = StoreWorker(jobs, "worker")
        assert worker.settle(worker.start_one(), Reported("A:B", "first"))
        clock.advance(3600)
        assert worker.settle(worker.start_one(), Released())
        assert worker.start_one().trace_context == CONTEXT
        assert jobs.get(job.id).attempt == 2

    def test_it_is_kept_when_the_job_is_run_again(self, jobs: Rowcall) -> None:
        (job,) = queue_of(jobs).run(enqueue(queue_of(jobs), sent(), ["{}"]))
        jobs.cancel(job.id)
        jobs.retry(job.id)
        assert StoreWorker(jobs, "worker").start_one().trace_context == CONTEXT
