"""Enqueue jobs: by the task's name here, by its function through `rowcall.task`."""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar, Unpack

from msgspec.structs import replace

from rowcall.base.effects import Effect
from rowcall.base.text import did_you_mean, one_line
from rowcall.base.times import time_of
from rowcall.context import logger
from rowcall.declare.enqueue_call import changed
from rowcall.declare.fairness import shared
from rowcall.declare.limits import derived, host_limits, limited, with_derived
from rowcall.declare.option_checks import key_problem
from rowcall.declare.option_table import ENQUEUE_OPTIONS, EnqueueOptions, Options, check_push, checked, new_job
from rowcall.domain.blobs import reference_of
from rowcall.domain.checks import name_problem
from rowcall.domain.encryption import Kind
from rowcall.domain.errors import DuplicateJob, InvalidOption, UnknownEvent, in_row
from rowcall.domain.job import Job, Status
from rowcall.domain.limits import TaskLimit
from rowcall.domain.payload import payload_from_row, tags_from_row, untyped_to_json
from rowcall.drivers.caller.adapter import several_statements
from rowcall.drivers.patience import patience_for
from rowcall.drivers.transaction_block import Block, innermost, innermost_connection
from rowcall.operations import blobs
from rowcall.operations.effects import (
    Blocking,
    EnsureSchema,
    FindSurrounding,
    OnCallerConnection,
    Read,
    Write,
    joined,
    open_target,
)
from rowcall.queue import Operation, Queue
from rowcall.store.enqueue.keys import Committed, lock_keys, read_committed
from rowcall.store.enqueue.once import Once, find_earlier, write_once
from rowcall.store.enqueue.related import write_related
from rowcall.store.jobs import enqueue as plans
from rowcall.store.jobs.enqueue import Member
from rowcall.store.new_job import Inserted, NewJob, RelatedJob

Self = TypeVar("Self", bound="Transaction")

_UNDECLARED = Options()
MOST_UNDECLARED = 10_000
_STATUSES = {status.value: status for status in Status}


class Bound:
    """A call that is not enqueued yet: what `task.bind(...)` returns."""

    def __init__(self, job: NewJob | Callable[[], NewJob], payload: str) -> None:
        self._job = job
        self.payload = payload

    @property
    def job(self) -> NewJob:
        """Return the job. It may change until the queue is configured."""
        return self._job() if callable(self._job) else self._job

    def __repr__(self) -> str:
        return f"<{self.job.type!r} bound to {reprlib.repr(self.payload)}>"


class WriteShared(Effect[Queue, Inserted]):
    """Write one job, in a commit that other threads and tasks of this process may share."""

    __slots__ = ("_member",)

    def __init__(self, member: Member) -> None:
        self._member = member

    def run(self, queue: Queue) -> Inserted:
        backend = queue.backend
        if not backend.is_schema_ready():
            backend.ensure_schema()
        return backend.database.shared.submit(self._member)

    def arun(self, queue: Queue) -> Awaitable[Inserted]:
        if queue.backend.is_schema_ready():
            return queue.database.shared.asubmit(self._member)
        return self._arun_first(queue)

    async def _arun_first(self, queue: Queue) -> Inserted:
        await queue.backend.aensure_schema()
        return await queue.database.shared.asubmit(self._member)


def enqueue_by_name(
    queue: Queue, /, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
) -> Operation[Job]:
    """Enqueue by name, from code that does not have the function.

    >>> jobs.enqueue("send_email", {"to": "a@example.com"}, priority=10)  # doctest: +SKIP
    """
    given = checked(options, ENQUEUE_OPTIONS)
    call = bind_by_name(queue, task, arguments, given)
    (job,) = yield from enqueue(queue, call.job, [call.payload], given.connection)
    return job


