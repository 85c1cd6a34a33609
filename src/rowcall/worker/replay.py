"""Run handlers again with what is recorded of their steps, and write nothing: `rowcall check`, `rowcall replay`."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from rowcall.base.times import milliseconds_of
from rowcall.context import running
from rowcall.declare.declaration import Declaration
from rowcall.declare.limits import with_derived
from rowcall.domain.blobs import MARK
from rowcall.domain.errors import Control, JobCancelled, JobFailed, SignalTimeout, Suspend, WrongState
from rowcall.domain.job import WAITING, Job, Status
from rowcall.domain.lifecycle import Move
from rowcall.domain.step import StepKind, StepRow, StepStatus, StepWritten
from rowcall.domain.stream import StreamRow
from rowcall.durable.step_state import CalledStep
from rowcall.operations.effects import Read
from rowcall.operations.enqueue import bind
from rowcall.operations.flows import step_job
from rowcall.operations.inspect import get_row, list_jobs
from rowcall.queue import Operation, Queue
from rowcall.store.ends.next_steps import Then
from rowcall.store.new_step import StepWrite
from rowcall.store.queries.claims import Mark, Ready
from rowcall.store.steps import recorded
from rowcall.worker.attempt import Attempt, CommonFacts
from rowcall.worker.completion import CompletingAttempt, Completion
from rowcall.worker.isolation.child_lifespan import ChildLifespan, entered
from rowcall.worker.progress import ProgressWriter
from rowcall.worker.registrar import Identity
from rowcall.worker.steps import AttemptSteps, Unwritten
from rowcall.worker.streams import AttemptStream, StreamWriter

PAGE = 500
NOT_DECLARED_CODE = "TASK:NOT_DECLARED"
_AS_MEANT = (Control, JobFailed, JobCancelled, SignalTimeout)
"""What a handler raises as it is meant to: with any version of the code, the job would end so."""


class Replayed(NamedTuple):
    """How the replay of a job ended. `stopped_at`: the first step that is not recorded, or has not ended.

    `error_code` and `error_detail` say what the attempt would end with.
    """

    job: Job
    error_code: str | None = None
    error_detail: str | None = None
    stopped_at: CalledStep | None = None
    result: str | None = None
    error: BaseException | None = None
    is_suspended: bool = False
    has_steps: bool = False

    @property
    def breaks(self) -> bool:
        """Whether the job does not fit the code."""
        return self.error_code is not None and not isinstance(self.error, _AS_MEANT)


class Replayer:
    """Replays jobs in this process, one after the other."""

    def __init__(self, queue: Queue, lifespan: ChildLifespan, *, runs_steps: bool) -> None:
        self._queue = queue
        self._run = lifespan.run
        self._completion = ReplayCompletion(queue, runs_steps=runs_steps)
        self._completion.resources, self._completion.worker_values = lifespan.resources, lifespan.values

    def check(self, job: Job, steps: Sequence[StepRow]) -> Replayed:
        """Replay a job that has recorded steps; of others, look only at the arguments."""
        task = self._queue.declared.tasks.get(job.type)
        if task is None:
            return Replayed(job, NOT_DECLARED_CODE, f"the app declares no task {job.type!r}")
        if job.target is not None or task.options.target is not None:  # its handler is elsewhere
            return Replayed(job)
        return self._replay(job, task, steps, call=bool(steps))

    def _replay(self, job: Job, task: Declaration, steps: Sequence[StepRow], *, call: bool) -> Replayed:
        self._completion.begin(steps)
        at_ms = milliseconds_of(job.claimed_at or job.run_at)
        facts = CommonFacts(Identity("replay", None), at_ms, self._queue.clock, self._completion)
        attempt = Attempt(_ready(self._queue, job, task), task, facts)
        error: BaseException | None = None
        try:
            contextvars.copy_context().run(self._call, attempt, call=call)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # a handler may raise anything
            error = raised
            attempt.fail(raised)
        end, recorded = attempt.transition, self._completion.recorded
        code, detail = (None, None) if end is None else (end.error_code, end.error_detail)
        result = attempt.large_result if end is None else end.result
        is_suspended = end is not None and end.move is Move.SNOOZE
        stopped_at = recorded.stopped_at or recorded.first_open if is_suspended and recorded is not None else None
        return Replayed(job, code, detail, stopped_at, result, error, is_suspended, call)

    def _call(self, attempt: Attempt, *, call: bool) -> None:
        task = attempt.task
        running.set(attempt)
        attempt.begin()
        args, kwargs = attempt.arguments()
        if not call:
            return
        attempt.context._preload(task.preloads, steps=task.preloads_steps)
        result = task.call(*args, **kwargs)
        attempt.succeed(self._run(result) if task.is_async else result)  # type: ignore[arg-type]


def _ready(queue: Queue, job: Job, task: Declaration) -> Ready:
    """Return the job as its next claim would."""
    payload = msgspec.json.encode(job.payload).decode()
    if MARK in payload:
        payload = queue.blobs.payload(payload, job.type, takes_outcome=task.takes_outcome)
    return Ready(
        *(job.id, job.type, job.queue, payload, job.max_attempts, job.priority),
        *(milliseconds_of(job.run_at), milliseconds_of(job.created_at), job.timeout, job.retry, None, False),
        attempt=job.attempt + (job.status is not Status.RUNNING),
        lease=job.lease + 1,
        key=job.key,
        chain_id=job.chain_id,
        chain_index=job.chain_index,
        parent_id=job.parent_id,
        error_code=job.error_code,
        error_detail=job.error_detail,
    )


def _nothing_appended() -> Operation[Sequence[StreamRow]]:
    yield from ()
    return ()


class RecordedSteps(AttemptSteps):
    """The recorded steps of a job, in place of those of an attempt. A step that is not recorded ends the replay."""

    def __init__(self, completion: ReplayCompletion, ready: Ready) -> None:
        super().__init__(completion.steps, ready, _nothing_appended)
        self._rows = completion.steps.opened(completion.rows)
        self._runs_steps = completion.runs_steps
        self.stopped_at: CalledStep | None = None

    @property
    def first_open(self) -> CalledStep | None:
        """Return the first step that is recorded and has not ended."""
        return next((CalledStep.recorded(row) for row in self._rows if not row.is_over), None)

    def read(self) -> list[StepRow]:
        return self._rows

    def may_call(self, step: CalledStep) -> bool:
        return self._runs_steps or self._stop(step)

    def _stop(self, step: CalledStep) -> bool:
        self.stopped_at = self.stopped_at or step
        return False

    def write(self, write: StepWrite, connection: object) -> StepWritten:
        if write.finished:
            return StepWritten(StepStatus.FINISHED)
        self._stop(CalledStep(write.position, StepKind(write.kind), write.name))
        return StepWritten(StepStatus.WAITING, write.due_at_ms)

    async def awrite(self, write: StepWrite, connection: object) -> StepWritten:
        return self.write(write, connection)

    def write_all(self, writes: Sequence[StepWrite]) -> list[StepWritten]:
        return [self.write(write, None) for write in writes]

    async def awrite_all(self, writes: Sequence[StepWrite]) -> list[StepWritten]:
        return self.write_all(writes)


class ReplayCompletion(Completion):
    """What a replayed attempt asks of the queue: it reads as always, and writes nothing."""

    def __init__(self, queue: Queue, *, runs_steps: bool) -> None:
        super().__init__(queue)
        self.rows: Sequence[StepRow] = ()
        self.recorded: RecordedSteps | None = None
        self.runs_steps = runs_steps
        self.progress = _NoProgress(queue)
        self.streams = _NoStreams(queue)

    def begin(self, rows: Sequence[StepRow]) -> None:
        """Note what is recorded of the next job."""
        self.rows, self.recorded = rows, None

    def steps_of(self, ready: Ready, unwritten: Unwritten) -> AttemptSteps:
        self.recorded = RecordedSteps(self, ready)
        return self.recorded

    def complete(
        self,
        ready: Ready,
        result: str | None,
        ending: CompletingAttempt,
        connection: object,
        completed: Callable[[], None],
    ) -> Operation[None]:
        raise Suspend(None, waits=True)
        yield

    def next_step(self, ready: Ready, task: object, arguments: tuple[object, ...], options: dict[str, object]) -> Then:
        bound = bind(self.queue, task, arguments, options)
        return Then(with_derived(step_job(bound), bound.payload), bound.payload)


class _NoProgress(ProgressWriter):
    def note(self, report: Mark, task: str) -> None: ...


class _NoStreams(StreamWriter):
    def append(self, stream: AttemptStream, name: str, text: str, step: int | None) -> None: ...


@contextlib.contextmanager
def replayer(queue: Queue, *, runs_steps: bool = False) -> Iterator[Replayer]:
    """Enter the lifespan of the app, as a worker does. Until it is left, the queue writes nothing."""
    declared = queue.declared
    with entered(declared.lifespan, declared.handlers.held_by_worker(isolated=True)) as lifespan:
        queue.backend.only_reads = True
        try:
            yield Replayer(queue, lifespan, runs_steps=runs_steps)
        finally:
            queue.backend.only_reads = False


def check_jobs(queue: Queue) -> Iterator[Replayed]:
    """Try all jobs that have not ended against the declared tasks."""
    with replayer(queue) as replaying:
        cursor: str | None = None
        while True:
            unfinished = [*map(str, WAITING), str(Status.RUNNING)]
            page = queue.run(list_jobs(queue, order="oldest", status=unfinished, limit=PAGE, cursor=cursor))
            claimed = [job.id for job in page.jobs if job.lease]
            steps = queue.run(Read(recorded.read_of(queue.dialect, claimed))) if claimed else {}
            for job in page.jobs:
                yield replaying.check(job, steps.get(job.id, []))
            cursor = page.next_cursor
            if cursor is None:
                return


def replay_job(queue: Queue, job_id: int, *, runs_steps: bool) -> Replayed:
    """Replay one job, which may have ended. `WrongState` if nothing is recorded of it."""
    job = queue.run(get_row(queue, job_id))
    steps = queue.run(Read(recorded.read(queue.dialect, job_id)))
    if not steps:
        raise WrongState(job_id, job.status, "replay", [], "it has no recorded steps")
    with replayer(queue, runs_steps=runs_steps) as replaying:
        return replaying.check(job, steps)
