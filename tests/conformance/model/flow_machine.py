"""The walks of the plain machine, through chains, blockers, keys and limits as well."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from rowcall import DuplicateJob, Job, Limit
from rowcall.app import queue_of
from rowcall.domain.errors import StepTaken
from rowcall.domain.job import FINISHED, Chain
from rowcall.domain.outcome import Succeeded
from rowcall.operations.effects import Read
from rowcall.operations.enqueue import Bound
from rowcall.store.ends.next_steps import Then
from rowcall.store.new_job import NewJob
from rowcall.store.statement import Row, Statement, fetch
from tests.conformance.model.ends import ENDS, WorkerClaim
from tests.conformance.model.flow_queue import ModelFlowQueue, Unique, Wait
from tests.conformance.model.job import JobOptions
from tests.conformance.model.machine import OPTIONS, PICK, QUEUES, STEERING, QueueMachine, enqueue_options
from tests.conformance.model.rows import compare
from tests.conformance.store import Store

KEYS = ("red", "blue")
WIDTHS = {"narrow": 1, "wide": 2}
LIMITS = {f"{name} {queue}": concurrency for name, concurrency in WIDTHS.items() for queue in QUEUES}
OnFailure = Literal["fail", "run", "wait"]
ON_FAILURES: tuple[OnFailure, ...] = ("fail", "fail", "run", "wait")
UNIQUES = st.builds(
    Unique,
    key=st.sampled_from(KEYS),
    scope=st.sampled_from(["active", "any"]),
    window=st.sampled_from([None, None, 30]),
    on_duplicate=st.sampled_from(["return", "replace", "raise"]),
)


class Step(NamedTuple):
    queue: str
    on_failure: str


STEPS = st.builds(Step, queue=st.sampled_from(QUEUES), on_failure=st.sampled_from(["fail", "fail", "run"]))


class FlowMachine(QueueMachine):
    model: ModelFlowQueue

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.model = ModelFlowQueue(self.clock.now, LIMITS)
        self.known: dict[int, Job] = {}
        self.asked = 0

    # coming in

    @initialize(several=st.lists(OPTIONS, min_size=2, max_size=3), steps=st.lists(STEPS, min_size=2, max_size=3))
    def begin_with_some_jobs(self, several: list[JobOptions], steps: list[Step]) -> None:
        self.enqueue_limited(several, "narrow", after=False)
        self.start_chain(steps)
        self.enqueue_after(several[0], [0], [0], "fail")
        for blocker_id in sorted(self.model.jobs, reverse=True)[1:3]:
            self._enqueue_after(several[0], [blocker_id], [], "run")

    @rule(
        options=OPTIONS,
        jobs=st.lists(PICK, max_size=3),
        chains=st.lists(PICK, max_size=1),
        on_failure=st.sampled_from(ON_FAILURES),
    )
    def enqueue_after(self, options: JobOptions, jobs: list[int], chains: list[int], on_failure: OnFailure) -> None:
        known, begun = sorted(self.model.jobs, reverse=True), self.model.chains()
        blockers = {known[pick % len(known)] for pick in jobs if known}
        awaited = {begun[pick % len(begun)] for pick in chains if begun}
        self._enqueue_after(options, blockers, awaited, on_failure)

    def _enqueue_after(
        self, options: JobOptions, blockers: Collection[int], awaited: Collection[int], on_failure: OnFailure
    ) -> None:
        after: list[Job | Chain | int] = [*sorted(blockers), *(self.jobs.chain(chain_id) for chain_id in awaited)]
        given = enqueue_options(options)
        given["after"], given["on_blocker_failure"] = after, on_failure
        job = self.jobs.enqueue("work", **given)
        waits = [Wait(job_id, False, on_failure) for job_id in blockers]
        waits += [Wait(chain_id, True, on_failure) for chain_id in awaited]
        self._written(job.id, options, waits=waits)

    @rule(several=st.lists(OPTIONS, min_size=1, max_size=3), width=st.sampled_from(sorted(WIDTHS)), after=st.booleans())
    def enqueue_limited(self, several: list[JobOptions], width: str, after: bool) -> None:
        for options in several:
            name = f"{width} {options.queue}"
            given = enqueue_options(options)
            given["limit"] = Limit(name, concurrency=LIMITS[name])
            waits = [Wait(max(self.model.jobs), False, "fail")] if after and self.model.jobs else []
            given["after"] = [wait.blocker_id for wait in waits]
            job = self.jobs.enqueue("work", **given)
            self._written(job.id, options, waits=waits, limit=name)

    @rule(steps=st.lists(STEPS, min_size=1, max_size=3))
    def start_chain(self, steps: list[Step]) -> None:
        chain = self.jobs.start_chain([_bound(step) for step in steps])
        before: int | None = None
        for index, (step, job) in enumerate(zip(steps, chain.steps, strict=True)):
            self.job_ids.append(job.id)
            waits = [] if before is None else [Wait(before, False, step.on_failure)]
            self.model.enqueue(job.id, JobOptions(step.queue), waits=waits, chain_id=chain.id, chain_index=index)
            before = job.id

    @rule(options=OPTIONS, unique=UNIQUES)
    def enqueue_with_key(self, options: JobOptions, unique: Unique) -> None:
        given = enqueue_options(options)
        given["key"], given["key_scope"], given["on_duplicate"] = unique.key, unique.scope, unique.on_duplicate
        if unique.window is not None:
            given["key_window"] = unique.window
        holder = self.model.holder(unique)
        if holder is not None and unique.on_duplicate == "raise":
            with pytest.raises(DuplicateJob) as refused:
                self.jobs.enqueue("work", **given)
            assert refused.value.job_id == holder.id
            return
        job = self.jobs.enqueue("work", **given)
        if holder is None:
            assert not job.duplicate
            self._written(job.id, options, key=unique.key)
            return
        assert (job.id, job.duplicate) == (holder.id, True)
        if unique.on_duplicate == "replace":
            self.model.replace(job.id, delay=options.delay, expires_in=options.expires_in)

    def _written(
        self,
        job_id: int,
        options: JobOptions,
        *,
        key: str | None = None,
        waits: list[Wait] | None = None,
        limit: str | None = None,
    ) -> None:
        self.job_ids.append(job_id)
        self.model.enqueue(job_id, options, key=key, waits=waits or [], limit=limit)

    # continuing

    @precondition(lambda self: self._busy_queues())
    @rule(picks=st.lists(PICK, min_size=1, max_size=3))
    def work_for_a_while(self, picks: list[int]) -> None:
        """Nothing but successes: so a walk gets further."""
        for pick in picks:
            if self._busy_queues():
                self.claim_by_worker(pick, 2, 1)
            while owned := self._owned(self.worker_claims):
                self._settle_by_worker(owned[pick % len(owned)], ENDS[0])
                self.model.stage()

    @precondition(lambda self: self._owned(self.worker_claims))
    @rule(pick=PICK, queue=st.sampled_from(QUEUES))
    def continue_by_worker(self, pick: int, queue: str) -> None:
        owned = self._owned(self.worker_claims)
        claim = owned[pick % len(owned)]
        self._start(claim)
        then = _next_step(claim, queue)
        if self.model.is_followed(claim.job_id):
            with pytest.raises(StepTaken):
                claim.worker.settle(claim.ready, Succeeded('"done"'), then)
            return
        assert claim.worker.settle(claim.ready, Succeeded('"done"'), then)
        assert then.job.chain_id is not None
        next_id = self.jobs.chain(then.job.chain_id).steps[-1].id
        self.job_ids.append(next_id)
        self.model.continue_with(claim.job_id, next_id, queue)
        self.model.stage()

    # control

    @rule(pick=PICK, move=st.sampled_from(sorted(STEERING)))
    def steer(self, pick: int, move: str) -> None:
        choices = [job.id for job in self.model.jobs.values() if STEERING[move](job) and self._may(move, job.id)]
        if choices:
            job_id = choices[pick % len(choices)]
            getattr(self.jobs, move)(job_id)
            getattr(self.model, move)(job_id)

    def _may(self, move: str, job_id: int) -> bool:
        match move:
            case "retry":
                return not self.model.is_overtaken(job_id) and self.model.other_holder(job_id) is None
            case "delete":
                return self.model.ties[job_id].chain_id is None and not self.model.is_waited_for(job_id)
        return True

    @precondition(lambda self: self._holders_of_taken_keys())
    @rule(pick=PICK)
    def retry_one_whose_key_is_taken(self, pick: int) -> None:
        choices = self._holders_of_taken_keys()
        job_id = choices[pick % len(choices)]
        with pytest.raises(DuplicateJob) as refused:
            self.jobs.retry(job_id)
        assert refused.value.job_id == self.model.other_holder(job_id)

    def _holders_of_taken_keys(self) -> list[int]:
        finished = [job.id for job in self.model.jobs.values() if job.finished]
        return [
            job_id
            for job_id in finished
            if self.model.other_holder(job_id) is not None and not self.model.is_followed(job_id)
        ]

    # all rows

    def _attempts_to_compare(self, stored: dict[int, Job]) -> list[int]:
        """Those of jobs that have changed: there is more to compare here, and a server takes its time."""
        before, self.known = self.known, stored
        compare(
            {job.id: (job.key, job.chain_id, job.chain_index) for job in stored.values()},
            {job_id: (ties.key, ties.chain_id, ties.chain_index) for job_id, ties in self.model.ties.items()},
        )
        return [job_id for job_id, job in stored.items() if before.get(job_id) != job]

    @invariant()
    def a_job_is_blocked_while_it_waits_for_something(self) -> None:
        blocked = {job.id for job in self.model.jobs.values() if job.status == "blocked"}
        waits: dict[int, set[tuple[int, bool]]] = {job_id: set() for job_id in blocked}
        for job_id, blocker_id, of_chain in self._open_edges():
            if job_id in blocked:
                waits[job_id].add((blocker_id, of_chain))
        compare(
            waits,
            {
                job_id: {(wait.blocker_id, wait.of_chain) for wait in self.model.ties[job_id].open_waits()}
                for job_id in blocked
            },
        )
        assert all(waits.values())

    @invariant()
    def a_job_says_who_waits_for_whom_and_why_and_is_found(self) -> None:
        """One job after the other, one at each step: a server takes its time."""
        if not self.model.jobs:
            return
        self.asked += 1
        job_id = sorted(self.model.jobs)[self.asked % len(self.model.jobs)]
        job, ties = self.model.jobs[job_id], self.model.ties[job_id]
        chain_id = job_id if ties.chain_id is None else ties.chain_id
        assert [(one.id, one.of_chain, one.status, one.open) for one in self.jobs.dependents(job_id)] == sorted(
            (other, wait.of_chain, self.model.jobs[other].status, wait.state == "open")
            for other, its_ties in self.model.ties.items()
            for wait in its_ties.waits
            if wait.blocker_id == (chain_id if wait.of_chain else job_id)
        )
        assert {(one.id, one.is_chain, one.open) for one in self.jobs.blockers(job_id)} == {
            (wait.blocker_id, wait.of_chain, wait.state == "open") for wait in ties.waits
        }
        same_key = [other for other, its_ties in self.model.ties.items() if its_ties.key == ties.key]
        if ties.key is not None:
            assert [one.id for one in self.jobs.list(type="work", key=ties.key).jobs] == sorted(same_key, reverse=True)
        if ties.chain_id is not None:
            steps = self.model.steps(ties.chain_id)
            assert [one.id for one in self.jobs.list(chain=ties.chain_id, order="oldest").jobs] == sorted(steps)
        why = self.jobs.why(job_id)
        assert (why.status, why.job_id) == (job.status, job_id)
        assert (why.reason == "blocked") == (job.status == "blocked")
        assert (why.reason == "finished") == (job.status in FINISHED)
        assert (why.reason in ("running", "buffered")) == (job.status == "running")
        later = job.status == "scheduled" and job.run_at > self.clock.now()
        assert (why.reason in ("scheduled", "retry")) == later
        if job.status == "blocked":
            assert {(one.id, one.is_chain) for one in why.blockers} == {
                (wait.blocker_id, wait.of_chain) for wait in ties.open_waits()
            }

    @invariant()
    def no_limit_is_exceeded(self) -> None:
        assert all(self.model.room(name) >= 0 for name in LIMITS)

    def _open_edges(self) -> list[tuple[int, int, bool]]:
        query = "select job_id, blocker_id, of_chain from rowcall_edge where state = 'open'"
        edges: list[tuple[int, int, bool]] = queue_of(self.jobs).run(Read(fetch(Statement(query, (), _edge))))
        return edges


def _edge(row: Row) -> tuple[int, int, bool]:
    job_id, blocker_id, of_chain = row
    assert isinstance(job_id, int)
    assert isinstance(blocker_id, int)
    return job_id, blocker_id, bool(of_chain)


def _bound(step: Step) -> Bound:
    return Bound(NewJob(type="work", queue=step.queue, on_blocker_failure=step.on_failure), "{}")


def _next_step(claim: WorkerClaim, queue: str) -> Then:
    ready = claim.ready
    chain_id, chain_index = (ready.id, 0) if ready.chain_id is None else (ready.chain_id, ready.chain_index or 0)
    job = NewJob(type="work", queue=queue, chain_id=chain_id, chain_index=chain_index + 1)
    return Then(job, "{}", begins=ready.chain_id is None)