def publish(
    queue: Queue, /, event: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
) -> Operation[list[Job]]:
    """Enqueue one job for each task that runs on an event, all in one transaction, and return the jobs.

        @jobs.task(on="order.paid")
        def send_receipt(order_id: int) -> None: ...

        @jobs.task(on=["order.paid", "order.refunded"])
        def update_stock(order_id: int) -> None: ...

        jobs.publish("order.paid", {"order_id": 7})          # two jobs

    Every task must accept the arguments, or nothing is written. The options are those of `enqueue`, for each of
    the jobs. Raise `UnknownEvent` if this process declares no task that runs on the event.
    """
    if problem := name_problem(event):
        raise InvalidOption("event", problem)
    checked_options = checked(options, ENQUEUE_OPTIONS)
    declared = {task.name: task.options.on for task in queue.declared.tasks.values()}
    tasks = [name for name, events in declared.items() if event in events]
    if not tasks:
        raise UnknownEvent(event, sorted({name for events in declared.values() for name in events}))
    calls = [bind_by_name(queue, task, arguments, checked_options) for task in tasks]
    return (yield from enqueue_each(queue, calls, checked_options.connection))


def enqueue_many_by_name(
    queue: Queue, task: str, rows: Sequence[Mapping[str, object]], options: EnqueueOptions
) -> Operation[list[Job]]:
    """Write one job for each dict of arguments, all in one transaction."""
    checked_options = checked(options, ENQUEUE_OPTIONS)
    calls: list[Bound] = []
    for row in rows:
        with in_row(rows, len(calls)):
            calls.append(bind_by_name(queue, task, row, checked_options))
    return (yield from enqueue_each(queue, calls, checked_options.connection))


def bind_by_name(queue: Queue, task: str, arguments: Mapping[str, object] | None, options: Options) -> Bound:
    """Return a call of a task that may be declared in this process or not."""
    call = plain_call(queue, task, arguments, options)
    if task not in queue.declared.tasks:
        _warn_of_typo(queue, task)
    return through_middleware(queue, task, call.payload, options) if queue.declared.enqueue_middleware else call


def _warn_of_typo(queue: Queue, task: str) -> None:
    """Warn once of a name that resembles that of a declared task. A producer need not declare what it enqueues."""
    if task in queue.declared.undeclared:
        return
    if len(queue.declared.undeclared) >= MOST_UNDECLARED:  # names are generated, perhaps one per job
        queue.declared.undeclared.clear()
    queue.declared.undeclared.add(task)
    if hint := did_you_mean(task, queue.declared.tasks):
        logger.warning("enqueued task %s, which this process does not declare%s", one_line(repr(task)), one_line(hint))


def through_middleware(queue: Queue, task: str, payload: str, given: Options) -> Bound:
    """Return a call as the app's enqueue middleware has changed it."""
    arguments, options = changed(task, payload_from_row(payload), given, queue.declared.enqueue_middleware)
    return plain_call(queue, task, arguments, options)


def plain_call(queue: Queue, task: str, arguments: object, options: Options, *, final: bool = True) -> Bound:
    """Return a call without enqueue middleware. `final`: the queue is configured."""
    if problem := name_problem(task):
        raise InvalidOption("task", problem)
    declared, push = queue.declared.tasks.get(task), queue.declared.options.push
    if final:
        check_push(task, _UNDECLARED if declared is None else declared.options, options, push)
    if declared is not None:
        payload = declared.payload_of({} if arguments is None else arguments)
        job = queue.declared.follow_ups.applied(new_job(task, declared.options, options, queue.declared.options))
        job = limited(job, declared.limits_for(options, queue.declared.limits, push))
        return Bound(shared(job, declared.sharing, queue.declared.fair_queues.get(job.queue)), payload)
    job = queue.declared.follow_ups.applied(new_job(task, _UNDECLARED, options, queue.declared.options))
    queue.declared.limits.check_given(options.limits or ())
    limits = tuple(TaskLimit(limit) for limit in options.limits or ()) + host_limits(options.target, push)
    job = limited(job, limits if options.limits is not None else limits or None)
    job = shared(job, None, queue.declared.fair_queues.get(job.queue))
    return Bound(job, untyped_to_json(task, {} if arguments is None else arguments))


