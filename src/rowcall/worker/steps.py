"""Where the durable steps of attempts are written: steps of many attempts share a commit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from typing import TypeVar

import msgspec

from rowcall.base.clock import Clock
from rowcall.declare.declaration import Declaration
from rowcall.domain.encryption import Kind
from rowcall.domain.errors import UnknownTask
from rowcall.domain.step import PAUSES, StepKind, StepRow, StepWritten
from rowcall.domain.stream import StreamRow
from rowcall.drivers.caller.adapter import several_statements
from rowcall.drivers.group_commit import GroupCommit
from rowcall.durable.step_state import CalledStep, Function, StepFacts
from rowcall.operations import blobs
from rowcall.operations.effects import OnCallerConnection, Read, open_target
from rowcall.operations.enqueue import Bound, bind, with_key
from rowcall.queue import Operation, Queue
from rowcall.store.dialect import Dialect
from rowcall.store.enqueue.children import enqueue_children
from rowcall.store.new_job import RelatedJob
from rowcall.store.new_step import NewChild, StepWrite
from rowcall.store.queries.claims import Ready
from rowcall.store.statement import Plan
from rowcall.store.steps import recorded
from rowcall.store.streams import values

T = TypeVar("T")

Bind = tuple[NewChild, Function | None]
Unwritten = Callable[[], Operation[Sequence[StreamRow]] | None]


class StepWriter:
    """Shared by all attempts of a worker."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    @cached_property
    def _group(self) -> GroupCommit[Sequence[StepWrite], list[StepWritten]]:
        """Each member is what one attempt writes at once."""
        queue = self.queue
        return queue.database.share(lambda members: _record(queue.dialect, members))

    def read(self, job_id: int) -> list[StepRow]:
        return self.opened(self.queue.run(Read(recorded.read(self.queue.dialect, job_id))))

    def opened(self, rows: Sequence[StepRow]) -> list[StepRow]:
        """Return recorded steps as handlers read them."""
        for row in rows:
            self.queue.blobs.check(row.result)
        return [self._opened(row) if row.kind == StepKind.CALL and row.error_detail else row for row in rows]

    def _opened(self, row: StepRow) -> StepRow:
        detail = self.queue.blobs.opened_text(row.error_detail, row.name, Kind.ERROR)
        return msgspec.structs.replace(row, error_detail=detail)

    def write(self, task: str, writes: Sequence[StepWrite]) -> list[StepWritten]:
        self.queue.backend.check_outside_block()
        return self._checked(self._group.submit(self._stored_all(task, writes)))

    async def awrite(self, task: str, writes: Sequence[StepWrite]) -> list[StepWritten]:
        self.queue.backend.check_outside_block()
        if any(map(self._is_large, writes)):
            writes = await asyncio.get_running_loop().run_in_executor(None, self._stored_all, task, writes)
        return self._checked(await _to_its_end(self._group.asubmit(writes)))

    def _checked(self, written: list[StepWritten]) -> list[StepWritten]:
        for one in written:
            if one.result is not None:  # the value of a signal
                self.queue.blobs.check(one.result)
        return written

    def write_on(self, connection: object, task: str, write: StepWrite) -> Operation[StepWritten]:
        """Write a step in the caller's transaction."""
        target, dialect = yield from open_target(self.queue, connection)
        if not (yield from OnCallerConnection(target, dialect.holds_together())):
            raise several_statements("a step takes")
        result = yield from blobs.store(self.queue, task, write.result, Kind.STEP)
        detail = self.queue.blobs.encrypted_text(write.error_detail, task, Kind.STEP_ERROR)
        question = self.queue.blobs.encrypted_json(write.question, task, Kind.STEP)
        write = msgspec.structs.replace(write, result=result, error_detail=detail, question=question)
        plan = _record_one(dialect, write)
        on_target = OnCallerConnection(target, blobs.on_caller_connection(dialect, [result], plan))
        return self._checked([(yield from on_target)])[0]

    def _is_large(self, write: StepWrite) -> bool:
        """Return whether its result must be stored elsewhere, or something of it encrypted."""
        blobs, child, result = self.queue.blobs, write.child, write.result
        if child is not None and len(child.payload) > blobs.inline_length:
            return True
        return blobs.cipher is not None or (result is not None and len(result) > blobs.inline_length)

    def _stored_all(self, task: str, writes: Sequence[StepWrite]) -> list[StepWrite]:
        return [self._stored(task, write) for write in writes]

    def _stored(self, task: str, write: StepWrite) -> StepWrite:
        if not self._is_large(write):
            return write
        blobs = self.queue.blobs
        result = blobs.stored(task, write.result, Kind.STEP)
        detail = blobs.encrypted_text(write.error_detail, task, Kind.STEP_ERROR)
        question = blobs.encrypted_json(write.question, task, Kind.STEP)
        child = write.child
        if child is not None:
            child = NewChild(child.job, blobs.stored(child.job.type, child.payload, Kind.ARGUMENTS))
        return msgspec.structs.replace(write, result=result, error_detail=detail, question=question, child=child)


