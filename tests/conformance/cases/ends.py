"""Whatever ends a job, the same things follow. One case for each way, with everything attached to the job."""

from __future__ import annotations

import ast
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import rowcall.store
from rowcall import BatchInfo, Bound, Context, Job, JobCancelled, JobFailed, JobOutcome, Limit, Rowcall, Status
from rowcall.app import queue_of
from rowcall.domain.job import FINISHED
from rowcall.domain.outcome import AttemptBudget, Succeeded, Unfit, decide
from rowcall.operations.effects import Write
from rowcall.store.counts.tallies import Tallies
from rowcall.store.ends.attempts import Ended, settle
from rowcall.store.ends.waiting import fail_unknown
from rowcall.store.queries.claims import Ready
from rowcall.store.queries.counts import Tally
from rowcall.store.queries.ends import Owner
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.store import Store
from tests.conformance.worker_parts import StoreWorker, watcher

SUCCEED, RAISE, COMPLETE, ROLL_BACK = 0, 1, 2, 3
AFTER_END = "after_end"


class Attached:
    """A job with a tag, a key, a limit, an order, a chain, follow-ups, a batch, a job behind it, a waiter, a reader."""

    def __init__(self, jobs: Rowcall, clock: FakeClock, store: Store) -> None:
        self.jobs, self.clock, self.store = jobs, clock, store
        self.followed: list[JobOutcome] = []
        self.told: list[Status] = []

        @jobs.task(max_attempts=1, limit=Limit("door", concurrency=1), ordered_by="account")
        def work(ctx: Context, how: int, account: int) -> str:
            if how in (COMPLETE, ROLL_BACK):
                with jobs.transaction() as transaction:
                    ctx.complete("done", connection=transaction)
                    if how == ROLL_BACK:
                        raise ValueError("rolled back")
            if how == RAISE:
                raise ValueError("raised")
            return "done"

        @work.on_success
        def after_success(job: JobOutcome) -> None:
            self.followed.append(job)

        @work.on_failure(cancelled=True)
        def after_failure(job: JobOutcome) -> None:
            self.followed.append(job)

        @jobs.task
        def last() -> None: ...

        @jobs.task
        def behind() -> None: ...

        @jobs.task
        def after_batch(batch: BatchInfo) -> None:
            self.finished.append(batch)

        self.batch, self.finished = jobs.batch("one", on_finish=after_batch), list[BatchInfo]()
        self.work, self.last, self.behind = work, last, behind

    def enqueue(
        self,
        how: int = SUCCEED,
        *,
        after: Job | None = None,
        expires_in: float | None = None,
        deadline: float | None = None,
        delay: float = 0,
    ) -> Job:
        options = {"after": after, "expires_in": expires_in, "deadline": deadline, "delay": delay}
        given = {name: value for name, value in options.items() if value}
        first = self.work.using(tags=["red"], **given).bind(how, 1)  # type: ignore[arg-type]
        first = Bound(msgspec.structs.replace(first.job, batch_id=self.batch.id), first.payload)
        job = self.jobs.start_chain([first, self.last.bind()], key="only").steps[0]
        self.batch.seal()
        self.next_in_order = self.work.enqueue(SUCCEED, 1)
        if delay:  # a claim that finds the next job first holds it
            assert self.jobs.claim("hand") == []
        self.blocked = self.behind.using(after=job).enqueue()
        self.reader = self.jobs.events(kind=["SUCCEEDED", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED"])
        self.waiter = threading.Thread(target=self._wait_for, args=(job.id,))
        self.waiter.start()
        return job

    def _wait_for(self, job_id: int) -> None:
        try:
            self.jobs.result(job_id)
        except JobFailed:
            self.told.append(Status.FAILED)
        except JobCancelled:
            self.told.append(Status.CANCELLED)
        else:
            self.told.append(Status.SUCCEEDED)

    def worker_claims(self) -> tuple[StoreWorker, Ready]:
        worker = StoreWorker(self.jobs, "worker")
        return worker, worker.start_one()

    def check(self, job: Job) -> None:
        """Check everything that was attached to the job."""
        job = self.jobs.get(job)
        assert job.status in FINISHED
        self.waiter.join()
        assert self.told == [job.status]
        with self.reader:
            assert next(event for event in self.reader if event.job_id == job.id) is not None
        assert [one.id for one in self.jobs.list(tag="red", type="work", status=job.status).jobs] == [job.id]
        info = self.batch.counts()
        assert (info.status, info.total, getattr(info, job.status)) == ("finished", 1, 1)
        held = self.store.execute(f"select held from rowcall_job where id = {self.next_in_order.id}")
        assert held == [(None,)], "the order and the limit are passed on"
        self.jobs.drain()
        ended = {one.id: one.status for one in self.jobs.list(limit=100).jobs}
        assert ended.pop(self.next_in_order.id) is Status.SUCCEEDED
        passed = job.status is Status.SUCCEEDED
        assert ended.pop(self.blocked.id) is (Status.SUCCEEDED if passed else job.status)
        (step,) = (one for one in self.jobs.chain(job.id).steps if one.id != job.id)
        assert step.status is Status.SUCCEEDED if passed else step.status in FINISHED
        outcomes = Counter((one.id, one.event) for one in self.followed)
        assert outcomes.pop((job.id, str(job.status))) == 1
        assert [one.id for one in self.finished] == [self.batch.id]
        assert set(outcomes) == {(self.next_in_order.id, "succeeded")}
        assert self.store.execute("select count(*) from rowcall_slot")[0][0] == 0
        assert not self.work.using(key="only", delay=60).enqueue(SUCCEED, 2).duplicate
        counted = dict(self.jobs.stats().by_status)
        self.jobs.recount()
        assert counted == dict(self.jobs.stats().by_status)


Way = Callable[[Attached], Job]


def _drained(attached: Attached, how: int) -> Job:
    job = attached.enqueue(how)
    attached.jobs.drain()
    return job


def _drain(attached: Attached) -> Job:
    return _drained(attached, SUCCEED)


def _drain_failing(attached: Attached) -> Job:
    return _drained(attached, RAISE)


def _complete_in_the_handler(attached: Attached) -> Job:
    return _drained(attached, COMPLETE)


def _roll_back_in_the_handler(attached: Attached) -> Job:
    return _drained(attached, ROLL_BACK)


def _settle_next_to_the_handlers(attached: Attached) -> Job:
    """Settle as the thread of a worker that settles while the next handlers run."""
    job = attached.enqueue()
    worker, ready = attached.worker_claims()
    transition = decide(AttemptBudget(ready.attempt, ready.max_attempts), Succeeded('"done"'))
    queue = queue_of(attached.jobs)
    ended = [Ended(*ready.fence, transition, claimed_at_ms=queue.now_ms())]
    owner = Owner(worker.name, worker.holder)
    freed = [(ready.id, ready.lease)]

    def counted(settled: set[int]) -> list[Tally]:
        tallies = Tallies()
        tallies.enter(ready.queue, ready.type, ready.attempt, transition, None, None)
        return tallies.rows()

    queue.run(Write(lambda: settle(queue.dialect, ended, counted, freed, owner=owner)))
    return job


def _settle_in_a_round(attached: Attached) -> Job:
    job = attached.enqueue()
    worker, ready = attached.worker_claims()
    assert worker.settle(ready, Unfit("A:B", "why"))
    return job


def _complete_by_hand(attached: Attached) -> Job:
    job = attached.enqueue()
    (claimed,) = attached.jobs.claim("hand")
    attached.jobs.complete(claimed, "done")
    return job


def _fail_by_hand(attached: Attached) -> Job:
    job = attached.enqueue()
    (claimed,) = attached.jobs.claim("hand")
    attached.jobs.fail(claimed, "A:B")
    return job


def _lose_the_worker(attached: Attached) -> Job:
    job = attached.enqueue()
    attached.worker_claims()
    others = watcher(attached.jobs)
    others.check()
    attached.clock.advance(15)
    assert others.check() == 1
    return job


def _expire(attached: Attached) -> Job:
    job = attached.enqueue(expires_in=5, delay=60)
    attached.clock.advance(6)
    attached.jobs.claim("hand", queues=["no such queue"])
    return job


def _overrun(attached: Attached) -> Job:
    job = attached.enqueue(deadline=5, delay=60)
    attached.clock.advance(66)
    attached.jobs.claim("hand", queues=["no such queue"])
    return job


def _cancel(attached: Attached) -> Job:
    job = attached.enqueue(delay=60)
    attached.jobs.cancel(job)
    return job


def _cancel_its_parent(attached: Attached) -> Job:
    job, parent = attached.enqueue(delay=60), attached.jobs.enqueue("parent", delay=60)
    attached.store.execute(f"update rowcall_job set parent_id = {parent.id} where id = {job.id}")
    attached.jobs.cancel(parent)
    return job


def _complete_while_it_waits(attached: Attached) -> Job:
    job = attached.enqueue(delay=60)
    attached.jobs.complete(job.id, "done")
    return job


def _complete_its_chain(attached: Attached) -> Job:
    job = attached.enqueue(delay=60)
    attached.jobs.complete_chain(job, "done")
    return job


def _refuse(attached: Attached) -> Job:
    job, queue = attached.enqueue(), queue_of(attached.jobs)
    attached.jobs.reschedule(attached.next_in_order, delay=60)
    plan = fail_unknown(queue.dialect, "default", "work", 0, "no worker knows it")
    assert queue.run(Write(lambda: plan)) == 1
    attached.clock.advance(61)
    return job


def _fail_what_it_waits_for(attached: Attached) -> Job:
    blocker = attached.jobs.enqueue("blocker", max_attempts=1)
    job = attached.enqueue(after=blocker)
    (claimed,) = attached.jobs.claim("hand", limit=5)
    assert claimed.id == blocker.id
    attached.jobs.fail(claimed, "A:B")
    return job


# each way, and the functions with which it ends the job
WAYS: dict[Way, set[str]] = {
    _drain: {"round_of_work"},
    _drain_failing: {"round_of_work"},
    _complete_in_the_handler: {"complete", "settle_completed"},
    _roll_back_in_the_handler: {"settle_completed", "settle"},
    _settle_next_to_the_handlers: {"settle"},
    _settle_in_a_round: {"round_of_work"},
    _complete_by_hand: {"settle"},
    _fail_by_hand: {"settle"},
    _lose_the_worker: {"settle"},
    _expire: {"expire"},
    _overrun: {"end_overdue"},
    _cancel: {"cancel_waiting"},
    _cancel_its_parent: {"cancel_waiting", "cancel_children"},
    _complete_while_it_waits: {"complete_by_hand"},
    _complete_its_chain: {"skip_steps", "complete_by_hand"},
    _refuse: {"fail_unknown"},
    _fail_what_it_waits_for: {"settle"},
}


def callers_of(name: str) -> set[str]:
    """Return the functions of the store that call a function of this name."""
    return {
        function.name
        for path in Path(rowcall.store.__path__[0]).rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    }


class TestEnds:
    @pytest.mark.parametrize("way", WAYS)
    def test_the_same_things_follow_each_way_to_end(
        self, jobs: Rowcall, clock: FakeClock, store: Store, way: Way
    ) -> None:
        attached = Attached(jobs, clock, store)
        attached.check(way(attached))

    def test_each_way_to_end_is_tried(self) -> None:
        assert callers_of(AFTER_END) == set().union(*WAYS.values())