def bind(queue: Queue, task: object, args: tuple[object, ...], arguments: dict[str, object]) -> Bound:
    """Return a call of a task, of a task with options, or of one that is known by its name only."""
    if isinstance(task, Bound):
        if args or arguments:
            raise InvalidOption("task", "is bound to its arguments already")
        return task
    if isinstance(task, str):
        if args:
            raise InvalidOption("task", f"{task!r} is only a name: pass its arguments by name")
        return bind_by_name(queue, task, arguments, _UNDECLARED)
    bind = getattr(task, "bind", None)
    if bind is None:
        raise InvalidOption("task", f"must be a task, a task with options or a name, got {task!r}")
    call: Bound = bind(*args, **arguments)
    return call


def enqueue(queue: Queue, job: NewJob, payloads: Sequence[str], connection: object = None) -> Operation[list[Job]]:
    """Write one job for each payload, all in one transaction, and return them."""
    write = _enqueue if queue.declared.tracing is None or not payloads else _enqueue_traced
    return write(queue, job, payloads, connection)


def _enqueue_traced(queue: Queue, job: NewJob, payloads: Sequence[str], connection: object) -> Operation[list[Job]]:
    assert queue.declared.tracing is not None
    with queue.declared.tracing.sending(job, len(payloads)) as sending:
        written = yield from _enqueue(queue, sending.job, payloads, connection)
        sending.written(written)
        return written


def _enqueue(queue: Queue, job: NewJob, payloads: Sequence[str], connection: object) -> Operation[list[Job]]:
    if not payloads:
        return []
    if not job.is_alone:
        related = [RelatedJob(job=job, payload=payload) for payload in payloads]
        return (yield from _enqueue_rows(queue, related, connection))
    backend = queue.backend
    backend.check_may_write()
    if connection is None and innermost.get() is not None:  # not by `joined`, which costs every enqueue
        connection = innermost_connection(backend.database)
    if connection is None and backend.surrounding is not None:
        connection = yield from FindSurrounding()
    # before the wait, after which the processor's caches know none of this
    arguments = list(map(payload_from_row, payloads))
    columns = None if job.is_derived else [derived(job, values) for values in arguments]
    target = None if connection is None else (yield from open_target(queue, connection))
    stored, referring = payloads, False
    if max(map(len, payloads)) > backend.blobs.inline_length:
        yield from EnsureSchema()
        stored = yield from Blocking(backend.blobs.all_stored, job.type, payloads)
        referring = any(reference_of(text) is not None for text in stored)
    if target is None and len(stored) == 1 and not referring:  # a single statement
        inserted = [(yield WriteShared(Member(job, stored[0], None if columns is None else columns[0])))]
    else:
        dialect = queue.dialect if target is None else target[1]
        make_plan = partial(plans.enqueue, dialect, job, stored, columns, referring=referring)
        with patience_for(len(stored)):
            if target is None:
                inserted = yield from Write(make_plan)
            else:
                plan = blobs.on_caller_connection(dialect, stored, make_plan()) if referring else make_plan()
                inserted = yield from OnCallerConnection(target[0], plan)
    return _written_jobs(job, arguments, inserted)


def enqueue_once(queue: Queue, calls: Sequence[Bound], name: str, digest: str, window_ms: int) -> Operation[list[Job]]:
    """Write calls in one transaction, or return the jobs of the earlier request of this name that still exist.

    A request with another `digest` is refused.
    """
    once = Once(name, digest, window_ms)
    earlier = yield from Read(find_earlier(queue.dialect, once))
    return (yield from enqueue_each(queue, calls, once=once)) if earlier is None else earlier


