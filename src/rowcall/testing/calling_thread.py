"""Run due jobs one after the other in the calling thread: for tests whose transaction only that thread sees."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from typing import Any

from rowcall.context import running
from rowcall.declare.declaration import fingerprints
from rowcall.domain.errors import Cancel, LeaseLost, LifespanFailed, Retry, Snooze
from rowcall.domain.job import Summary
from rowcall.domain.lifecycle import Move
from rowcall.operations.by_hand import DEFAULT_LEASE_SECONDS
from rowcall.operations.effects import Write
from rowcall.queue import Queue
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.claims.round import claim_by_hand
from rowcall.store.ends.attempts import settle_one
from rowcall.store.queries.claims import Mark, Ready, new_holder
from rowcall.store.statement import Plan
from rowcall.worker.attempt import Attempt, CommonFacts
from rowcall.worker.attempt_log import summary_of
from rowcall.worker.completion import Completion
from rowcall.worker.lanes.async_lane import AsyncLane
from rowcall.worker.lanes.batch_calls import BatchCall, Call
from rowcall.worker.lifespan import Lifespans
from rowcall.worker.output import with_output
from rowcall.worker.progress import ProgressWriter
from rowcall.worker.registrar import Identity
from rowcall.worker.settling import ended_of
from rowcall.worker.streams import AttemptStream, StreamWriter

NAME = "inline"

RunAsync = Callable[[Coroutine[Any, Any, object]], object]
"""Runs the coroutine of an async handler to its end."""


class CallingThreadWorker:
    """Has no process, no heartbeat and no threads. Timeouts do not apply, and isolated tasks run here, too.

    `around` surrounds each call of a handler, on the queue's side: it sees what the handler raises.
    """

    def __init__(
        self,
        queue: Queue,
        run_async: RunAsync = asyncio.run,
        around: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        self._queue = queue
        self._run_async = run_async
        self._around = around
        self._completion = Completion(queue)
        self._completion.progress = _ImmediateProgress(queue)
        self._completion.streams = _StreamsAtEnd(queue)
        self._counts: Counter[str] = Counter()

    def drain(self, *, raise_errors: bool = False) -> Summary:
        """Run what is due until nothing is left. With `raise_errors`, stop at the first handler that raises.

        Its exception is raised here, after its attempt was settled.
        """
        with self._lifespan():
            while (result := self._queue.run(Write(self._claim))).started or result.more:
                error = self._run(result) if result.started else None
                if error is not None and (raise_errors or isinstance(error, KeyboardInterrupt)):
                    raise error
        return summary_of(self._counts)

    @contextlib.contextmanager
    def _lifespan(self) -> Iterator[None]:
        held = self._queue.declared.handlers.held_by_worker(isolated=True)
        if self._queue.declared.lifespan is None and not held:
            yield
            return
        lifespans, lane = Lifespans(), AsyncLane(None, lambda attempt: None, lambda attempt: None)
        problem: LifespanFailed | None = None
        try:
            lifespans.enter(self._queue.declared.lifespan, held, lane.event_loop)
            self._completion.resources, self._completion.worker_values = lifespans.resources, lifespans.values
            yield
        finally:
            problem = lifespans.leave()
            lane.close()
        if problem is not None:
            raise problem

    def _claim(self) -> Plan[RoundResult]:
        """Claim one job, and the others that share its batch."""
        queue = self._queue
        demand = Demand(
            worker=NAME,
            holder=new_holder(),
            slots=1,
            types=fingerprints(queue.declared.tasks),
            last_queue=queue.backend.last_queue,
            lease_ms=round(DEFAULT_LEASE_SECONDS * 1000),
            batches={
                name: task.options.batch
                for name, task in queue.declared.tasks.items()
                if task.options.batch is not None
            },
            limits=queue.declared.limits.declared,
            aliases=queue.declared.aliases,
        )
        result = yield from claim_by_hand(queue.dialect, demand)
        queue.backend.last_queue = result.last_queue
        return result

    def _run(self, result: RoundResult) -> BaseException | None:
        """Run one attempt, or a batch, and settle it. Return what its handler raised."""
        facts = CommonFacts(
            Identity(NAME, None),
            result.work.now_ms,
            self._queue.clock,
            self._completion,
            self._queue.declared.tracing,
        )

        def attempt_of(ready: Ready) -> Attempt:
            return Attempt(ready, self._queue.declared.tasks[ready.type], facts)

        first, *others = map(attempt_of, (*result.started, *result.joining))
        called: Call = first
        if first.task.options.batch is not None:
            called = batch = BatchCall(first, self._queue.clock.timer())
            for other in others:
                batch.add(other)
        error = contextvars.copy_context().run(self._call, called)
        for attempt in (first, *others):
            self._settle(attempt)
        return error

    def _call(self, call: Call) -> BaseException | None:
        running.set(call)
        try:
            bound = call.start()
            if bound is None:
                call.fetch()
                bound = call.arguments()
            args, kwargs = bound
            with self._around():
                result = call.task.call(*args, **kwargs)
                if call.task.is_async:
                    result = self._run_async(result)  # type: ignore[arg-type]
            call.succeed(result)
            if call.large_result is not None:
                call.end(call.put_large_result())
            return None
        except BaseException as error:
            call.fail(error)
            return _problem(error)
        finally:
            call.end_trace()

    def _settle(self, attempt: Attempt) -> None:
        assert attempt.transition is not None
        job, move, queue = attempt.claimed_job(), attempt.transition.move, self._queue
        ended = ended_of(attempt, queue.clock.monotonic())

        def settle() -> Plan[None]:
            one = settle_one(queue.dialect, job, ended.transition, ended.then, ended.progress)
            return with_output(queue.dialect, [attempt], one, lambda settled: [job.id])

        try:
            queue.run(Write(settle))
        except LeaseLost:  # its handler has completed it, or someone has cancelled it
            move = Move.SUCCEED if attempt.ended_completed else Move.CANCEL
        self._counts[move] += 1


def _problem(error: BaseException) -> BaseException | None:
    """Return what to raise for it: nothing if the handler chose to run later, or to cancel its job."""
    if isinstance(error, Retry | Snooze | Cancel):
        return None
    if isinstance(error, SystemExit):  # it would end the tests
        return RuntimeError(f"a handler raised {error!r}")
    return error


class _ImmediateProgress(ProgressWriter):
    def note(self, report: Mark, task: str) -> None:
        self._reports[report.job_id, report.lease] = (report, task)
        self._write()


class _StreamsAtEnd(StreamWriter):
    """Values are written with the end of the attempt."""

    def note(self, stream: AttemptStream) -> None:
        pass
