"""A call about an attempt that is no longer the caller's raises `LeaseLost` and changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import pytest

from rowcall import Job, LeaseLost, Rowcall, Status
from rowcall.app import queue_of
from rowcall.domain.outcome import SUCCESS, Lost, Released, Reported, Succeeded
from rowcall.operations.effects import Write
from rowcall.store.ends.attempts import Completed, Ended, complete, settle
from rowcall.store.queries.claims import Mark
from rowcall.store.queries.ends import Owner
from rowcall.store.statement import Plan
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.store import Store, all_rows, check_ready
from tests.conformance.worker_parts import StoreWorker, watcher

Call = Callable[[Rowcall, Job], None]
Loss = Callable[[Rowcall, Job, FakeClock], None]

CALLS: dict[str, Call] = {
    "complete": lambda jobs, job: jobs.complete(job, {"late": True}),
    "fail": lambda jobs, job: jobs.fail(job, "TEST:LATE", "too late"),
    "fail_with_exception": lambda jobs, job: jobs.fail(job, ValueError("too late")),
    "heartbeat": lambda jobs, job: jobs.heartbeat(job),
    "release": lambda jobs, job: jobs.release(job),
}


def _recovered(jobs: Rowcall, job: Job, clock: FakeClock) -> None:
    clock.advance(301)
    assert watcher(jobs).check() == 1


def _taken_by_another(jobs: Rowcall, job: Job, clock: FakeClock) -> None:
    clock.advance(301)
    assert [taken.id for taken in jobs.claim("another")] == [job.id]


def _taken_again_by_the_same(jobs: Rowcall, job: Job, clock: FakeClock) -> None:
    clock.advance(301)
    assert [taken.id for taken in jobs.claim("hand")] == [job.id]


def _finished_by_another(jobs: Rowcall, job: Job, clock: FakeClock) -> None:
    clock.advance(301)
    jobs.complete(jobs.claim("another")[0], "theirs")


def _released_and_taken_again(jobs: Rowcall, job: Job, clock: FakeClock) -> None:
    jobs.release(job)
    assert jobs.claim("hand")[0].attempt == job.attempt  # the same number, and yet another attempt


def _finished_and_retried(jobs: Rowcall, job: Job, clock: FakeClock) -> None:
    jobs.complete(job)
    jobs.retry(job.id)


VOIDING = {"ended": "status = 'failed'", "another lease": "lease = lease + 1"}
"""What plain SQL may write into the row of a job that runs: then the claim is void."""
LOSSES: dict[str, Loss] = {
    "completed": lambda jobs, job, clock: jobs.complete(job, "mine"),
    "failed": lambda jobs, job, clock: jobs.fail(job, "TEST:FIRST"),
    "released": lambda jobs, job, clock: jobs.release(job),
    "released_and_taken_again": _released_and_taken_again,
    "recovered": _recovered,
    "taken_by_another": _taken_by_another,
    "taken_again_by_the_same": _taken_again_by_the_same,
    "finished_by_another": _finished_by_another,
    "finished_and_retried": _finished_and_retried,
}


class TestFence:
    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
    @pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES.keys())
    def test_a_lost_lease_changes_nothing(
        self, jobs: Rowcall, store: Store, clock: FakeClock, lose: Loss, call: Call
    ) -> None:
        jobs.enqueue("send", tags=["x"], expires_in=3600)
        job = jobs.claim("hand", lease=300)[0]
        lose(jobs, job, clock)
        clock.advance(1)
        self._refused(jobs, store, job, call)

    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
    def test_a_deleted_job_is_lost(self, jobs: Rowcall, store: Store, call: Call) -> None:
        jobs.enqueue("send")
        job = jobs.claim("hand")[0]
        jobs.complete(job)
        jobs.delete(job.id)
        self._refused(jobs, store, job, call)

    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
    def test_a_job_that_was_never_claimed_has_no_owner(self, jobs: Rowcall, store: Store, call: Call) -> None:
        self._refused(jobs, store, jobs.enqueue("send"), call)
        self._refused(jobs, store, jobs.enqueue("send", delay=60), call)

    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
    def test_a_snapshot_of_a_job_that_is_not_running_settles_nothing(
        self, jobs: Rowcall, store: Store, call: Call
    ) -> None:
        for end in (CALLS["complete"], CALLS["fail"], CALLS["release"]):
            jobs.enqueue("send")
            job = jobs.claim("hand")[0]
            end(jobs, job)
            self._refused(jobs, store, jobs.get(job.id), call)
        cancelled = jobs.cancel(jobs.enqueue("send", delay=60).id)
        self._refused(jobs, store, cancelled, call)

    @pytest.mark.parametrize("outcome", [Succeeded(), Reported("TEST:LATE", ""), Released(), Lost()], ids=repr)
    def test_a_worker_that_was_declared_lost_settles_nothing(
        self, jobs: Rowcall, store: Store, clock: FakeClock, outcome: Succeeded | Reported | Released | Lost
    ) -> None:
        jobs.enqueue("send")
        worker = StoreWorker(jobs, "sleeper")
        ready = worker.start_one()
        others = watcher(jobs)
        others.check()
        clock.advance(15)
        assert others.check() == 1
        before = all_rows(store)
        assert not worker.settle(ready, outcome)
        assert not worker.heartbeat()
        assert all_rows(store) == before

    def test_one_lost_attempt_in_a_group_does_not_touch_the_others(self, jobs: Rowcall, clock: FakeClock) -> None:
        for _ in range(3):
            jobs.enqueue("send")
        one, other, third = jobs.claim("hand", limit=3)
        jobs.release(other)
        jobs.complete(one)
        with pytest.raises(LeaseLost) as lost:
            jobs.complete(other)
        assert lost.value.job_id == other.id
        jobs.complete(third)
        assert jobs.stats().by_status["succeeded"] == 2

    def test_the_lease_goes_up_and_never_falls(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send", max_attempts=2).id
        leases = [jobs.get(job_id).lease]

        def note() -> None:
            leases.append(jobs.get(job_id).lease)

        jobs.release(jobs.claim("hand")[0])
        note()
        jobs.fail(jobs.claim("hand")[0], "TEST:CODE")
        note()
        clock.advance(30)
        jobs.claim("hand", lease=1)
        note()
        clock.advance(1)
        watcher(jobs).check()
        note()
        jobs.retry(job_id)
        note()
        jobs.claim("hand")
        note()
        assert all(later > earlier for earlier, later in itertools.pairwise(leases)), leases

    def _refused(self, jobs: Rowcall, store: Store, job: Job, call: Call) -> None:
        before = all_rows(store)
        with pytest.raises(LeaseLost) as lost:
            call(jobs, job)
        assert lost.value.job_id == job.id
        assert all_rows(store) == before

    @pytest.mark.parametrize("change", VOIDING.values(), ids=VOIDING)
    @pytest.mark.parametrize("result", [None, "1"])
    def test_a_success_changes_only_the_other_jobs(
        self, jobs: Rowcall, store: Store, change: str, result: str | None
    ) -> None:
        made = [jobs.enqueue("send") for _ in range(3)]
        worker = StoreWorker(jobs, "worker")
        claimed = worker.claim(slots=3).started
        store.execute(f"update rowcall_job set {change} where id = {made[1].id}")
        before = store.execute(f"select * from rowcall_job where id = {made[1].id}")
        queue = queue_of(jobs)
        transition = msgspec.structs.replace(SUCCESS, result=result)
        ended = [Ended(*ready.fence, transition, claimed_at_ms=queue.now_ms()) for ready in claimed]
        owner = Owner(worker.name, worker.holder)
        written = queue.run(Write(lambda: settle(queue.dialect, ended, None, owner=owner)))
        assert written.live == {made[0].id, made[2].id}
        assert [jobs.get(one).status for one in (made[0], made[2])] == [Status.SUCCEEDED] * 2
        assert store.execute(f"select * from rowcall_job where id = {made[1].id}") == before
        assert store.execute("select * from rowcall_claim") == []
        check_ready(store)

    @pytest.mark.parametrize("change", VOIDING.values(), ids=VOIDING)
    def test_a_completion_changes_nothing(self, jobs: Rowcall, store: Store, change: str) -> None:
        jobs.enqueue("send")
        ready = StoreWorker(jobs, "worker").start_one()
        store.execute(f"update rowcall_job set {change}")
        before = all_rows(store), store.execute("select * from rowcall_claim")
        queue = queue_of(jobs)
        on_end, progress = '{"succeeded":{"type":"note","queue":"notes"}}', Mark(*ready.fence, progress=1.0)
        completed = Completed(ready.fence, "1", 5, on_end=on_end, progress=progress)

        def refused() -> Plan[None]:
            with pytest.raises(LeaseLost):
                yield from complete(queue.dialect, completed, lambda settled: [])

        queue.run(Write(refused))  # and committed, as a caller may who catches the error
        assert (all_rows(store), store.execute("select * from rowcall_claim")) == before
