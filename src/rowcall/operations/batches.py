"""Batches: named groups of jobs with counts, and tasks that are enqueued when all of their jobs have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from rowcall.context import Bindable
from rowcall.domain.batches import LONGEST_NAME, BatchInfo, BatchKey, BatchPage, Callback, callback_to_text
from rowcall.domain.checks import checked_text, name_problem
from rowcall.domain.errors import InvalidArguments, InvalidOption, seconds_of
from rowcall.domain.job import Job
from rowcall.domain.payload import tags_from_row
from rowcall.operations import job_actions
from rowcall.operations.arguments import checked_batch_id, checked_limit, id_before
from rowcall.operations.effects import Read, Sleep, Write, read, write
from rowcall.operations.enqueue import Bound, bind, enqueue_each
from rowcall.operations.results import FIRST_CHECK_SECONDS, LAST_CHECK_SECONDS, WaitFor, end_waiter
from rowcall.queue import Operation, Queue
from rowcall.store.batches import groups
from rowcall.store.batches.finishing import ARGUMENT, finish_over
from rowcall.store.dialect import Dialect
from rowcall.store.new_job import NewJob
from rowcall.store.queries.batches import ADD_BATCH, OPEN_MEMBER
from rowcall.store.statement import Plan

Calls = Bound | Iterable[Bound]
Follower = Bindable[...] | Bound | str | None
"""What follows the end of a batch: a task, a task with options, a bound call, or the name of a task."""

_EXAMPLE = BatchInfo(id=1, name=ARGUMENT, status="finished", created_at=datetime(2000, 1, 1, tzinfo=UTC))
_NOT_OF_CALLBACKS = {
    **dict.fromkeys(("delay_ms", "run_at_ms"), "delay"),
    **dict.fromkeys(("expires_at_ms", "expires_in_ms"), "expires_in"),
    "unique": "key",
    "after": "after",
    "limits": "limit",
    "target": "target",
    "fair": "fair_by",
    "ordered": "ordered_by",
    "shared_by": "fair_by",
}
_PLAIN = NewJob(type="", queue="")


class Batch(BatchKey):
    """A named group of jobs with counts: what `jobs.batch(...)`, `jobs.get_batch(...)` and `ctx.batch` return.

    batch = jobs.batch("import 42", on_finish=report)
    batch.add(load.bind(1), load.bind(2))
    batch.seal()
    print(batch.counts().failed)
    """

    def __init__(self, queue: Queue, batch_id: int, name: str) -> None:
        super().__init__(batch_id, name)
        self._queue = queue

    def add(self, *calls: Calls, connection: object = None) -> list[Job]:
        """Write jobs of this batch, all in one transaction, and return them: `batch.add(load.bind(1), load.bind(2))`.

        Also later, from another process, or from inside the batch's own jobs, until it is sealed. Then, `BatchSealed`
        is raised. A job that exists already, because of its key, is returned, and does not become part of the batch.
        """
        return self._queue.call(lambda: _add(self._queue, self.id, calls, connection))

    async def aadd(self, *calls: Calls, connection: object = None) -> list[Job]:
        """`add`, for async code."""
        return await self._queue.acall(lambda: _add(self._queue, self.id, calls, connection))

    def seal(self, *, connection: object = None) -> bool:
        """Add no more jobs; return whether the batch was open. If all jobs have ended, it has finished now.

        It waits for open transactions that have added jobs.
        """
        return self._queue.call(lambda: seal_batch(self._queue, self, connection=connection))

    async def aseal(self, *, connection: object = None) -> bool:
        """`seal`, for async code."""
        return await self._queue.acall(lambda: seal_batch(self._queue, self, connection=connection))

    def counts(self, *, connection: object = None) -> BatchInfo:
        """Return how many jobs wait, run and ended how, and whether the batch has finished."""
        return self._queue.call(lambda: read_batch(self._queue, self, connection=connection))

    async def acounts(self, *, connection: object = None) -> BatchInfo:
        """`counts`, for async code."""
        return await self._queue.acall(lambda: read_batch(self._queue, self, connection=connection))

    def cancel(self, reason: str | None = None, *, actor: str | None = None, connection: object = None) -> int:
        """Cancel all jobs that have not ended; return how many were cancelled or asked to end. It does not seal."""
        return self._queue.call(lambda: cancel_batch(self._queue, self, reason, actor=actor, connection=connection))

    async def acancel(self, reason: str | None = None, *, actor: str | None = None, connection: object = None) -> int:
        """`cancel`, for async code."""
        return await self._queue.acall(
            lambda: cancel_batch(self._queue, self, reason, actor=actor, connection=connection)
        )

    def retry(self, *, rate: float | None = None, actor: str | None = None, connection: object = None) -> int:
        """Run the failed jobs again, and return how many. A finished batch finishes again when they have ended."""
        return self._queue.call(lambda: retry_batch(self._queue, self, rate=rate, actor=actor, connection=connection))

    async def aretry(self, *, rate: float | None = None, actor: str | None = None, connection: object = None) -> int:
        """`retry`, for async code."""
        return await self._queue.acall(
            lambda: retry_batch(self._queue, self, rate=rate, actor=actor, connection=connection)
        )

    def wait(self, timeout: float | timedelta | None = None) -> BatchInfo:
        """Wait until the batch has finished, and return its counts. `TimeoutError` if it has not finished in time."""
        return self._queue.call(lambda: _wait(self._queue, self.id, timeout))

    async def await_(self, timeout: float | timedelta | None = None) -> BatchInfo:
        """`wait`, for async code."""
        return await self._queue.acall(lambda: _wait(self._queue, self.id, timeout))

    def delete(self, *, connection: object = None) -> None:
        """Delete the batch, not its jobs. `BatchNotOver` if some of them have not ended."""
        self._queue.call(lambda: delete_batch(self._queue, self, connection=connection))

    async def adelete(self, *, connection: object = None) -> None:
        """`delete`, for async code."""
        await self._queue.acall(lambda: delete_batch(self._queue, self, connection=connection))


def new_batch(
    queue: Queue,
    name: str,
    *,
    on_finish: Follower = None,
    on_success: Follower = None,
    connection: object = None,
) -> Operation[Batch]:
    """Make a batch: a named group of jobs with counts. Add jobs to it, then seal it.

        batch = jobs.batch("import 42", on_finish=report)
        batch.add(load.bind(1), load.bind(2))
        batch.seal()

    `on_finish` is enqueued once when all jobs have ended, `on_success` once when all have succeeded: in the transaction
    that ends the last job, at or after the seal. Each is a task that takes no arguments or one, `batch: BatchInfo`,
    or a bound call.
    """
    problem = name_problem(name, LONGEST_NAME)
    checked_text("batch", name, None if problem is None else f"the name {problem}")
    finish, success = _callback(queue, "on_finish", on_finish), _callback(queue, "on_success", on_success)
    (batch_id,) = yield from write(queue, connection, _add_batch, name, finish, success)
    return Batch(queue, batch_id, name)


def _add_batch(dialect: Dialect, name: str, on_finish: str | None, on_success: str | None) -> Plan[list[int]]:
    return dialect.ask(ADD_BATCH, name, on_finish, on_success)


def get_batch(queue: Queue, batch: int, *, connection: object = None) -> Operation[Batch]:
    """Return the batch with that id, to add to it or to read its counts. `BatchNotFound` if there is none.

    >>> jobs.get_batch(7).counts()  # doctest: +SKIP
    """
    info = yield from read_batch(queue, batch, connection=connection)
    return Batch(queue, info.id, info.name)


def batch_of_job(queue: Queue, job_id: int) -> Operation[Batch | None]:
    """Return the batch that a job is in, or None."""
    found = yield from Read(groups.batch_of(queue.dialect, job_id))
    return None if found is None else Batch(queue, found.id, found.name)


def list_batches(queue: Queue, *, limit: int = 50, cursor: str | None = None) -> Operation[BatchPage]:
    """Return one page of batches with their counts, newest first. Pass its `next_cursor` as `cursor` to get the next.

    >>> [(one.name, one.progress) for one in jobs.list_batches().batches]  # doctest: +SKIP
    [('import 42', 0.412)]
    """
    most = checked_limit(limit, groups.LONGEST_PAGE)
    return (yield from Read(groups.list_batches(queue.dialect, id_before(cursor), most), snapshot=True))


def read_batch(queue: Queue, batch: BatchKey | BatchInfo | int, *, connection: object = None) -> Operation[BatchInfo]:
    return (yield from read(queue, connection, groups.read_batch, checked_batch_id(batch)))


def seal_batch(queue: Queue, batch: BatchKey | BatchInfo | int, *, connection: object = None) -> Operation[bool]:
    return (yield from write(queue, connection, groups.seal, checked_batch_id(batch)))


def delete_batch(queue: Queue, batch: BatchKey | BatchInfo | int, *, connection: object = None) -> Operation[None]:
    yield from write(queue, connection, groups.delete_batch, checked_batch_id(batch))


def cancel_batch(
    queue: Queue,
    batch: BatchKey | BatchInfo | int,
    reason: str | None = None,
    *,
    actor: str | None = None,
    connection: object = None,
) -> Operation[int]:
    chosen = yield from _existing(queue, batch, connection)
    changed = yield from job_actions.cancel(queue, reason=reason, batch=chosen, actor=actor, connection=connection)
    return changed if isinstance(changed, int) else 1


def retry_batch(
    queue: Queue,
    batch: BatchKey | BatchInfo | int,
    *,
    rate: float | None = None,
    actor: str | None = None,
    connection: object = None,
) -> Operation[int]:
    chosen = yield from _existing(queue, batch, connection)
    changed = yield from job_actions.retry(queue, batch=chosen, rate=rate, actor=actor, connection=connection)
    return changed if isinstance(changed, int) else 1


def _existing(queue: Queue, batch: BatchKey | BatchInfo | int, connection: object) -> Operation[int]:
    return (yield from read_batch(queue, batch, connection=connection)).id


def _add(queue: Queue, batch_id: int, calls: Iterable[Calls], connection: object) -> Operation[list[Job]]:
    jobs: dict[int, tuple[NewJob, NewJob]] = {}  # of many calls, most have the same job
    members: list[Bound] = []
    for call in _flat(calls):
        if not isinstance(call, Bound):
            raise InvalidOption("call", f"must be a task that is bound to its arguments, task.bind(…), got {call!r}")
        job = call.job
        if id(job) not in jobs:
            jobs[id(job)] = job, msgspec.structs.replace(job, batch_id=batch_id)
        members.append(Bound(jobs[id(job)][1], call.payload))
    return (yield from enqueue_each(queue, members, connection))


def _flat(calls: Iterable[object]) -> Iterator[object]:
    for call in calls:
        if isinstance(call, Iterable) and not isinstance(call, str | bytes):
            yield from call
        else:
            yield call


def _wait(queue: Queue, batch_id: int, timeout: float | timedelta | None) -> Operation[BatchInfo]:
    seconds = None if timeout is None else seconds_of("timeout", timeout)
    until = None if seconds is None else queue.clock.timer() + seconds
    pause = FIRST_CHECK_SECONDS
    while True:
        info = yield from Read(groups.read_batch(queue.dialect, batch_id), snapshot=True)
        if info.finished_at is not None:
            return info
        left = None if until is None else until - queue.clock.timer()
        if left is not None and left <= 0:
            problem = f"{info.ended} of {info.total} jobs have ended, and it is {info.status}"
            raise TimeoutError(f"batch {batch_id} has not finished within {seconds:g} s: {problem}")
        member = next(iter((yield from Read(queue.dialect.ask(OPEN_MEMBER, batch_id)))), None)
        if member is not None:  # the last one: then few are left
            with end_waiter(queue).waiting(member) as end:
                yield from WaitFor(end, left)
            continue
        if info.sealed_at is not None:
            yield from Write(finish_over, queue.dialect, (batch_id,), wait=False)
        yield from Sleep(pause if left is None else min(pause, left))
        pause = min(2 * pause, LAST_CHECK_SECONDS)


def _callback(queue: Queue, option: str, follower: object) -> str | None:
    """Return what is stored of a task that follows the end of a batch."""
    if follower is None:
        return None
    if isinstance(follower, str):
        problem = name_problem(follower)
        checked_text(option, follower, problem)
    call, payload = _called(queue, option, follower)
    job = call.job
    for field, name in _NOT_OF_CALLBACKS.items():
        if getattr(job, field) != getattr(_PLAIN, field):
            problem = f"cannot be an option of {option}, because the database enqueues its job"
            raise InvalidOption(name, f"{problem}; remove it from {job.type!r}")
    encryption = queue.declared.options.encrypt
    if encryption is not None and (payload not in (None, "{}") or encryption.require):
        problem = "cannot have arguments while arguments are encrypted: the database enqueues its job"
        raise InvalidOption(option, f"{problem}; let {job.type!r} take batch: BatchInfo, and require no encryption")
    callback = Callback(
        type=job.type,
        queue=job.queue,
        priority=job.priority,
        max_attempts=job.max_attempts,
        timeout_seconds=job.timeout_seconds,
        retry=job.retry,
        tags=None if job.tags is None else list(tags_from_row(job.tags)),
        on_end=None if job.on_end is None else msgspec.json.decode(job.on_end),
        payload=payload,
    )
    return callback_to_text(callback)


def _called(queue: Queue, option: str, follower: object) -> tuple[Bound, str | None]:
    """Return the call, and its payload; None if the batch is its argument."""
    if isinstance(follower, Bound):
        return follower, follower.payload
    if not isinstance(follower, str) and not callable(getattr(follower, "bind", None)):
        raise InvalidOption(option, f"must be a task, a bound call or the name of a task, got {follower!r}")
    try:
        return bind(queue, follower, (), {ARGUMENT: _EXAMPLE}), None
    except InvalidArguments:
        pass
    try:
        call = bind(queue, follower, (), {})
    except InvalidArguments as error:
        expected = "must take no arguments, or one, batch: BatchInfo; or pass a call with its arguments, task.bind(…)"
        raise InvalidOption(option, f"{expected}; got {follower!r}") from error
    return call, call.payload