def enqueue_each(
    queue: Queue, calls: Sequence[Bound], connection: object = None, once: Once | None = None
) -> Operation[list[Job]]:
    """Write calls, each with its options, all in one transaction. `once`: see `write_once`."""
    jobs = [call.job for call in calls]
    if once is None and all(job == jobs[0] for job in jobs):
        return (yield from enqueue(queue, jobs[0], [call.payload for call in calls], connection)) if jobs else []
    related = [RelatedJob(job=job, payload=call.payload) for job, call in zip(jobs, calls, strict=True)]
    if queue.declared.tracing is None:
        return (yield from _enqueue_rows(queue, related, connection, once))
    with queue.declared.tracing.sending(jobs[0], len(jobs)) as sending:
        context = sending.job.trace_context
        related = [replace(item, job=replace(item.job, trace_context=context)) for item in related]
        written = yield from _enqueue_rows(queue, related, connection, once)
        sending.written(written)
        return written


def _written_jobs(job: NewJob, arguments: Sequence[dict[str, object]], inserted: Sequence[Inserted]) -> list[Job]:
    first = written_job(job, arguments[0], inserted[0])  # all of one call share their times
    rows = zip(inserted[1:], arguments[1:], strict=True)
    return [first, *[replace(first, id=row.id, payload=values) for row, values in rows]]


def _enqueue_rows(
    queue: Queue, related: Sequence[RelatedJob], connection: object, once: Once | None = None
) -> Operation[list[Job]]:
    """Write the rows of one call in one transaction: the caller's, or one of the queue."""
    keyed: list[RelatedJob] = []
    for item in related:
        with in_row(related, len(keyed)):
            if item.job.detached is not None:
                raise InvalidOption(
                    "detach", "has no effect but in ctx.call: no other job is cancelled with its parent"
                )
            keyed.append(with_key(item))
    try:
        return (yield from enqueue_related(queue, keyed, connection, once=once))
    except DuplicateJob as error:
        with in_row(keyed, [(item.job.type, item.job.key) for item in keyed].index((error.task, error.key))):
            raise


def enqueue_related(
    queue: Queue,
    related: Sequence[RelatedJob],
    connection: object,
    *,
    whole: bool = False,
    once: Once | None = None,
) -> Operation[list[Job]]:
    """Write all of them in one transaction: the caller's, or one of the queue. `whole`: see `write_related`."""
    with patience_for(len(related)):
        return (yield from _enqueue_related(queue, related, connection, whole, once))


def _enqueue_related(
    queue: Queue, related: Sequence[RelatedJob], connection: object, whole: bool, once: Once | None
) -> Operation[list[Job]]:
    queue.backend.check_may_write()
    write = write_related if once is None else partial(write_once, once)
    keyed = [with_key(item) for item in related]
    connection = yield from joined(queue, connection)
    if connection is None:
        stored = yield from stored_rows(queue, keyed)
        return _related_jobs(keyed, (yield from Write(write, queue.dialect, stored, whole=whole)))
    target, dialect = yield from open_target(queue, connection)
    if not (yield from OnCallerConnection(target, dialect.holds_together())):
        raise several_statements("a key, after= or a flow takes")
    stored = yield from stored_rows(queue, keyed)
    committed: Committed | None = None
    if any(item.job.unique for item in stored):
        seen = yield from OnCallerConnection(target, lock_keys(dialect, stored))
        if seen is not None:
            committed = yield from Read(read_committed(queue.dialect, stored, seen))
    plan = write(dialect, stored, committed, whole=whole)
    plan = blobs.on_caller_connection(dialect, [item.payload for item in stored], plan)
    return _related_jobs(keyed, (yield from OnCallerConnection(target, plan)))


def stored_rows(queue: Queue, related: Sequence[RelatedJob]) -> Operation[list[RelatedJob]]:
    """Return the jobs with references in place of large payloads."""
    stored: list[RelatedJob] = []
    for item in related:
        with in_row(related, len(stored)):
            payload = yield from blobs.store(queue, item.job.type, item.payload, Kind.ARGUMENTS)
        stored.append(item if payload is item.payload else replace(item, payload=payload))
    return stored


