"""What attempts ask of the queue: complete a job in the handler's transaction, continue a chain, read results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from rowcall.context import NO_LIFESPAN
from rowcall.declare.declaration import Declaration
from rowcall.declare.limits import with_derived
from rowcall.domain.encryption import Kind
from rowcall.domain.job import Status
from rowcall.domain.job_log import AttemptLines, LineRules, LogRow, no_lines
from rowcall.domain.outcome import SUCCESS
from rowcall.domain.stream import StreamRow
from rowcall.drivers.caller.adapter import several_statements
from rowcall.operations import blobs
from rowcall.operations.batches import Batch, batch_of_job
from rowcall.operations.effects import OnCallerConnection, Read, open_target
from rowcall.operations.enqueue import bind
from rowcall.operations.flows import step_job
from rowcall.queue import Operation, Queue
from rowcall.store.counts.tallies import Tallies
from rowcall.store.dialect import Dialect
from rowcall.store.ends.attempts import Completed, complete
from rowcall.store.ends.next_steps import Then
from rowcall.store.queries.claims import Mark, Ready
from rowcall.store.queries.flows import BLOCKER_RESULTS, PREVIOUS_RESULT
from rowcall.store.statement import Plan
from rowcall.store.streams.lines import write_logs
from rowcall.store.streams.values import write
from rowcall.worker.progress import ProgressWriter
from rowcall.worker.steps import AttemptSteps, StepWriter, Unwritten
from rowcall.worker.streams import AttemptStream, StreamWriter, unwritten


class CompletingAttempt(NamedTuple):
    """What an attempt knows whose handler completes its job."""

    waited_ms: int
    age_ms: int
    then: Then | None
    reported: Mark | None
    streamed: AttemptStream | None = None
    values: Sequence[StreamRow] = ()
    """What a handler in a child process has appended, and may not be written."""
    log_row: LogRow | None = None


class Completion:
    """Shared by all attempts of a worker."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.progress = ProgressWriter(queue)
        self.streams = StreamWriter(queue)
        self.blobs = queue.blobs
        self._line_rules: dict[Declaration, LineRules] = {}
        self.resources = NO_LIFESPAN
        """What the app's lifespan has yielded."""
        self.keeps_errors = False
        """Whether attempts keep what their handlers raised."""
        self.worker_values: Mapping[Callable[..., object], object] = {}
        """The values of dependencies with `scope="worker"`, by their functions."""

    @cached_property
    def steps(self) -> StepWriter:
        return StepWriter(self.queue)

    def steps_of(self, ready: Ready, unwritten: Unwritten) -> AttemptSteps:
        """Return the steps of an attempt. `unwritten` returns what it has appended to streams, if to any."""
        return AttemptSteps(self.steps, ready, unwritten)

    def complete(
        self,
        ready: Ready,
        result: str | None,
        ending: CompletingAttempt,
        connection: object,
        completed: Callable[[], None],
    ) -> Operation[None]:
        """Call `completed` when all is written, even if the task that awaits it is cancelled at that moment."""
        target, dialect = yield from open_target(self.queue, connection)
        task = self.queue.declared.tasks.get(ready.type)
        is_followed = ending.then is not None or (task is not None and task.follows_success)
        if is_followed and not (yield from OnCallerConnection(target, dialect.holds_together())):
            raise several_statements("completing a job that another one follows takes")
        stored = yield from blobs.store(self.queue, ready.type, result, Kind.RESULT)
        rows = [] if ending.log_row is None else [ending.log_row]
        values = ending.values if ending.streamed is None else (yield from unwritten(self.queue, ending.streamed))
        plan = _followed(self._plan(dialect, ready, stored, ending, values), write_logs(dialect, rows))
        yield from OnCallerConnection(target, _reporting(plan, completed))

    def new_lines(self, task: Declaration) -> AttemptLines | None:
        rules = self._line_rules.get(task)
        if rules is None and (options := self.queue.config.job_log) is not None:
            scrub = task.failures.scrub if task.failures.scrubs else None
            rules = self._line_rules[task] = LineRules.of(options, self.queue.clock, scrub)
        return None if rules is None else no_lines(rules)

    def next_step(self, ready: Ready, task: object, arguments: tuple[object, ...], options: dict[str, object]) -> Then:
        """Return the next step of a chain, as it will be written."""
        bound = bind(self.queue, task, arguments, options)
        job = with_derived(step_job(bound), bound.payload)
        if self.queue.declared.tracing is not None:
            job = msgspec.structs.replace(job, trace_context=self.queue.declared.tracing.carried())
        then = Then(job, self.blobs.stored(job.type, bound.payload, Kind.ARGUMENTS))
        return then.after(ready.id, ready.chain_id, ready.chain_index)

    def blockers(self, ready: Ready) -> list[object]:
        blockers = self.queue.run(Read(self.queue.dialect.ask(BLOCKER_RESULTS, ready.id)))
        return [
            self.blobs.value(one.result, one.type, Kind.RESULT) if one.status == Status.SUCCEEDED else None
            for one in blockers
        ]

    def previous(self, ready: Ready) -> object:
        if ready.chain_id is None or not ready.chain_index:
            return None
        found = self.queue.run(Read(self.queue.dialect.ask(PREVIOUS_RESULT, ready.chain_id, ready.chain_index)))
        return self.blobs.value(*found[0], Kind.RESULT) if found else None

    def batch_of_job(self, job_id: int) -> Batch | None:
        return self.queue.run(batch_of_job(self.queue, job_id))

    def _plan(
        self, dialect: Dialect, ready: Ready, result: str | None, ending: CompletingAttempt, values: Sequence[StreamRow]
    ) -> Plan[None]:
        tallies, then = Tallies(), ending.then
        tallies.enter(ready.queue, ready.type, ready.attempt, SUCCESS, ending.waited_ms, ending.age_ms)
        on_end = self.queue.declared.follow_ups.on_end_of(ready.type, ready.queue)
        progress = ending.reported and ending.reported.at_end(succeeded=True)
        if progress is not None:
            message = self.blobs.encrypted_text(progress.message, ready.type, Kind.PROGRESS)
            progress = msgspec.structs.replace(progress, message=message)
        completed = Completed(ready.fence, result, ending.age_ms, then, on_end, progress)
        plan = _followed(complete(dialect, completed, lambda settled: tallies.rows()), write(dialect, values))
        return blobs.on_caller_connection(dialect, [result, then.payload if then is not None else None], plan)


def _followed(plan: Plan[None], other: Plan[None]) -> Plan[None]:
    yield from plan
    yield from other


def _reporting(plan: Plan[None], completed: Callable[[], None]) -> Plan[None]:
    yield from plan
    completed()
