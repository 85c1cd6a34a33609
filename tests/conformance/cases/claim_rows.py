"""A claim is a row: what it shows, what it fences, and what is left of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rowcall import Backoff, LeaseLost, Limit, Rowcall, Status, WrongState
from rowcall.app import queue_of
from rowcall.domain.outcome import Lost, Released, Reported, Succeeded
from rowcall.domain.step import StepKind
from rowcall.operations.effects import Write
from rowcall.store.ends.attempts import write_ended
from rowcall.store.jobs.marks import mark
from rowcall.store.new_step import StepWrite
from rowcall.store.queries.claims import Mark, Ready
from rowcall.store.queries.counts import Tally
from rowcall.store.queries.ends import Owner, Success
from rowcall.store.steps import recorded
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.cases.plain_sql import UNREADABLE
from tests.conformance.store import Store
from tests.conformance.worker_parts import LEASE_SECONDS, StoreWorker, watcher

CLAIMS = "select job_id, lease, attempt, worker from rowcall_claim order by job_id"
OWN_ROW = "select status, lease, attempt, worker from rowcall_job where id = {}"
BROKEN = Reported("INTERNAL:ValueError", "broken")


def lost_to(jobs: Rowcall, clock: FakeClock) -> int:
    """Let the lease of all workers pass, and return how many jobs were recovered."""
    others = watcher(jobs)
    others.check()
    clock.advance(LEASE_SECONDS)
    return others.check()


class TestClaimRows:
    @pytest.fixture
    def worker(self, jobs: Rowcall) -> StoreWorker:
        return StoreWorker(jobs, "together")

    @pytest.fixture
    def claimed(self, jobs: Rowcall, worker: StoreWorker) -> list[Ready]:
        for _ in range(6):
            jobs.enqueue("send")
        return worker.claim(slots=4, buffer=2).jobs

    def test_each_claim_is_a_row_and_its_job_reads_as_running(
        self, jobs: Rowcall, store: Store, claimed: list[Ready]
    ) -> None:
        first = claimed[0].id
        assert store.execute(CLAIMS) == [(first + number, 1, 1, "together") for number in range(6)]
        assert store.execute(OWN_ROW.format(first)) == [("pending", 0, 0, None)]
        assert store.execute("select count(*) from rowcall_ready") == [(0,)]
        started, buffered = jobs.get(first), jobs.get(first + 4)
        assert (started.status, started.attempt, started.worker) == (Status.RUNNING, 1, "together")
        assert started.claimed_at == started.started_at == buffered.claimed_at
        assert (buffered.status, buffered.started_at) == (Status.RUNNING, None)
        assert [event.event for event in jobs.timeline(first)] == ["ENQUEUED", "CLAIMED", "STARTED"]
        assert [(one.attempt, one.status) for one in jobs.attempts(first)] == [(1, "running")]

    def test_a_job_that_was_read_is_settled_by_hand(self, jobs: Rowcall, claimed: list[Ready]) -> None:
        first, second, third, fourth = (jobs.get(job.id) for job in claimed[:4])
        jobs.complete(first, result=1)
        jobs.fail(second, "TIMEOUT:UPSTREAM_API", "30 s")
        jobs.release(third)
        jobs.heartbeat(fourth)
        found = [jobs.get(job.id) for job in claimed[:4]]
        assert [job.status for job in found] == ["succeeded", "scheduled", "pending", "running"]
        assert (found[0].attempt, found[0].worker, found[0].result) == (1, "together", 1)
        for job in (first, second, third):
            with pytest.raises(LeaseLost):
                jobs.complete(job)

    def test_a_worker_tells_running_jobs_from_buffered_ones(self, jobs: Rowcall, store: Store) -> None:
        worker = StoreWorker(jobs, "busy")  # with 10 slots
        for number in range(25):
            jobs.enqueue("send", priority=-(number % 2))
        for _ in range(2):
            worker.claim(slots=3, buffer=0)
        assert [(one.running, one.buffered) for one in jobs.workers()] == [(6, 0)]
        claim = worker.claim(slots=4, buffer=9)
        assert [(one.running, one.buffered) for one in jobs.workers()] == [(10, 9)]
        for ready in claim.buffered:  # a batch takes one slot
            worker.mark_started(ready)
        assert [(one.running, one.buffered) for one in jobs.workers()] == [(19, 0)]

    def test_lists_and_counts_agree_with_it(self, jobs: Rowcall, claimed: list[Ready]) -> None:
        jobs.enqueue("send", queue="other")
        ids = [job.id for job in claimed]
        assert sorted(job.id for job in jobs.list(status="running").jobs) == ids
        assert sorted(job.id for job in jobs.list(status="running", queue="default").jobs) == ids
        assert jobs.list(status="running", queue="other").jobs == []
        assert len(jobs.list(status="pending").jobs) == 1
        assert {job.status for job in jobs.list(queue="default").jobs} == {Status.RUNNING}
        counts = jobs.stats().by_status
        assert (counts["pending"], counts["running"]) == (1, 6)
        assert [(one.name, one.running) for one in jobs.workers()] == [("together", 6)]

    def test_the_view_shows_what_get_shows(self, jobs: Rowcall, store: Store, claimed: list[Ready]) -> None:
        shown = store.execute("select id, status, attempt, worker from rowcall_jobs order by id")
        assert shown == [
            (job.id, job.status.value, job.attempt, job.worker) for job in (jobs.get(one.id) for one in claimed)
        ]

    def test_the_end_of_an_attempt_writes_the_job_and_deletes_the_claim(
        self, jobs: Rowcall, store: Store, worker: StoreWorker, claimed: list[Ready]
    ) -> None:
        for number, ready in enumerate(claimed):
            assert len(store.execute(CLAIMS)) == 6 - number
            assert worker.settle(ready, Succeeded(str(ready.id)))
            assert store.execute(OWN_ROW.format(ready.id)) == [("succeeded", 2, 1, "together")]
        assert store.execute(CLAIMS) == []
        assert jobs.get(claimed[0].id).result == claimed[0].id

    def test_what_does_not_succeed_leaves_no_claim(
        self, jobs: Rowcall, store: Store, worker: StoreWorker, claimed: list[Ready]
    ) -> None:
        failed, released = claimed[0], claimed[4]
        assert worker.settle(failed, BROKEN)
        assert worker.settle(released, Released(started=False))
        assert store.execute(OWN_ROW.format(failed.id)) == [("scheduled", 2, 1, "together")]
        assert [(one.status, one.error_code) for one in jobs.attempts(failed.id)] == [("failed", BROKEN.code)]
        assert (jobs.get(released.id).status, jobs.get(released.id).attempt) == (Status.PENDING, 0)
        again = jobs.dequeue("hand")
        assert again is not None
        assert again.id == released.id

    def test_a_worker_that_dies_before_it_settles_loses_what_had_started(
        self, jobs: Rowcall, store: Store, clock: FakeClock, claimed: list[Ready]
    ) -> None:
        assert lost_to(jobs, clock) == 6
        assert store.execute(CLAIMS) == []
        for ready in claimed[:4]:
            assert [one.status for one in jobs.attempts(ready.id)] == ["lost"]
        assert [jobs.attempts(ready.id) for ready in claimed[4:]] == [[], []]
        assert {job.status for job in jobs.list().jobs} == {Status.PENDING}

    def test_a_group_that_is_half_settled_loses_the_other_half(
        self, jobs: Rowcall, store: Store, clock: FakeClock, worker: StoreWorker, claimed: list[Ready]
    ) -> None:
        for ready in (claimed[0], claimed[2]):
            assert worker.settle(ready, Succeeded())
        assert lost_to(jobs, clock) == 4
        statuses = [jobs.get(ready.id).status.value for ready in claimed]
        assert statuses == ["succeeded", "pending", "succeeded", "pending", "pending", "pending"]
        assert store.execute(CLAIMS) == []

    def test_a_worker_that_was_only_paused_settles_nothing_of_what_others_recovered(
        self, jobs: Rowcall, clock: FakeClock, worker: StoreWorker, claimed: list[Ready]
    ) -> None:
        assert lost_to(jobs, clock) == 6
        before = [jobs.get(ready.id) for ready in claimed]
        for ready in claimed:
            assert not worker.settle(ready, Succeeded())
        assert [jobs.get(ready.id) for ready in claimed] == before
        other = StoreWorker(jobs, "other")
        for ready in other.claim(slots=6).started:
            assert not worker.settle(claimed[0], Succeeded())
            assert other.settle(ready, Succeeded())
        assert jobs.stats().by_status["succeeded"] == 6

    def test_claims_of_a_worker_that_is_not_registered_are_recovered(
        self, jobs: Rowcall, store: Store, claimed: list[Ready]
    ) -> None:
        store.execute("delete from rowcall_worker")
        assert watcher(jobs).check() == 6
        assert store.execute(CLAIMS) == []
        assert jobs.stats().by_status["pending"] == 6

    def test_a_cancel_asks_the_handler_to_stop(
        self, jobs: Rowcall, store: Store, worker: StoreWorker, claimed: list[Ready]
    ) -> None:
        assert jobs.cancel(claimed[1].id, reason="not needed").status is Status.RUNNING
        assert store.execute(f"select cancel from rowcall_claim where job_id = {claimed[1].id}") == [(1,)]
        assert worker.settle(claimed[1], BROKEN)
        assert jobs.get(claimed[1].id).status is Status.CANCELLED
        assert {"CANCEL_REQUESTED", "CANCELLED"} < {event.event for event in jobs.timeline(claimed[1].id)}
        for ready in (*claimed[:1], *claimed[2:]):
            assert worker.settle(ready, Succeeded())
        assert store.execute(CLAIMS) == []

    def test_a_cancel_of_many_knows_which_of_them_run(self, jobs: Rowcall, claimed: list[Ready]) -> None:
        waiting = jobs.enqueue("send")
        assert jobs.cancel(queue="default", status="pending") == 1
        assert jobs.get(waiting.id).status is Status.CANCELLED
        assert {jobs.get(ready.id).status for ready in claimed} == {Status.RUNNING}

    def test_what_a_running_job_refuses_is_refused(self, jobs: Rowcall, claimed: list[Ready]) -> None:
        for action in (jobs.delete, jobs.retry, lambda job_id: jobs.reschedule(job_id, delay=5)):
            with pytest.raises(WrongState, match="running"):
                action(claimed[0].id)
        assert jobs.get(claimed[0].id).status is Status.RUNNING

    def test_priority_and_pause_do_not_stop_it(self, jobs: Rowcall, worker: StoreWorker, claimed: list[Ready]) -> None:
        assert jobs.set_priority(claimed[0].id, 7).priority == 7
        jobs.pause("default")
        assert worker.settle(claimed[0], Succeeded())
        assert jobs.get(claimed[0].id).status is Status.SUCCEEDED
        jobs.resume("default")
        assert worker.claim(slots=6).started == []

    def test_plain_sql_next_to_it_harms_only_what_it_changes(
        self, jobs: Rowcall, store: Store, worker: StoreWorker, claimed: list[Ready]
    ) -> None:
        store.execute(f"delete from rowcall_job where id = {claimed[1].id}")
        store.execute("insert into rowcall_job (type) values ('send')")
        assert not worker.settle(claimed[1], Succeeded())
        for ready in (*claimed[:1], *claimed[2:]):
            assert worker.settle(ready, Succeeded())
        assert store.execute(CLAIMS) == []
        (written_later,) = worker.claim(slots=9).started
        assert worker.settle(written_later, Succeeded())

    @pytest.mark.parametrize(
        "change",
        ["priority = 7", "run_at = run_at", "queue = 'other'", "turn = 5", "payload = '{}'", "priority = priority"],
    )
    def test_plain_sql_that_changes_a_claimed_job_does_not_make_it_ready_again(
        self, jobs: Rowcall, store: Store, worker: StoreWorker, claimed: list[Ready], change: str
    ) -> None:
        store.execute(f"update rowcall_job set {change} where status = 'pending'")
        assert store.execute("select * from rowcall_ready") == []
        assert StoreWorker(jobs, "other").claim(slots=9).started == []
        assert all(worker.settle(ready, Succeeded()) for ready in claimed)

    @pytest.mark.parametrize("index", [0, 1, 3])
    def test_an_id_that_plain_sql_uses_again_is_not_claimed(
        self, jobs: Rowcall, store: Store, worker: StoreWorker, claimed: list[Ready], index: int
    ) -> None:
        old = claimed[index]
        store.execute(f"delete from rowcall_job where id = {old.id}")
        store.execute(f"insert into rowcall_job (id, type, status) values ({old.id}, 'send', 'pending')")
        assert jobs.get(old.id).status is Status.PENDING
        assert not worker.settle(old, Succeeded())
        assert [worker.settle(ready, Succeeded()) for ready in claimed if ready is not old] == [True] * 5
        assert store.execute(CLAIMS) == []
        (again,) = worker.claim(slots=9).started
        assert again.id == old.id

    def test_an_attempt_that_is_given_twice_does_not_end_the_claim_of_its_neighbour(
        self, jobs: Rowcall, worker: StoreWorker, claimed: list[Ready]
    ) -> None:
        queue, (ready, neighbour) = queue_of(jobs), claimed[4:]
        at_ms = queue.now_ms() or 0
        twice = [Success(ready.id, lease, at_ms, 5, 1, None) for lease in (1, 3)]
        owner = Owner(worker.name, worker.holder)
        written = queue.run(Write(write_ended, queue.dialect, twice, None, owner))
        assert written.live == set()
        assert jobs.get(neighbour.id).status is Status.RUNNING
        assert worker.settle(neighbour, Succeeded())

    def test_of_two_workers_with_one_id_and_lease_only_the_holder_of_the_claim_settles(
        self, jobs: Rowcall, store: Store, clock: FakeClock
    ) -> None:
        """After a failover to a standby that lagged, or from a restored backup, an id can be given out again."""
        old, new = StoreWorker(jobs, "web-1"), StoreWorker(jobs, "web-2")
        jobs.enqueue("send")
        before = old.start_one()
        store.execute("delete from rowcall_job")
        store.execute(f"insert into rowcall_job (id, type, status) values ({before.id}, 'send', 'pending')")
        after = new.start_one()
        assert (after.id, after.lease) == (before.id, before.lease)
        for outcome in (Succeeded("1"), BROKEN, Released(), Lost()):
            assert not old.settle(before, outcome)
        queue = queue_of(jobs)
        for marked in (Mark(*before.fence, started_age_ms=9), Mark(*before.fence, progress=0.5)):
            queue.run(Write(mark, queue.dialect, [marked]))
        fields: dict[str, object] = {"lease": before.lease, "holder": before.holder}
        mine = msgspec.structs.replace(jobs.get(before.id), **fields)
        for call in (jobs.complete, jobs.heartbeat, jobs.release, lambda job: jobs.fail(job, "NO:GOOD")):
            with pytest.raises(LeaseLost):
                call(mine)
        write = StepWrite(*before.fence, 1, 1, StepKind.STEP, "charge", finished=True)
        with pytest.raises(LeaseLost):
            queue.run(Write(recorded.record_one, queue.dialect, write))
        found = jobs.get(after.id)
        assert (found.status, found.worker, found.progress, found.heartbeat_at) == ("running", "web-2", None, None)
        assert new.settle(after, Succeeded("2"))
        assert jobs.get(after.id).result == 2

    @pytest.mark.parametrize("by_its_holder", [False, True])
    def test_a_claim_that_is_there_already_is_not_claimed_again(
        self,
        jobs: Rowcall,
        store: Store,
        clock: FakeClock,
        worker: StoreWorker,
        claimed: list[Ready],
        by_its_holder: bool,
    ) -> None:
        """Plain SQL can write a ready row for a job that runs: that row goes, and the others are claimed."""
        other = jobs.enqueue("send")
        columns = 'queue, type, "rank", turn, id, since, expires_at, lease, attempt'
        row = f'queue, type, "rank", {claimed[0].id}, {claimed[0].id}, since, expires_at, lease, attempt'
        store.execute(f"insert into rowcall_ready ({columns}) select {row} from rowcall_ready")
        clock.advance(1)
        claimer = worker if by_its_holder else StoreWorker(jobs, "other")
        assert [ready.id for ready in claimer.claim(slots=2, buffer=2).jobs] == [other.id]
        assert store.execute("select count(*) from rowcall_ready") == [(0,)]
        assert worker.settle(claimed[0], Succeeded())

    @pytest.mark.parametrize("lease", [0, 4])
    def test_a_job_that_cannot_be_claimed_keeps_only_the_slot_of_the_attempt_that_runs(
        self, jobs: Rowcall, store: Store, clock: FakeClock, worker: StoreWorker, lease: int
    ) -> None:
        limit = Limit("three", concurrency=3)
        running, other = (jobs.enqueue("send", limit=limit).id for _ in range(2))
        ready = worker.start_one()
        store.execute(f"update rowcall_job set lease = {lease} where id = {running}")
        columns = 'queue, type, "rank", turn, id, since, expires_at, lease, attempt'
        row = f'queue, type, "rank", {running}, {running}, since, expires_at, {lease}, attempt'
        store.execute(f"insert into rowcall_ready ({columns}) select {row} from rowcall_ready where id = {other}")
        clock.advance(1)
        late = StoreWorker(jobs, "late")
        (second,) = late.claim(slots=2, buffer=2).jobs
        assert second.id == other
        assert store.execute("select job_id, lease from rowcall_slot order by 1") == [(running, 1), (other, 1)]
        assert late.settle(second, Succeeded())
        assert worker.settle(ready, Succeeded()) is (lease == 0)
        assert store.execute("select * from rowcall_slot") == []

    @pytest.mark.parametrize("buffer", [0, 2])
    def test_a_ready_row_of_another_lease_is_replaced_before_its_job_is_claimed(
        self, jobs: Rowcall, store: Store, worker: StoreWorker, buffer: int
    ) -> None:
        """The end of an attempt adds two to the lease and writes the ready row itself, so no trigger does."""
        job_id = jobs.enqueue("send").id
        store.execute("update rowcall_job set lease = lease + 2")
        ready = next(ready for _ in range(2) for ready in worker.claim(slots=2, buffer=buffer).jobs)
        assert store.execute(CLAIMS) == [(job_id, ready.lease, 1, "together")]
        assert ready.lease == 3
        assert worker.settle(ready, Succeeded())
        assert store.execute(CLAIMS) == []

    def test_a_job_that_cannot_be_read_fails_also_behind_a_ready_row_of_another_lease(
        self, jobs: Rowcall, store: Store, worker: StoreWorker
    ) -> None:
        job = jobs.enqueue("send")
        store.execute(f"update rowcall_job set limits = '{UNREADABLE['limits']}', lease = lease + 2")
        assert [one.job.id for _ in range(2) for one in worker.claim(slots=2).unread] == [job.id]
        assert jobs.get(job).status is Status.FAILED

    def test_a_group_with_gaps_settles_what_is_still_its_own(
        self, jobs: Rowcall, store: Store, worker: StoreWorker
    ) -> None:
        for number in range(12):
            jobs.enqueue("send", queue="other" if number in (2, 9) else "default")
        group = worker.claim(slots=10, queues=["default"]).started
        others = StoreWorker(jobs, "other").claim(slots=2).started
        running, asked, completed, deleted = group[3], group[4], group[5], group[6]
        for one in (asked, completed):
            jobs.cancel(one.id)
        jobs.complete(jobs.get(completed.id), "by hand")
        store.execute(f"delete from rowcall_job where id = {deleted.id}")
        queue = queue_of(jobs)
        at_ms, owner = queue.now_ms() or 0, Owner(worker.name, worker.holder)
        ended = [Success(one.id, one.lease, at_ms, 5, 1, None) for one in group if one is not running]
        counted: list[set[int]] = []

        def tallies(settled: set[int]) -> list[Tally]:
            counted.append(settled)
            return []

        ours = {one.id for one in group} - {running.id, completed.id, deleted.id}
        assert queue.run(Write(write_ended, queue.dialect, ended, tallies, owner)).live == ours
        assert counted == [ours]
        assert {job.id for job in jobs.list(status="succeeded").jobs} == {*ours, completed.id}
        assert jobs.get(completed.id).result == "by hand"
        assert {job.id for job in jobs.list(status="running").jobs} == {running.id, *(one.id for one in others)}
        assert worker.settle(running, Succeeded())
        assert store.execute(CLAIMS.replace("order by", "where worker = 'together' order by")) == []

    @pytest.mark.parametrize("index", [0, 2, 5])
    def test_a_run_of_ids_settles_what_is_still_its_own(
        self, jobs: Rowcall, store: Store, worker: StoreWorker, claimed: list[Ready], index: int
    ) -> None:
        queue, lost = queue_of(jobs), claimed[index]
        jobs.complete(jobs.get(lost.id), "by hand")
        at_ms, owner = queue.now_ms() or 0, Owner(worker.name, worker.holder)
        run = Success(claimed[0].id, 1, at_ms, 5, 1, None, count=len(claimed))
        assert list(run.ids) == [one.id for one in claimed]
        ours = {one.id for one in claimed} - {lost.id}
        assert queue.run(Write(write_ended, queue.dialect, [run], None, owner)).live == ours
        assert {jobs.get(job_id).status for job_id in ours} == {Status.SUCCEEDED}
        assert jobs.get(lost.id).result == "by hand"
        assert store.execute(CLAIMS) == []

    def test_a_run_of_ids_shares_a_result(self, jobs: Rowcall, worker: StoreWorker, claimed: list[Ready]) -> None:
        queue, (first, *_, last) = queue_of(jobs), claimed
        at_ms, owner = queue.now_ms() or 0, Owner(worker.name, worker.holder)
        rows = [
            Success(first.id, 1, at_ms, 5, 1, '"same"', count=len(claimed) - 2),
            Success(last.id - 1, 1, at_ms, 5, 1, None),
            Success(last.id, 1, at_ms, 5, 1, '{"null": [null]}'),
        ]
        settled = queue.run(Write(write_ended, queue.dialect, rows, None, owner)).live
        assert settled == {one.id for one in claimed}
        results = [jobs.get(one.id).result for one in claimed]
        assert results == [*["same"] * (len(claimed) - 2), None, {"null": [None]}]

    def test_a_claim_whose_jobs_were_deleted_goes_with_its_last_attempt(
        self, jobs: Rowcall, store: Store, worker: StoreWorker, claimed: list[Ready]
    ) -> None:
        store.execute("delete from rowcall_job")
        assert jobs.stats().by_status["running"] == 0
        assert not any(worker.settle(ready, Succeeded()) for ready in claimed)
        assert store.execute(CLAIMS) == []

    def test_every_kind_of_job_is_claimed_in_the_same_way(
        self, jobs: Rowcall, store: Store, worker: StoreWorker
    ) -> None:
        options: list[dict[str, Any]] = [
            *({}, {"key": "k"}, {"tags": ["t"]}, {"max_attempts": 1}, {"expires_in": 60}),
            *({"priority": 3}, {"retry": Backoff.constant(1)}, {"limit": Limit("one", concurrency=1)}),
        ]
        made = [jobs.enqueue("send", **given).id for given in options]
        by_hand = jobs.dequeue("hand")
        claim = worker.claim(slots=3, buffer=9)
        assert by_hand is not None
        assert [row[0] for row in store.execute(CLAIMS)] == made
        assert {by_hand.id, *(ready.id for ready in claim.jobs)} == set(made)
        assert store.execute("select distinct status, lease from rowcall_job") == [("pending", 0)]

    def test_an_expiry_does_not_end_a_first_attempt_that_runs(
        self, jobs: Rowcall, clock: FakeClock, worker: StoreWorker
    ) -> None:
        running, waiting = (jobs.enqueue("send", expires_in=60).id for _ in range(2))
        ready = worker.start_one()
        clock.advance(61)
        assert jobs.dequeue("hand") is None
        assert [jobs.get(one).status.value for one in (running, waiting)] == ["running", "cancelled"]
        assert worker.settle(ready, Succeeded())

    def test_a_claim_takes_no_other_job_of_the_same_turn(self, jobs: Rowcall, store: Store) -> None:
        @jobs.task(fair_by="customer", weight={"A": 2})
        def serve(customer: str) -> None: ...

        made = [serve.enqueue("A").id for _ in range(3)]
        assert len(store.execute("select id from rowcall_ready where turn = 1")) == 2
        assert [job.id for job in jobs.claim("hand", limit=1)] == made[:1]
        assert [row[0] for row in store.execute(CLAIMS)] == made[:1]
        assert store.execute("select count(*) from rowcall_ready") == [(2,)]

    def test_jobs_of_several_queues_and_priorities_are_claimed_once(
        self, jobs: Rowcall, store: Store, worker: StoreWorker
    ) -> None:
        made = [
            jobs.enqueue(("send", "print")[number % 2], queue=("mail", "media")[number % 3 % 2], priority=number % 4).id
            for number in range(60)
        ]
        claim = worker.claim(slots=40, buffer=5)
        other = StoreWorker(jobs, "other").claim(slots=60)
        both = [one.id for found in (claim, other) for one in (*found.started, *found.buffered)]
        assert sorted(both) == made
        for ready in (*claim.started, *claim.buffered):
            assert worker.settle(ready, Succeeded())
        assert store.execute("select distinct worker from rowcall_claim") == [("other",)]