def with_key(item: RelatedJob) -> RelatedJob:
    """Return the job with the key and the columns that follow from its arguments."""
    if not item.job.is_derived:
        item = replace(item, job=with_derived(item.job, item.payload))
    job = item.job
    if job.key_of is None:
        return item
    arguments = payload_from_row(item.payload)
    try:
        key = job.key_of(**arguments)
    except TypeError as error:
        given = ", ".join(arguments) or "none"
        raise InvalidOption(
            "key", f"the function of {job.type!r} fails with the arguments given ({given}): {error}"
        ) from error
    if problem := key_problem(key):
        raise InvalidOption("key", f"the function of {job.type!r} returned a key that {problem}")
    return replace(item, job=replace(job, key=key, key_of=None))


def _related_jobs(related: Sequence[RelatedJob], enqueued: Sequence[Inserted | Job]) -> list[Job]:
    return [
        row if isinstance(row, Job) else written_job(item.job, payload_from_row(item.payload), row)
        for item, row in zip(related, enqueued, strict=False)  # a flow that exists is its first job alone
    ]


def written_job(job: NewJob, payload: dict[str, object], inserted: Inserted) -> Job:
    """Return a job as it has just been written."""
    run_at = time_of(inserted.run_at_ms)
    same = inserted.created_at_ms == inserted.run_at_ms
    return Job(
        id=inserted.id,
        type=job.type,
        queue=job.queue,
        payload=payload,
        status=_STATUSES[inserted.status],
        priority=job.priority,
        max_attempts=job.max_attempts,
        run_at=run_at,
        created_at=run_at if same else time_of(inserted.created_at_ms),
        expires_at=None if inserted.expires_at_ms is None else time_of(inserted.expires_at_ms),
        timeout=job.timeout_seconds,
        retry=job.retry,
        target=job.target,
        key=job.key,
        tags=() if job.tags is None else tags_from_row(job.tags),
        chain_id=job.chain_id,
        chain_index=job.chain_index,
        batch_id=job.batch_id,
        deadline_at=None if job.deadline_ms is None else time_of(inserted.run_at_ms + job.deadline_ms),
        parent_id=job.parent_id,
    )


class Transaction(Block):
    """A block whose jobs are all written at its end, or none of them: what `jobs.transaction()` returns.

        with jobs.transaction() as tx:
            charge.enqueue(order_id=1)
            with jobs.transaction():          # a savepoint
                send_email.enqueue("a@example.com", subject="Order confirmed")
            tx.enqueue("by_name", {"order_id": 1})

    Jobs that are enqueued inside the block, by the thread and the asyncio task that opened it, join it.
    Other threads and tasks join it with `connection=tx`.
    """

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue.database, queue.backend.open_transactions)
        self._queue = queue

    def __repr__(self) -> str:
        return f"<Transaction on {self._queue.database.name}>"

    def enqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """`jobs.enqueue`, in this transaction, from any thread."""
        options["connection"] = self
        return self._queue.run(enqueue_by_name(self._queue, task, arguments, **options))

    async def aenqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """`enqueue`, for async code."""
        options["connection"] = self
        return await self._queue.arun(enqueue_by_name(self._queue, task, arguments, **options))

    def __enter__(self: Self) -> Self:
        self._queue.backend.ensure_schema()
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        super().__exit__(kind, *error)
        if kind is None and self._queue.is_swapped:  # a test may run the jobs after each operation, and this ends one
            self._queue.run(EnsureSchema())

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        await super().__aexit__(kind, *error)
        if kind is None and self._queue.is_swapped:
            await self._queue.arun(EnsureSchema())

    async def __aenter__(self: Self) -> Self:
        await self._queue.backend.aensure_schema()
        return await super().__aenter__()