def _record(dialect: Dialect, members: Sequence[Sequence[StepWrite]]) -> Plan[list[list[StepWritten] | Exception]]:
    """Write steps, and the values that were appended before them. Return for each member how its steps were written, or
    the first error among them.
    """
    writes = [write for member in members for write in member]

    def enqueue(dialect: Dialect, calls: Sequence[StepWrite]) -> Plan[list[int | Exception]]:
        answers = yield from enqueue_children(dialect, calls)
        refused = {id(call): one for call, one in zip(calls, answers, strict=True) if isinstance(one, Exception)}
        for member in members if refused else ():
            if len(member) > 1 and (error := next((refused[id(one)] for one in member if id(one) in refused), None)):
                raise error  # nothing of this member may be written; then each one is written alone
        return answers

    answers = yield from recorded.record(dialect, writes, enqueue)
    written = [write for write, answer in zip(writes, answers, strict=True) if not isinstance(answer, Exception)]
    yield from values.write(dialect, [row for write in written for row in write.values])
    if len(answers) == len(members):  # most write one step
        return [answer if isinstance(answer, Exception) else [answer] for answer in answers]
    remaining = iter(answers)
    return [_answer_of(list(islice(remaining, len(member)))) for member in members]


def _answer_of(answers: Sequence[recorded.Answer]) -> list[StepWritten] | Exception:
    for error in answers:
        if isinstance(error, Exception):
            return error
    return [answer for answer in answers if isinstance(answer, StepWritten)]


async def _to_its_end(write: asyncio.Future[T]) -> T:
    """Wait for a write, and only then be cancelled: what was done must be recorded before the attempt can end."""
    try:
        return await asyncio.shield(write)
    except asyncio.CancelledError:
        while not write.done():
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await asyncio.shield(write)
        raise


