"""The next steps of chains, which are written in the transaction that settles the step before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rowcall.domain.errors import StepTaken
from rowcall.domain.job import FINISHED
from rowcall.store.blobs.references import refer_to
from rowcall.store.dialect import Dialect
from rowcall.store.ends.after import resolve
from rowcall.store.flows.blockers import gone
from rowcall.store.flows.inserted import insert_each, link_traces
from rowcall.store.new_job import NewJob
from rowcall.store.queries.flows import (
    ENDS_OF,
    INSERT_EDGES,
    MARK_CHAINS,
    STANDING,
    TAKEN_STEPS,
    Edge,
    EndedEdge,
    UnsureEdge,
)
from rowcall.store.statement import Plan


class Then(msgspec.Struct, frozen=True):
    """The next step of a chain, which is written together with the success of the one before."""

    job: NewJob
    payload: str
    begins: bool = False
    """Whether the job before it was not in a chain until now."""

    def after(self, job_id: int, chain_id: int | None, chain_index: int | None) -> Then:
        """Return it as the step after that job."""
        begins = chain_id is None
        next_chain_id, next_index = (job_id, 1) if begins else (chain_id, (chain_index or 0) + 1)
        blocked = bool(self.job.after)
        job = msgspec.structs.replace(self.job, chain_id=next_chain_id, chain_index=next_index, blocked=blocked)
        return Then(job, self.payload, begins)


def refuse_taken(dialect: Dialect, steps: Sequence[Then]) -> Plan[None]:
    wanted = [(then.job.chain_id, then.job.chain_index) for then in steps]
    for chain_id, chain_index in sorted((yield from dialect.ask(TAKEN_STEPS, wanted))):
        raise StepTaken(f"chain {chain_id} already has a step {chain_index}, from its start or from an earlier attempt")


def write_next_steps(dialect: Dialect, steps: Mapping[int, Then]) -> Plan[None]:
    """Write the next steps of chains. A job that was not in a chain until now is marked as the first step."""
    if not steps:
        return
    first = [(job_id, job_id, 0) for job_id, then in steps.items() if then.begins]
    if first:
        yield from dialect.ask(MARK_CHAINS, first)
    inserted = yield from insert_each(dialect, [(then.job, then.payload) for then in steps.values()])
    yield from refer_to(dialect, [then.payload for then in steps.values()], [row.id for row in inserted])
    written = [(row.id, then.job) for row, then in zip(inserted, steps.values(), strict=True)]
    yield from _wait_for_others(dialect, written)


def _wait_for_others(dialect: Dialect, jobs: Sequence[tuple[int, NewJob]]) -> Plan[None]:
    """Write the edges of jobs that were just inserted as blocked. A blocker that is gone has failed."""
    edges: list[Edge] = []
    ended: list[EndedEdge] = []
    over: list[tuple[int, int]] = []
    awaited = {one.blocker for _, job in jobs for one in job.after}
    if not awaited:
        return
    (standing,) = yield from dialect.ask(STANDING, [(one.job_id, int(one.of_chain)) for one in awaited])
    for job_id, job in jobs:
        for number, (blocker, *_) in enumerate(job.after):
            ends = (blocker.job_id, int(blocker.of_chain), job_id)
            if blocker.job_id < job_id:  # a higher id never existed, and the table refuses it
                edges.append(Edge(*ends, number, job.on_blocker_failure, unsure=1))
            if blocker not in standing:
                ended.append(gone(UnsureEdge(*ends, job.on_blocker_failure)))
            elif standing[blocker].status in FINISHED:
                over.append((blocker.job_id, job_id))
    yield from dialect.ask(INSERT_EDGES, edges)
    for job_id, job in jobs:
        yield from link_traces(dialect, job_id, job.trace_context, job.after, standing)
    if over:
        ended += (yield from dialect.ask(ENDS_OF, over))[0]
    yield from resolve(dialect, ended)
