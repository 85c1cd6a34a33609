"""Where the durable steps of attempts are written: steps of many attempts share a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from rowcall.base.clock import Clock
from rowcall.declare.declaration import Declaration
from rowcall.domain.encryption import Kind
from rowcall.domain.errors import LeaseLost
from rowcall.domain.step import StepRow, StepWrite, StepWritten
from rowcall.domain.stream import StreamRow
from rowcall.drivers.group_commit import GroupCommit
from rowcall.durable.step_state import StepFacts
from rowcall.operations import blobs
from rowcall.operations.effects import OnCallerConnection, Read, open_target, several_statements
from rowcall.queue import Operation, Queue
from rowcall.store.dialect import Dialect
from rowcall.store.queries.claims import Ready
from rowcall.store.statement import Plan
from rowcall.store.steps import recorded
from rowcall.store.streams import values


class StepWriter:
    """Shared by all attempts of a worker."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    @cached_property
    def _group(self) -> GroupCommit[StepWrite, StepWritten]:
        queue = self.queue
        return queue.database.share(lambda writes: _record(queue.dialect, writes))

    def read(self, job_id: int) -> list[StepRow]:
        rows = self.queue.run(Read(recorded.read(self.queue.dialect, job_id)))
        for row in rows:
            self.queue.blobs.check(row.result)
        return rows

    def write(self, task: str, write: StepWrite) -> StepWritten:
        self.queue.backend.check_outside_block()
        return self._checked(self._group.submit(self._stored(task, write)))

    async def awrite(self, task: str, write: StepWrite) -> StepWritten:
        self.queue.backend.check_outside_block()
        if self._is_large(write):
            write = await asyncio.get_running_loop().run_in_executor(None, self._stored, task, write)
        return self._checked(await self._group.asubmit(write))

    def _checked(self, written: StepWritten) -> StepWritten:
        self.queue.blobs.check(written.result)
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
        return self._checked((yield from on_target))

    def _is_large(self, write: StepWrite) -> bool:
        """Return whether its result must be stored elsewhere, or something of it encrypted."""
        blobs = self.queue.blobs
        return (write.result is not None and len(write.result) > blobs.inline_length) or blobs.cipher is not None

    def _stored(self, task: str, write: StepWrite) -> StepWrite:
        if not self._is_large(write):
            return write
        blobs = self.queue.blobs
        result = blobs.stored(task, write.result, Kind.STEP)
        detail = blobs.encrypted_text(write.error_detail, task, Kind.STEP_ERROR)
        question = blobs.encrypted_json(write.question, task, Kind.STEP)
        return msgspec.structs.replace(write, result=result, error_detail=detail, question=question)


def _record(dialect: Dialect, writes: Sequence[StepWrite]) -> Plan[list[recorded.Answer]]:
    """Write steps, and the values that were appended before them."""
    answers = yield from recorded.record(dialect, writes)
    written = [write for write, answer in zip(writes, answers, strict=True) if not isinstance(answer, LeaseLost)]
    yield from values.write(dialect, [row for write in written for row in write.values])
    return answers


def _record_one(dialect: Dialect, write: StepWrite) -> Plan[StepWritten]:
    answer = yield from recorded.record_one(dialect, write)
    yield from values.write(dialect, write.values)
    return answer


def facts_of(ready: Ready, task: Declaration, clock: Clock, is_over: Callable[[], bool]) -> StepFacts:
    def described(error: Exception) -> tuple[str, str]:
        raised = task.failures.raised(error)
        return raised.code, raised.detail

    attempt = (ready.type, *ready.fence, ready.attempt, ready.max_attempts)
    return StepFacts(*attempt, task.is_async, clock, is_over, described)


class AttemptSteps:
    """The steps of one attempt in this process. `unwritten` returns what it has appended to streams."""

    def __init__(
        self, writer: StepWriter, ready: Ready, unwritten: Callable[[], Operation[Sequence[StreamRow]]]
    ) -> None:
        self._writer = writer
        self._unwritten = unwritten
        self._job_id, self._task = ready.id, ready.type
        self.last_recorded: int | None = None
        """The last step that earlier attempts have recorded, once that was read: before this attempt records one."""

    def read(self) -> list[StepRow]:
        rows = self._writer.read(self._job_id)
        self.last_recorded = rows[-1].position if rows else 0
        return rows

    def write(self, write: StepWrite, connection: object) -> StepWritten:
        if appended := self._writer.queue.run(self._unwritten()):
            write = msgspec.structs.replace(write, values=appended)
        if connection is None:
            return self._writer.write(self._task, write)
        return self._writer.queue.run(self._writer.write_on(connection, self._task, write))

    async def awrite(self, write: StepWrite, connection: object) -> StepWritten:
        if appended := await self._writer.queue.arun(self._unwritten()):
            write = msgspec.structs.replace(write, values=appended)
        if connection is None:
            return await self._writer.awrite(self._task, write)
        return await self._writer.queue.arun(self._writer.write_on(connection, self._task, write))

    def fetched(self, text: str) -> str:
        return self._writer.queue.blobs.fetched(text, self._task, Kind.STEP)
