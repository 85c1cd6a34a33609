"""Write chains and graphs of jobs; read, complete, cancel and delete chains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Literal, NamedTuple

import msgspec

from rowcall.declare.option_checks import awaited_of, one_or_more
from rowcall.declare.option_table import ENQUEUE_OPTIONS, checked
from rowcall.domain.encryption import Kind
from rowcall.domain.errors import ChainNotFound, DuplicateJob, InvalidOption, RowcallError, WrongState
from rowcall.domain.job import FINISHED, Chain, ChainPage, Job, Status
from rowcall.domain.payload import result_to_json
from rowcall.drivers.blobs import refers
from rowcall.operations import blobs
from rowcall.operations.arguments import (
    checked_actor,
    checked_chain_id,
    checked_limit,
    checked_reason,
    checked_status,
    fitting_result,
    id_before,
)
from rowcall.operations.effects import Blocking, Read, joined, read, write
from rowcall.operations.enqueue import Bound, enqueue_related
from rowcall.queue import Operation, Queue
from rowcall.store.control import chains
from rowcall.store.jobs import inspect
from rowcall.store.new_job import NewJob, RelatedJob
from rowcall.store.queries.flows import ChainFilter, Unique


class Node:
    """A job of a flow; `job` is there once the flow is enqueued."""

    def __init__(self, flow: Flow, index: int) -> None:
        self.flow = flow
        self.index = index
        self.job: Job | None = None


After = Node | Job | Chain | int


class Flow:
    """A graph of jobs that is written in one transaction: what `jobs.flow()` returns.

        flow = jobs.flow()
        parts = [flow.add(resize.bind(path, size)) for size in (64, 256)]
        flow.add(publish.bind(path), after=parts)
        flow.enqueue()

    Or `with jobs.flow() as flow:`, which enqueues at the end of the block, unless it raises.
    """

    def __init__(self, queue: Queue, connection: object = None, key: FlowKey | None = None) -> None:
        self._queue = queue
        self._key = key
        self._connection = connection
        self._related: list[RelatedJob] = []
        self._nodes: list[Node] = []
        self._enqueued = False

    def __repr__(self) -> str:
        return f"<Flow of {len(self._nodes)} jobs, {'enqueued' if self._enqueued else 'not enqueued yet'}>"

    def add(self, call: Bound, *, after: After | Iterable[After] = ()) -> Node:
        """Add a job that starts when all of `after` have succeeded: nodes of this flow, existing jobs and chains.

        `ctx.blockers` has their results in the order given. What was given to `using(after=…)` comes first.
        """
        return self._add(call, after, None, 0)

    def add_chain(self, calls: Sequence[Bound], *, after: After | Iterable[After] = ()) -> Node:
        """Add steps, each of which starts when the one before has succeeded; return the last step."""
        return self._add_chain("calls", calls, after)

    def _add_chain(self, option: str, calls: Sequence[Bound], after: After | Iterable[After] = ()) -> Node:
        if not isinstance(calls, Sequence) or not all(isinstance(call, Bound) for call in calls):
            example = "a list of tasks that are bound to their arguments, [task.bind(…), …]"
            raise InvalidOption(option, f"must be {example}, got {calls!r}")
        if not calls:
            raise InvalidOption(option, "must have at least one step")
        for call in calls:
            step_job(call)
        first = len(self._related)
        node = self._add(calls[0], after, first, 0)
        for index, call in enumerate(calls[1:], start=1):
            node = self._add(call, node, first, index)
        return node

    def enqueue(self) -> list[Job]:
        """Write all of it, or nothing; return the jobs in the order in which they were added."""
        return self._queue.call(self._write)

    async def aenqueue(self) -> list[Job]:
        """`enqueue`, for async code."""
        return await self._queue.acall(self._write)

    def _write(self) -> Operation[list[Job]]:
        """Return the operation of `enqueue`."""
        if self._enqueued:
            raise _already_enqueued()
        self._enqueued = True
        try:
            whole = self._key is not None
            jobs = yield from enqueue_related(self._queue, self._with_key(), self._connection, whole=whole)
        except RowcallError:  # nothing was written
            self._enqueued = False
            raise
        return self._written(jobs)

    def __enter__(self) -> Flow:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.enqueue()

    async def __aenter__(self) -> Flow:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            await self.aenqueue()

    def _add(self, call: Bound, after: After | Iterable[After], chain: int | None, index: int) -> Node:
        if self._enqueued:
            raise _already_enqueued()
        job = step_job(call)
        given = tuple(self._index_of(one) if isinstance(one, Node) else awaited_of(one) for one in one_or_more(after))
        self._related.append(RelatedJob(job=job, payload=call.payload, after=given, chain=chain, chain_index=index))
        node = Node(self, len(self._related) - 1)
        self._nodes.append(node)
        return node

    def _index_of(self, node: Node) -> int:
        if node.flow is not self:
            raise InvalidOption("after", "names a job of another flow: enqueue that one first, and pass its jobs")
        return node.index

    def _with_key(self) -> list[RelatedJob]:
        related = self._traced()
        if self._key is None or not related:
            return related
        job = msgspec.structs.replace(related[0].job, key=self._key.key, unique=self._key.unique)
        return [msgspec.structs.replace(related[0], job=job), *related[1:]]

    def _traced(self) -> list[RelatedJob]:
        tracing = self._queue.declared.tracing
        context = tracing.carried() if tracing is not None else None
        if context is None:
            return self._related
        return [
            msgspec.structs.replace(item, job=msgspec.structs.replace(item.job, trace_context=context))
            for item in self._related
        ]

    def _written(self, jobs: list[Job]) -> list[Job]:
        if self._key is not None and jobs and jobs[0].duplicate:
            self._nodes[0].job = jobs[0]
            return jobs
        ids = [job.id for job in jobs]
        for node, item in zip(self._nodes, self._related, strict=True):
            job = jobs[node.index]
            if item.chain is not None:
                job = msgspec.structs.replace(job, chain_id=ids[item.chain], chain_index=item.chain_index)
            node.job = job
        return [node.job for node in self._nodes if node.job is not None]


class FlowKey(NamedTuple):
    """The key of a whole chain or flow, which its first job has."""

    key: str
    unique: Unique


def flow_key(key: str | None, key_window: float | timedelta | None, on_duplicate: str | None) -> FlowKey | None:
    options = checked({"key": key, "key_window": key_window, "on_duplicate": on_duplicate}, ENQUEUE_OPTIONS)
    if options.key is None:
        for option, value in (("key_window", key_window), ("on_duplicate", on_duplicate)):
            if value is not None:
                raise InvalidOption(option, "has no effect without a key; add key=…")
        return None
    if not isinstance(options.key, str):
        raise InvalidOption("key", f"must be a text for a chain or a flow, got {key!r}")
    if on_duplicate == "replace":
        raise InvalidOption("on_duplicate", 'must be "return" or "raise" for a chain or a flow, got "replace"')
    unique = Unique(scope="any", window_ms=options.key_window_ms, on_duplicate=on_duplicate or "return")
    return FlowKey(options.key, unique)


def start_chain(
    queue: Queue,
    steps: Sequence[Bound],
    *,
    key: str | None = None,
    key_window: float | timedelta | None = None,
    on_duplicate: Literal["return", "raise"] | None = None,
    connection: object = None,
) -> Operation[Chain]:
    """Enqueue steps, each of which starts when the one before has succeeded, and can read its result.

    >>> jobs.start_chain([fetch.bind("a.csv"), load.bind(), report.bind()])  # doctest: +SKIP

    With a `key`, which belongs to the first task, a second call returns the chain that exists, with `duplicate`
    set, or raises `DuplicateJob`; for `key_window` seconds, or for as long as the chain is kept.
    """
    flow = Flow(queue, connection, flow_key(key, key_window, on_duplicate))
    flow._add_chain("steps", steps)
    jobs = yield from flow._write()
    first = jobs[0]
    if first.duplicate:
        try:
            chain = yield from read(queue, connection, chains.get, checked_chain_id(first))
        except ChainNotFound:  # it was committed after the caller's transaction took its snapshot
            chain = yield from _committed_chain(queue, first)
        return msgspec.structs.replace(chain, duplicate=True)
    return Chain(
        id=first.id,
        type=first.type,
        queue=first.queue,
        status=first.status,
        length=len(jobs),
        current=first.id,
        created_at=first.created_at,
        steps=tuple(jobs),
        last_type=jobs[-1].type,
    )


def _committed_chain(queue: Queue, first: Job) -> Operation[Chain]:
    try:
        return (yield from Read(chains.get(queue.dialect, checked_chain_id(first)), snapshot=True))
    except ChainNotFound:
        raise DuplicateJob(first.type, first.key or "", first.id) from None


def get_chain(queue: Queue, chain: Chain | Job | int) -> Operation[Chain]:
    """Return the chain with its steps. `JobNotFound` if there is none with this id."""
    stored = yield from Read(chains.get(queue.dialect, checked_chain_id(chain)), snapshot=True)
    if not any(map(refers, stored.steps)):
        return stored
    steps = tuple((yield from Blocking(lambda: [queue.blobs.shown(step) for step in stored.steps])))
    result = steps[-1].result if stored.status in FINISHED else None
    return msgspec.structs.replace(stored, steps=steps, result=result)


def list_chains(
    queue: Queue, *, type: str | None = None, status: str | None = None, limit: int = 50, cursor: str | None = None
) -> Operation[ChainPage]:
    """Return one page of chains, newest first; `type` is that of the first step, `status` that of the chain."""
    chain_filter = ChainFilter(
        type=type,
        status=checked_status(status),
        before_id=id_before(cursor),
        limit=checked_limit(limit, inspect.LONGEST_PAGE),
    )
    return (yield from Read(chains.list_chains(queue.dialect, chain_filter), snapshot=True))


def complete_chain(
    queue: Queue,
    chain: Chain | Job | int,
    result: object = None,
    *,
    actor: str | None = None,
    connection: object = None,
) -> Operation[Chain]:
    """End a chain as succeeded from outside: its last step has this result, and steps before it are skipped."""
    chain_id, who = checked_chain_id(chain), checked_actor(actor)
    connection = yield from joined(queue, connection)
    text = result_to_json("complete_chain", result)
    last_type = None
    if queue.backend.cipher is not None:
        last_type = (yield from read(queue, connection, chains.get, chain_id)).last_type
    stored = yield from blobs.store(queue, "complete_chain", text, Kind.RESULT, last_type)

    def check(task: str) -> None:
        fitting_result(queue, task, result)
        if last_type not in (None, task):  # the result could not be decrypted
            problem = f"its chain has already continued with {task!r}; complete it again"
            raise WrongState(chain_id, Status.RUNNING, "complete the chain of", [], problem)

    make_plan = blobs.safe_on(connection, chains.complete, stored)
    return (yield from write(queue, connection, make_plan, chain_id, stored, who, check))


def cancel_chain(
    queue: Queue,
    chain: Chain | Job | int,
    reason: str | None = None,
    *,
    actor: str | None = None,
    connection: object = None,
) -> Operation[Chain]:
    """Cancel the steps that wait, and ask the running one to end. Jobs that wait for the chain are, too."""
    why, who = checked_reason(reason, queue.declared.failures), checked_actor(actor)
    return (yield from write(queue, connection, chains.cancel, checked_chain_id(chain), why, who))


def delete_chain(
    queue: Queue, chain: Chain | Job | int, *, cascade: bool = False, connection: object = None
) -> Operation[int]:
    """Delete a chain of which no step runs; return how many jobs were deleted.

    `StillNeeded` while other jobs wait for one of its steps; with `cascade` those are deleted too.
    """
    return (yield from write(queue, connection, chains.delete, checked_chain_id(chain), cascade=cascade))


def _already_enqueued() -> InvalidOption:
    return InvalidOption("flow", "is enqueued already; begin another with jobs.flow()")


def step_job(call: object, option: str = "call") -> NewJob:
    """Return the job of a bound call, if it can be a step of a chain or a part of a flow."""
    if not isinstance(call, Bound):
        raise InvalidOption(option, f"must be a task that is bound to its arguments, task.bind(…), got {call!r}")
    if call.job.unique is not None:
        raise InvalidOption("key", f"{call.job.type!r}: a job of a chain or a flow cannot have a key")
    return call.job