def child_of(queue: Queue, task: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Bind:
    """Return the job of a call by `ctx.call`, and the function that returns its result."""
    name = task.job.type if isinstance(task, Bound) else task
    if isinstance(name, str) and name not in queue.declared.tasks:
        raise UnknownTask(name, sorted(queue.declared.tasks))
    bound = bind(queue, task, args, kwargs)
    item = with_key(RelatedJob(job=bound.job, payload=bound.payload))
    job = item.job
    if job.unique is not None:  # a job that exists is the child of no one, or of another
        job = msgspec.structs.replace(job, unique=msgspec.structs.replace(job.unique, on_duplicate="raise"))
    return NewChild(job, item.payload), function_of(queue, job.type)


def function_of(queue: Queue, task: str) -> Function | None:
    """Return the function of a task that returns its result."""
    declared = queue.declared.tasks.get(task)
    return None if declared is None or declared.options.batch is not None else declared.function


def _record_one(dialect: Dialect, write: StepWrite) -> Plan[StepWritten]:
    answer = yield from recorded.record_one(dialect, write)
    yield from values.write(dialect, write.values)
    return answer


def _with_values(writes: Sequence[StepWrite], values: Sequence[StreamRow]) -> Sequence[StepWrite]:
    return [msgspec.structs.replace(writes[0], values=values), *writes[1:]] if values else writes


def facts_of(ready: Ready, task: Declaration, clock: Clock, is_over: Callable[[], bool]) -> StepFacts:
    def described(error: Exception) -> tuple[str, str]:
        raised = task.failures.raised(error)
        return raised.code, raised.detail

    attempt = (ready.type, *ready.fence, ready.attempt, ready.max_attempts)
    return StepFacts(*attempt, task.is_async, clock, is_over, described)


class AttemptSteps:
    """The steps of one attempt in this process. `unwritten` returns what it has appended to streams, if to any."""

    def __init__(self, writer: StepWriter, ready: Ready, unwritten: Unwritten) -> None:
        self._writer = writer
        self._unwritten = unwritten
        self._job_id, self._task = ready.id, ready.type
        self.last_recorded: int | None = None
        """The last step that earlier attempts have recorded, once that was read: before this attempt records one."""
        self.last_pause = 0
        """The last of them that has ended an attempt: what was logged before it is kept with that attempt."""

    def read(self) -> list[StepRow]:
        rows = self._writer.read(self._job_id)
        if self.last_recorded is None:  # `ctx.first` reads again what this attempt has recorded
            self.last_recorded = rows[-1].position if rows else 0
            self.last_pause = max((row.position for row in rows if row.kind in PAUSES), default=0)
        return rows

    def bind(self, task: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Bind:
        return child_of(self._writer.queue, task, args, kwargs)

    def function_of(self, task: str) -> Function | None:
        return function_of(self._writer.queue, task)

    def write_all(self, writes: Sequence[StepWrite]) -> list[StepWritten]:
        asked = self._unwritten()
        appended = () if asked is None else self._writer.queue.run(asked)
        return self._writer.write(self._task, self._traced(_with_values(writes, appended)))

    async def awrite_all(self, writes: Sequence[StepWrite]) -> list[StepWritten]:
        asked = self._unwritten()
        appended = () if asked is None else await self._writer.queue.arun(asked)
        return await self._writer.awrite(self._task, self._traced(_with_values(writes, appended)))

    def _traced(self, writes: Sequence[StepWrite]) -> Sequence[StepWrite]:
        """Return calls whose children continue the trace that is current here."""
        tracing = self._writer.queue.declared.tracing
        if tracing is None:
            return writes
        context = tracing.carried()
        replace = msgspec.structs.replace
        traced = []
        for write in writes:
            if (child := write.child) is not None:
                child = NewChild(replace(child.job, trace_context=context), child.payload)
            traced.append(replace(write, child=child))
        return traced

    def write(self, write: StepWrite, connection: object) -> StepWritten:
        if (asked := self._unwritten()) is not None and (appended := self._writer.queue.run(asked)):
            write = msgspec.structs.replace(write, values=appended)
        if connection is None:
            return self._writer.write(self._task, [write])[0]
        return self._writer.queue.run(self._writer.write_on(connection, self._task, write))

    async def awrite(self, write: StepWrite, connection: object) -> StepWritten:
        if (asked := self._unwritten()) is not None and (appended := await self._writer.queue.arun(asked)):
            write = msgspec.structs.replace(write, values=appended)
        if connection is None:
            return (await self._writer.awrite(self._task, [write]))[0]
        return await self._writer.queue.arun(self._writer.write_on(connection, self._task, write))

    def may_call(self, step: CalledStep) -> bool:
        return True

    def fetched(self, text: str, child: str | None) -> str:
        task, kind = (self._task, Kind.STEP) if child is None else (child, Kind.RESULT)
        return self._writer.queue.blobs.fetched(text, task, kind)
