"""Drives the model and a real store side by side, and compares all rows after each step."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from rowcall import Backoff, Job, JobNotFound, LeaseLost, Rowcall, WrongState
from rowcall.lifecycle import Outcome, Released
from rowcall.queue.options import EnqueueOptions
from rowcall.testing.clock import FakeClock
from rowcall.testing.conformance.hands import LEASE_SECONDS, StoreWorker, watcher
from rowcall.testing.conformance.model.book import Book
from rowcall.testing.conformance.model.ends import ENDS, C, End, HandClaim, WorkerClaim, outcome_of
from rowcall.testing.conformance.model.entry import Entry, Pauses
from rowcall.testing.conformance.model.rows import model_attempts, model_row, stored_attempts, stored_row
from rowcall.testing.conformance.store import Store

QUEUES = ("mail", "media")
PICK = st.integers(0, 11)
STALE = st.sampled_from([False, False, False, True])


class QueueMachine(RuleBasedStateMachine):
    job_ids: Bundle[int] = Bundle("job_ids")

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.clock = FakeClock()
        self.jobs = Rowcall(store.url, clock=self.clock)
        self.jobs.migrate()
        self.book = Book(self.clock.now)
        self.watcher = watcher(self.jobs)
        self.tokens = itertools.count(1)
        self.hand_claims: list[HandClaim] = []
        self.worker_claims: list[WorkerClaim] = []
        self.workers: list[StoreWorker] = []
        self.a_worker_comes()
        self.seen: dict[int, tuple[int, int]] = {}

    def teardown(self) -> None:
        self.jobs.close()

    # coming in

    @rule(
        target=job_ids,
        queue=st.sampled_from(QUEUES),
        priority=st.integers(-1, 1),
        max_attempts=st.integers(1, 3),
        delay=st.sampled_from([0, 0, 0, 30]),
        expires_in=st.sampled_from([None, None, 20, 90]),
        constant_pause=st.sampled_from([None, None, 5]),
    )
    def enqueue(
        self,
        queue: str,
        priority: int,
        max_attempts: int,
        delay: int,
        expires_in: int | None,
        constant_pause: int | None,
    ) -> int:
        policy = Backoff.linear(30) if constant_pause is None else Backoff.constant(constant_pause)
        options = EnqueueOptions(queue=queue, priority=priority, max_attempts=max_attempts, delay=delay, retry=policy)
        if expires_in is not None:
            options["expires_in"] = expires_in
        job = self.jobs.enqueue("work", **options)
        self.book.enqueue(
            job.id,
            queue=queue,
            priority=priority,
            max_attempts=max_attempts,
            delay=delay,
            expires_in=expires_in,
            pauses=Pauses() if constant_pause is None else Pauses(constant_pause, growing=False),
        )
        return job.id

    # time

    @rule(seconds=st.sampled_from([1, 5, 7, 20, 30, 60, 300]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)
        for worker in self.workers:
            assert worker.beat()

    @rule(seconds=st.sampled_from([-3600, -10, 10, 3600]))
    def somebody_sets_the_clock(self, seconds: int) -> None:
        self.clock.jump(seconds)

    @rule()
    def stage(self) -> None:
        assert self.jobs.claim("nobody", queues=["no such queue"]) == []
        self.book.recover_expired_leases()
        self.book.stage()

    # by hand

    @rule(queue=st.sampled_from(QUEUES), limit=st.integers(1, 3), lease=st.sampled_from([10, 60]))
    def claim_by_hand(self, queue: str, limit: int, lease: int) -> None:
        claimed = self.jobs.claim("hand", limit=limit, lease=lease, queues=[queue])
        self.book.recover_expired_leases()
        self.book.stage()
        assert [job.id for job in claimed] == self.book.ready(queue)[:limit]
        self._claimed_by_hand(claimed, lease)

    @rule(limit=st.integers(1, 4))
    def claim_by_hand_from_all_queues(self, limit: int) -> None:
        claimed = self.jobs.claim("hand", limit=limit, lease=60)
        self.book.recover_expired_leases()
        self.book.stage()
        waiting = sum(len(self.book.ready(queue)) for queue in QUEUES)
        assert len(claimed) <= limit
        assert bool(claimed) == bool(waiting)
        for queue in QUEUES:
            ids = [job.id for job in claimed if job.queue == queue]
            assert ids == self.book.ready(queue)[: len(ids)]
        self._claimed_by_hand(claimed, 60)

    def _claimed_by_hand(self, claimed: list[Job], lease: int) -> None:
        for job in claimed:
            claim = HandClaim(job, next(self.tokens))
            self.book.claim(job.id, "hand", claim.token, lease=lease)
            self.hand_claims.append(claim)

    @precondition(lambda self: self.hand_claims)
    @rule(pick=PICK, stale=STALE, end=st.sampled_from(ENDS))
    def settle_by_hand(self, pick: int, stale: bool, end: End) -> None:
        claim = self._pick(self.hand_claims, pick, stale)
        if end.error is None:
            self._by_hand(claim, lambda job: self.jobs.complete(job, "done"), end.in_book)
        else:
            error = end.error
            self._by_hand(claim, lambda job: self.jobs.fail(job, error), end.in_book)

    @precondition(lambda self: self.hand_claims)
    @rule(pick=PICK, stale=STALE)
    def release_by_hand(self, pick: int, stale: bool) -> None:
        self._by_hand(self._pick(self.hand_claims, pick, stale), self.jobs.release, Book.release)

    @precondition(lambda self: self.hand_claims)
    @rule(pick=PICK, stale=STALE)
    def heartbeat(self, pick: int, stale: bool) -> None:
        self._by_hand(self._pick(self.hand_claims, pick, stale), self.jobs.heartbeat, Book.heartbeat)

    def _by_hand(self, claim: HandClaim, call: Callable[[Job], None], in_book: Callable[[Book, int], None]) -> None:
        if self.book.owns(claim.job_id, claim.token):
            call(claim.job)
            in_book(self.book, claim.job.id)
            return
        try:
            call(claim.job)
        except LeaseLost:
            return
        raise AssertionError(f"job {claim.job.id} is no longer the caller's, and yet the call was accepted")

    # by workers

    @rule()
    def a_worker_comes(self) -> None:
        self.workers.append(StoreWorker(self.jobs, f"worker-{next(self.tokens)}"))

    @precondition(lambda self: self.workers)
    @rule(pick=PICK, queue=st.sampled_from(QUEUES), slots=st.integers(1, 2), buffer=st.integers(0, 3))
    def claim_by_worker(self, pick: int, queue: str, slots: int, buffer: int) -> None:
        worker = self.workers[pick % len(self.workers)]
        taken = worker.claim(slots=slots, buffer=buffer, queues=[queue])
        self.book.stage()
        ready = self.book.ready(queue)
        assert [one.id for one in taken.started] == ready[:slots]
        buffered = [one.id for one in taken.buffered]
        assert len(buffered) <= buffer
        assert buffered == [job_id for job_id in ready[slots:] if job_id in buffered]
        assert all(self.book.may_be_buffered(job_id) for job_id in buffered)
        for one in (*taken.started, *taken.buffered):
            claim = WorkerClaim(one, worker, next(self.tokens))
            self.book.claim(one.id, worker.name, claim.token, lease=None, started=one in taken.started)
            self.worker_claims.append(claim)

    @precondition(lambda self: self.worker_claims)
    @rule(pick=PICK, stale=STALE)
    def a_buffered_job_gets_its_turn(self, pick: int, stale: bool) -> None:
        claim = self._pick(self.worker_claims, pick, stale)
        claim.worker.mark_started(claim.ready)
        if self.book.owns(claim.job_id, claim.token):
            self.book.start(claim.ready.id)

    @precondition(lambda self: self.worker_claims)
    @rule(pick=PICK, stale=STALE, end=st.sampled_from(ENDS))
    def settle_by_worker(self, pick: int, stale: bool, end: End) -> None:
        claim = self._pick(self.worker_claims, pick, stale)
        if self.book.owns(claim.job_id, claim.token) and not self.book.is_started(claim.ready.id):
            claim.worker.mark_started(claim.ready)
            self.book.start(claim.ready.id)
        self._by_worker(claim, outcome_of(end), end.in_book)

    @precondition(lambda self: self.worker_claims)
    @rule(pick=PICK, stale=STALE)
    def release_by_worker(self, pick: int, stale: bool) -> None:
        claim = self._pick(self.worker_claims, pick, stale)
        started = self.book.owns(claim.job_id, claim.token) and self.book.is_started(claim.ready.id)
        self._by_worker(claim, Released(started=started), Book.release)

    def _by_worker(self, claim: WorkerClaim, outcome: Outcome, in_book: Callable[[Book, int], None]) -> None:
        owned = self.book.owns(claim.job_id, claim.token)
        assert claim.worker.settle(claim.ready, outcome) == owned
        if owned:
            in_book(self.book, claim.ready.id)

    # owners that are gone

    @precondition(lambda self: self.workers)
    @rule(pick=PICK)
    def a_worker_crashes(self, pick: int) -> None:
        victim = self.workers.pop(pick % len(self.workers))
        self.watcher.check()
        self.book.recover_expired_leases()
        self.clock.advance_monotonic(LEASE_SECONDS)
        for worker in self.workers:
            assert worker.beat()
        recovered = self.watcher.check()
        self.book.dead_workers.add(victim.name)
        assert recovered == self.book.recover_dead_workers()
        assert not victim.beat()

    @rule()
    def somebody_looks_for_expired_leases(self) -> None:
        assert self.watcher.check() == self.book.recover_expired_leases()

    # steering

    @rule(job_id=job_ids)
    def cancel(self, job_id: int) -> None:
        self._steer(job_id, self.jobs.cancel, Book.cancel, lambda entry: entry.waits)

    @rule(job_id=job_ids)
    def retry(self, job_id: int) -> None:
        self._steer(job_id, self.jobs.retry, Book.retry, lambda entry: entry.finished)

    @rule(job_id=job_ids)
    def delete(self, job_id: int) -> None:
        self._steer(job_id, self.jobs.delete, Book.delete, lambda entry: entry.status != "running")

    def _steer(
        self,
        job_id: int,
        call: Callable[[int], object],
        in_book: Callable[[Book, int], None],
        allowed: Callable[[Entry], bool],
    ) -> None:
        entry = self.book.entries.get(job_id)
        if entry is not None and allowed(entry):
            call(job_id)
            in_book(self.book, job_id)
            return
        expected = JobNotFound if entry is None else WrongState
        try:
            call(job_id)
        except expected:
            return
        raise AssertionError(f"job {job_id} could be steered, though it should have been {expected.__name__}")

    def _pick(self, claims: list[C], pick: int, stale: bool) -> C:
        """One of the claims that are still their owner's; or, if asked or there is none, of all that ever were."""
        live = [claim for claim in claims if self.book.owns(claim.job_id, claim.token)]
        pool = claims if stale or not live else live
        return pool[pick % len(pool)]

    # all rows

    @invariant()
    def all_rows_agree(self) -> None:
        stored = {job.id: job for job in self.jobs.list(limit=1000).jobs}
        assert {job_id: stored_row(job) for job_id, job in stored.items()} == {
            job_id: model_row(entry) for job_id, entry in self.book.entries.items()
        }
        for job_id, entry in self.book.entries.items():
            assert stored_attempts(self.jobs.attempts(job_id)) == model_attempts(entry)
        in_the_table = sum(len(entry.past) for entry in self.book.entries.values())
        assert self.store.execute("select count(*) from rowcall_attempt") == [(in_the_table,)]
        self._leases_never_fall(stored)

    def _leases_never_fall(self, stored: dict[int, Job]) -> None:
        for job_id, entry in self.book.entries.items():
            moves, lease = self.seen.get(job_id, (0, 0))
            assert stored[job_id].lease >= lease + entry.moves - moves
            self.seen[job_id] = (entry.moves, stored[job_id].lease)
