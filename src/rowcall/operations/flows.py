"""Chains and graphs of jobs: written at once, looked at, completed and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import NamedTuple

import msgspec

from rowcall.declare.option_checks import awaited_of, one_or_more
from rowcall.domain.errors import InvalidOption, RowcallError
from rowcall.domain.job import FINISHED, Chain, ChainPage, Job, Status
from rowcall.domain.payload import result_to_json
from rowcall.operations.control import actor_of, reason_of
from rowcall.operations.enqueue_related import Ordering
from rowcall.operations.inspect import checked_id
from rowcall.store.flows import chains
from rowcall.store.flows.enqueue import Order
from rowcall.store.flows.queries import ChainFilter
from rowcall.store.jobs import inspect
from rowcall.store.new_job import NewJob


class Bound(NamedTuple):
    """A call that is not enqueued yet: what `task.bind(...)` gives."""

    job: NewJob
    payload: str


class Node:
    """A job of a flow; `job` is there once the flow is enqueued."""

    def __init__(self, flow: Flow, place: int) -> None:
        self.flow = flow
        self.place = place
        self.job: Job | None = None


After = Node | Job | Chain | int


class Flow:
    """A graph of jobs that is written in one transaction: what `jobs.flow()` gives.

        flow = jobs.flow()
        parts = [flow.add(resize.bind(path, size)) for size in (64, 256)]
        flow.add(publish.bind(path), after=parts)
        flow.enqueue()

    Or `with jobs.flow() as flow:`, which enqueues at the end of the block, unless that ends by an exception.
    """

    def __init__(self, jobs: Flows, connection: object = None) -> None:
        self._jobs = jobs
        self._connection = connection
        self._orders: list[Order] = []
        self._nodes: list[Node] = []
        self._enqueued = False

    def add(self, call: Bound, *, after: After | Iterable[After] = ()) -> Node:
        """Add a job that starts when all of `after` have succeeded: nodes of this flow, existing jobs and chains.

        `ctx.blockers` has their results in the order given. What was given to `using(after=…)` comes first.
        """
        return self._add(call, after, None, 0)

    def add_chain(self, calls: Sequence[Bound], *, after: After | Iterable[After] = ()) -> Node:
        """Steps of which each starts when the one before has succeeded; gives the last, for others to wait for."""
        if not calls:
            raise InvalidOption("calls", "a chain has at least one step")
        for call in calls:
            step_job(call)
        first = len(self._orders)
        node = self._add(calls[0], after, first, 0)
        for index, call in enumerate(calls[1:], start=1):
            node = self._add(call, node, first, index)
        return node

    def enqueue(self) -> list[Job]:
        """Write all of it, or nothing; the jobs come in the order in which they were added."""
        orders = self._taken()
        try:
            return self._written(self._jobs.place(orders, self._connection))
        except RowcallError:  # nothing was written
            self._enqueued = False
            raise

    async def aenqueue(self) -> list[Job]:
        orders = self._taken()
        try:
            return self._written(await self._jobs.aplace(orders, self._connection))
        except RowcallError:
            self._enqueued = False
            raise

    def __enter__(self) -> Flow:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.enqueue()

    async def __aenter__(self) -> Flow:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.aenqueue()

    def _add(self, call: Bound, after: After | Iterable[After], chain: int | None, index: int) -> Node:
        if self._enqueued:
            raise InvalidOption("flow", "is enqueued already; begin another with jobs.flow()")
        job = step_job(call)
        given = tuple(self._place_of(one) if isinstance(one, Node) else awaited_of(one) for one in one_or_more(after))
        self._orders.append(Order(job=job, payload=call.payload, after=given, chain=chain, chain_index=index))
        node = Node(self, len(self._orders) - 1)
        self._nodes.append(node)
        return node

    def _place_of(self, node: Node) -> int:
        if node.flow is not self:
            raise InvalidOption("after", "names a job of another flow: enqueue that one first, and pass its jobs")
        return node.place

    def _taken(self) -> list[Order]:
        if self._enqueued:
            raise InvalidOption("flow", "is enqueued already; begin another with jobs.flow()")
        self._enqueued = True
        tracing = self._jobs.tracing
        context = tracing.carried() if tracing is not None else None
        if context is None:
            return self._orders
        return [
            msgspec.structs.replace(order, job=msgspec.structs.replace(order.job, trace_context=context))
            for order in self._orders
        ]

    def _written(self, jobs: list[Job]) -> list[Job]:
        ids = [job.id for job in jobs]
        for node, order in zip(self._nodes, self._orders, strict=True):
            job = jobs[node.place]
            if order.chain is not None:
                job = msgspec.structs.replace(job, chain_id=ids[order.chain], chain_index=order.chain_index)
            node.job = job
        return [node.job for node in self._nodes if node.job is not None]


class Flows(Ordering):
    def flow(self, *, connection: object = None) -> Flow:
        """A graph of jobs, to be written in one transaction: of ours, or of the connection that is lent."""
        return Flow(self, connection)

    def start_chain(self, steps: Sequence[Bound], *, connection: object = None) -> Chain:
        """Steps of which each starts when the one before has succeeded, and can read its result (`ctx.previous`).

        >>> jobs.start_chain([fetch.bind("a.csv"), load.bind(), report.bind()])  # doctest: +SKIP
        """
        flow = self.flow(connection=connection)
        flow.add_chain(steps)
        return _started(flow.enqueue())

    async def astart_chain(self, steps: Sequence[Bound], *, connection: object = None) -> Chain:
        flow = self.flow(connection=connection)
        flow.add_chain(steps)
        return _started(await flow.aenqueue())

    def chain(self, chain_id: int) -> Chain:
        """The chain that began with this job, and its steps; `JobNotFound` if there is none."""
        return self._shown(self.read_together(lambda: chains.get(self.dialect, checked_id(chain_id))))

    async def achain(self, chain_id: int) -> Chain:
        chain = await self.aread_together(lambda: chains.get(self.dialect, checked_id(chain_id)))
        return await asyncio.get_running_loop().run_in_executor(None, self._shown, chain)

    def _shown(self, chain: Chain) -> Chain:
        """The chain with its real payloads and results, where those are large."""
        steps = tuple(map(self.blobs.shown, chain.steps))
        if all(shown is step for shown, step in zip(steps, chain.steps, strict=True)):
            return chain
        result = steps[-1].result if chain.status in FINISHED else None
        return msgspec.structs.replace(chain, steps=steps, result=result)

    def list_chains(
        self, *, type: str | None = None, status: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> ChainPage:
        """One page of chains, newest first; `type` is that of the first step, `status` that of the chain."""
        wanted = _wanted(type, status, limit, cursor)
        return self.read_together(lambda: chains.list_chains(self.dialect, wanted))

    async def alist_chains(
        self, *, type: str | None = None, status: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> ChainPage:
        wanted = _wanted(type, status, limit, cursor)
        return await self.aread_together(lambda: chains.list_chains(self.dialect, wanted))

    def complete_chain(self, chain_id: int, result: object = None, *, actor: str | None = None) -> Chain:
        """End a chain as succeeded from outside: its last step has this result, and what was before it is skipped."""
        given = self.blobs.stored("complete_chain", result_to_json("complete_chain", result))
        who = actor_of(actor)
        return self.write(lambda: chains.complete(self.dialect, checked_id(chain_id), given, who, self.now_ms()))

    async def acomplete_chain(self, chain_id: int, result: object = None, *, actor: str | None = None) -> Chain:
        given = await self.blobs.astored("complete_chain", result_to_json("complete_chain", result))
        who = actor_of(actor)
        return await self.awrite(lambda: chains.complete(self.dialect, checked_id(chain_id), given, who, self.now_ms()))

    def cancel_chain(self, chain_id: int, reason: str | None = None, *, actor: str | None = None) -> Chain:
        """Cancel the steps that wait, and ask the one that runs to end; what waits for the chain is cancelled, too."""
        said, who = reason_of(reason, self.failures), actor_of(actor)
        return self.write(lambda: chains.cancel(self.dialect, checked_id(chain_id), said, who, self.now_ms()))

    async def acancel_chain(self, chain_id: int, reason: str | None = None, *, actor: str | None = None) -> Chain:
        said, who = reason_of(reason, self.failures), actor_of(actor)
        return await self.awrite(lambda: chains.cancel(self.dialect, checked_id(chain_id), said, who, self.now_ms()))

    def delete_chain(self, chain_id: int, *, cascade: bool = False) -> int:
        """Delete a chain of which nothing runs; gives how many jobs that were.

        `StillNeeded` while other jobs wait for one of its steps; with `cascade` those are deleted, too.
        """
        return self.write(lambda: chains.delete(self.dialect, checked_id(chain_id), cascade=cascade))

    async def adelete_chain(self, chain_id: int, *, cascade: bool = False) -> int:
        return await self.awrite(lambda: chains.delete(self.dialect, checked_id(chain_id), cascade=cascade))


def step_job(call: object) -> NewJob:
    """The job of a bound call, as a step of a chain or a part of a flow can be."""
    if not isinstance(call, Bound):
        raise InvalidOption("call", f"wants a task that is bound to its arguments, task.bind(…), not {call!r}")
    if call.job.unique is not None:
        raise InvalidOption("key", f"{call.job.type!r}: a job of a chain or a flow cannot have a key")
    return call.job


def _started(jobs: Sequence[Job]) -> Chain:
    first = jobs[0]
    return Chain(
        id=first.id,
        type=first.type,
        queue=first.queue,
        status=first.status,
        length=len(jobs),
        current=first.id,
        created_at=first.created_at,
        steps=tuple(jobs),
    )


def _wanted(kind: str | None, status: str | None, limit: int, cursor: str | None) -> ChainFilter:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= inspect.LONGEST_PAGE:
        raise InvalidOption("limit", f"wants a whole number from 1 to {inspect.LONGEST_PAGE}, not {limit!r}")
    if status is not None and status not in list(Status):
        raise InvalidOption("status", f"wants one of {', '.join(Status)}, not {status!r}")
    before = None if cursor is None else inspect.id_of_cursor(cursor)
    return ChainFilter(type=kind, status=status, before_id=before, limit=limit)
