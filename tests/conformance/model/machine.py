"""Drives the model and a real store side by side, and compares all rows after each step.

Preconditions keep most steps from being empty: a walk of 40 steps must get through several attempts of several jobs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rowcall import Backoff, Job, JobCancelled, JobNotFound, LeaseLost, Rowcall, WrongState
from rowcall.app import queue_of
from rowcall.declare.option_table import EnqueueOptions
from rowcall.domain.outcome import Released
from rowcall.operations.effects import Read, Write
from rowcall.store.statement import Row, fetch, plain
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.model.answers import Answers
from tests.conformance.model.ends import ENDS, C, End, HandClaim, WorkerClaim, outcome_of
from tests.conformance.model.job import JobOptions, ModelJob
from tests.conformance.model.queue import ModelQueue
from tests.conformance.model.rows import compare, model_attempts, model_row, stored_attempts, stored_row
from tests.conformance.store import Store
from tests.conformance.worker_parts import CONCURRENCY, LEASE_SECONDS, StoreWorker, watcher

T = TypeVar("T")

QUEUES = ("mail", "media")
TAGS = ("red", "blue")
PICK = st.integers(0, 11)
Way = Callable[[Rowcall, Job], None]


OPTIONS = st.builds(
    JobOptions,
    queue=st.sampled_from(QUEUES),
    priority=st.integers(-1, 1),
    max_attempts=st.integers(1, 3),
    delay=st.sampled_from([0, 0, 30]),
    expires_in=st.sampled_from([None, 20, 90]),
    retry_after=st.sampled_from([None, 5]),
    tags=st.sampled_from([(), TAGS[:1], TAGS]),
)

HAND_WAYS: dict[str, tuple[Way, Callable[[ModelQueue, int], None]]] = {
    "release": (lambda jobs, job: jobs.release(job), lambda model, job: model.release(job)),
    "heartbeat": (lambda jobs, job: jobs.heartbeat(job), ModelQueue.heartbeat),
    **{end.name: (end.by_hand, end.in_model) for end in ENDS},
}

STEERING: dict[str, Callable[[ModelJob], bool]] = {
    "cancel": lambda job: not job.finished,
    "retry": lambda job: job.finished,
    "delete": lambda job: job.status != "running",
}


class Client:
    """Runs plain SQL on the connections of the queue: another one for each walk would be too many for a server."""

    def __init__(self, jobs: Rowcall, url: str) -> None:
        self.url = url
        self._queue = queue_of(jobs)

    def execute(self, sql: str) -> list[Row]:
        if sql.lstrip().startswith("select"):
            return self._queue.run(Read(fetch(plain(sql))))
        return self._queue.run(Write(lambda: fetch(plain(sql))))


class QueueMachine(RuleBasedStateMachine):
    tasks: tuple[str, ...] = ("work",)

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.jobs = Rowcall(store.url, clock=self.clock, durability="normal")
        self.jobs.migrate()
        self.model = ModelQueue(self.clock.now)
        self.watcher = watcher(self.jobs)
        self.tokens = itertools.count(1)
        self.job_ids: list[int] = []
        self.hand_claims: list[HandClaim] = []
        self.worker_claims: list[WorkerClaim] = []
        self.workers: list[StoreWorker] = []
        self.seen: dict[int, tuple[int, int]] = {}
        self.client = Client(self.jobs, store.url)
        self.answers = Answers(self.jobs, self.client, self.clock.now(), (QUEUES, self.tasks, TAGS))

    def teardown(self) -> None:
        self.jobs.close()

    # coming in

    @initialize(several=st.lists(OPTIONS, min_size=3, max_size=6))
    def begin_with_some_jobs(self, several: list[JobOptions]) -> None:
        self.enqueue(several)

    @rule(several=st.lists(OPTIONS, min_size=1, max_size=3))
    def enqueue(self, several: list[JobOptions]) -> None:
        for options in several:
            job = self.jobs.enqueue("work", **enqueue_options(options))
            self.job_ids.append(job.id)
            self.model.enqueue(job.id, options)

    # time

    @rule(seconds=st.sampled_from([1, 8, 60]), until_due=st.booleans(), pick=PICK)
    def time_passes(self, seconds: int, until_due: bool, pick: int) -> None:
        moments = self.model.moments()
        if until_due and moments:
            self._pass(pick_one(moments, pick) - self.clock.now())
        else:
            self._pass(timedelta(seconds=seconds))

    def _pass(self, time: timedelta) -> None:
        self.clock.advance(time)
        for worker in self.workers:
            assert worker.heartbeat()

    @rule(seconds=st.sampled_from([-3600, 3600]))
    def set_the_clock(self, seconds: int) -> None:
        self.clock.jump(seconds)

    @precondition(lambda self: self.model.something_is_due())
    @rule()
    def stage(self) -> None:
        assert self.jobs.claim("idle", queues=["no such queue"]) == []
        self.model.recover_expired_leases()
        self.model.stage()

    # by hand

    @precondition(lambda self: self._busy_queues())
    @rule(pick=PICK, limit=st.integers(1, 3), lease=st.sampled_from([10, 60]))
    def claim_by_hand(self, pick: int, limit: int, lease: int) -> None:
        queue = self._busy_queue(pick)
        claimed = self.jobs.claim("hand", limit=limit, lease=lease, queues=[queue])
        self.model.recover_expired_leases()
        self.model.stage()
        assert [job.id for job in claimed] == self.model.ready(queue)[:limit]
        self._claimed_by_hand(claimed, lease)

    @precondition(lambda self: self._busy_queues())
    @rule(limit=st.integers(1, 4))
    def claim_by_hand_from_all_queues(self, limit: int) -> None:
        claimed = self.jobs.claim("hand", limit=limit, lease=60)
        self.model.recover_expired_leases()
        self.model.stage()
        waiting = sum(len(self.model.ready(queue)) for queue in QUEUES)
        assert len(claimed) <= limit
        assert bool(claimed) == bool(waiting)
        for queue in QUEUES:
            ids = [job.id for job in claimed if job.queue == queue]
            assert ids == self.model.ready(queue)[: len(ids)]
        self._claimed_by_hand(claimed, 60)

    def _claimed_by_hand(self, claimed: list[Job], lease: int) -> None:
        for job in claimed:
            claim = HandClaim(job, next(self.tokens))
            self.model.claim(job.id, "hand", claim.token, lease=lease)
            self.hand_claims.append(claim)

    @precondition(lambda self: self._owned(self.hand_claims))
    @rule(pick=PICK, ways=st.lists(st.sampled_from(sorted(HAND_WAYS)), min_size=1, max_size=3))
    def settle_by_hand(self, pick: int, ways: list[str]) -> None:
        for way in ways[: len(self._owned(self.hand_claims))]:
            claim = pick_one(self._owned(self.hand_claims), pick)
            if way == "heartbeat":
                self._heartbeat(claim)
                continue
            call, in_model = HAND_WAYS[way]
            call(self.jobs, claim.job)
            in_model(self.model, claim.job_id)

    def _heartbeat(self, claim: HandClaim) -> None:
        try:
            self.jobs.heartbeat(claim.job)
        except JobCancelled:
            assert self.model.is_asked_to_end(claim.job_id)
        else:
            assert not self.model.is_asked_to_end(claim.job_id)
        self.model.heartbeat(claim.job_id)

    @precondition(lambda self: self._owned(self.hand_claims))
    @rule(pick=PICK)
    def heartbeat_after_a_while(self, pick: int) -> None:
        claim = pick_one(self._owned(self.hand_claims), pick)
        self._pass(timedelta(seconds=5))
        self._heartbeat(claim)

    @precondition(lambda self: self._lost(self.hand_claims))
    @rule(pick=PICK, way=st.sampled_from(sorted(HAND_WAYS)))
    def settle_by_hand_what_is_no_longer_one_s_own(self, pick: int, way: str) -> None:
        claim = pick_one(self._lost(self.hand_claims), pick)
        try:
            HAND_WAYS[way][0](self.jobs, claim.job)
        except LeaseLost:
            return
        raise AssertionError(f"job {claim.job_id} is no longer the caller's, and yet {way} was accepted")

    @precondition(lambda self: self.model.expiring_leases())
    @rule()
    def a_lease_runs_out(self) -> None:
        self._pass(max(timedelta(0), min(self.model.expiring_leases()) - self.clock.now()))
        assert self.watcher.check() == self.model.recover_expired_leases() > 0

    # by workers

    @precondition(lambda self: self._busy_queues())
    @rule(pick=PICK, slots=st.integers(1, 2), buffer=st.integers(0, 3))
    def claim_by_worker(self, pick: int, slots: int, buffer: int) -> None:
        while len(self.workers) < 2:
            self.workers.append(StoreWorker(self.jobs, f"worker-{next(self.tokens)}"))
        worker, queue = pick_one(self.workers, pick // 2), self._busy_queue(pick)
        taken = worker.claim(slots=slots, buffer=buffer, queues=[queue])
        self.model.stage()
        ready = self.model.ready(queue)
        assert [one.id for one in taken.started] == ready[:slots]
        assert [one.id for one in taken.buffered] == ready[slots:][:buffer]
        for one in (*taken.started, *taken.buffered):
            claim = WorkerClaim(one, worker, next(self.tokens))
            self.model.claim(
                one.id,
                worker.name,
                claim.token,
                lease=None,
                started=one in taken.started or self.model.is_charged(one.id),
            )
            self.worker_claims.append(claim)

    @precondition(lambda self: self._owned(self.worker_claims))
    @rule(pick=PICK, ends=st.lists(st.sampled_from([*ENDS, None]), min_size=1, max_size=3))
    def settle_by_worker(self, pick: int, ends: list[End | None]) -> None:
        for end in ends[: len(self._owned(self.worker_claims))]:
            claim = pick_one(self._owned(self.worker_claims), pick)
            if end is None:
                self._release_by_worker(claim)
            else:
                self._settle_by_worker(claim, end)
            self.model.stage()

    def _settle_by_worker(self, claim: WorkerClaim, end: End) -> None:
        self._start(claim)
        assert claim.worker.settle(claim.ready, outcome_of(end))
        end.in_model(self.model, claim.job_id)

    def _start(self, claim: WorkerClaim) -> None:
        if not self.model.is_started(claim.job_id):
            claim.worker.mark_started(claim.ready)
            self.model.start(claim.job_id)

    def _release_by_worker(self, claim: WorkerClaim) -> None:
        assert claim.worker.settle(claim.ready, Released(started=self.model.is_started(claim.job_id)))
        self.model.release(claim.job_id)

    @precondition(lambda self: self._lost(self.worker_claims))
    @rule(pick=PICK, end=st.sampled_from(ENDS))
    def settle_by_worker_what_is_no_longer_its_own(self, pick: int, end: End) -> None:
        claim = pick_one(self._lost(self.worker_claims), pick)
        claim.worker.mark_started(claim.ready)
        assert not claim.worker.settle(claim.ready, outcome_of(end))
        if claim.worker in self.workers:  # one that was declared lost gets no further in its round
            self.model.stage()

    @precondition(lambda self: self._owned(self.worker_claims))
    @rule(pick=PICK)
    def a_worker_crashes(self, pick: int) -> None:
        victim = pick_one(self._owned(self.worker_claims), pick).worker
        self.workers.remove(victim)
        assert self.watcher.check() == self.model.recover_expired_leases()
        self.clock.advance_monotonic(LEASE_SECONDS)
        for worker in self.workers:
            assert worker.heartbeat()
        self.model.dead_workers.add(victim.name)
        assert self.watcher.check() == self.model.recover_dead_workers() > 0
        assert not victim.heartbeat()

    # control

    @rule(pick=PICK, move=st.sampled_from(["cancel", "retry", "delete"]))
    def steer(self, pick: int, move: str) -> None:
        choices = [job.id for job in self.model.jobs.values() if STEERING[move](job)]
        if choices:
            job_id = pick_one(choices, pick)
            getattr(self.jobs, move)(job_id)
            getattr(self.model, move)(job_id)

    @rule(pick=PICK, priority=st.integers(-1, 1), plain_sql=st.booleans())
    def prioritize(self, pick: int, priority: int, plain_sql: bool) -> None:
        """Whether a job runs or not: that of its row is used when it is claimed again."""
        choices = [job.id for job in self.model.jobs.values() if self._may_prioritize(job)]
        if choices:
            job_id = pick_one(choices, pick)
            if plain_sql:
                self.client.execute(f"update rowcall_job set priority = {priority} where id = {job_id}")
            else:
                self.jobs.set_priority(job_id, priority)
            self.model.jobs[job_id].priority = priority

    def _may_prioritize(self, job: ModelJob) -> bool:
        return not job.finished

    @precondition(lambda self: self._refusals())
    @rule(pick=st.integers(0, 50))
    def steer_where_it_makes_no_sense(self, pick: int) -> None:
        job_id, move, expected = pick_one(self._refusals(), pick)
        try:
            getattr(self.jobs, move)(job_id)
        except expected:
            return
        raise AssertionError(f"{move} of job {job_id} was accepted, though it should have been {expected.__name__}")

    def _refusals(self) -> list[tuple[int, str, type[Exception]]]:
        refused: list[tuple[int, str, type[Exception]]] = []
        for job_id in self.job_ids:
            job = self.model.jobs.get(job_id)
            for move, allowed in STEERING.items():
                if job is None:
                    refused.append((job_id, move, JobNotFound))
                elif not allowed(job):
                    refused.append((job_id, move, WrongState))
        return refused

    # what there is to choose from

    def _busy_queues(self) -> list[str]:
        return [queue for queue in QUEUES if self.model.will_be_ready(queue)]

    def _busy_queue(self, pick: int) -> str:
        return pick_one(self._busy_queues(), pick)

    def _owned(self, claims: list[C]) -> list[C]:
        return [claim for claim in claims if self.model.owns(claim.job_id, claim.token)]

    def _lost(self, claims: list[C]) -> list[C]:
        return [claim for claim in claims if not self.model.owns(claim.job_id, claim.token)]

    # all rows

    @invariant()
    def all_rows_agree(self) -> None:
        stored = {job.id: job for job in self.jobs.list(limit=1000).jobs}
        compare(
            {job_id: stored_row(job) for job_id, job in stored.items()},
            {job_id: model_row(job) for job_id, job in self.model.jobs.items()},
        )
        concerned = self._attempts_to_compare(stored)
        compare(
            {job_id: stored_attempts(self.jobs.attempts(job_id)) for job_id in concerned},
            {job_id: model_attempts(self.model.jobs[job_id]) for job_id in concerned},
        )
        in_the_table = sum(len(job.past) for job in self.model.jobs.values())
        assert self._count("rowcall_attempt") == in_the_table
        self._leases_never_fall(stored)

    @invariant()
    def all_answers_agree(self) -> None:
        self.answers.check(self.model.jobs, self.clock.now())

    @invariant()
    def workers_tell_running_jobs_from_buffered_ones(self) -> None:
        """A worker starts what it has slots for, whether its rows say so or not."""
        expected = {}
        for worker in self.workers:
            held = [job.id for job in self.model.running_jobs() if job.running().worker == worker.name]
            running = min(len(held), max(CONCURRENCY, sum(map(self.model.is_started, held))))
            expected[worker.name] = (running, len(held) - running)
        assert {one.name: (one.running, one.buffered) for one in self.jobs.workers()} == expected

    def _attempts_to_compare(self, stored: dict[int, Job]) -> list[int]:
        return list(stored)

    def _count(self, table: str) -> int:
        return _number(*self.client.execute(f"select count(*) from {table}"))

    def _leases_never_fall(self, stored: dict[int, Job]) -> None:
        for job_id, job in self.model.jobs.items():
            moves, lease = self.seen.get(job_id, (0, 0))
            assert stored[job_id].lease >= lease + job.moves - moves, f"the lease of job {job_id} did not go up"
            self.seen[job_id] = (job.moves, stored[job_id].lease)


def _number(row: Row) -> int:
    (number,) = row
    assert isinstance(number, int)
    return number


def enqueue_options(options: JobOptions) -> EnqueueOptions:
    given = EnqueueOptions(
        queue=options.queue,
        priority=options.priority,
        max_attempts=options.max_attempts,
        delay=options.delay,
        tags=options.tags,
    )
    if options.expires_in is not None:
        given["expires_in"] = options.expires_in
    if options.retry_after is not None:
        given["retry"] = Backoff.constant(options.retry_after)
    return given


def pick_one(choices: list[T], pick: int) -> T:
    return choices[pick % len(choices)]
