"""Everything that changes or reads a job, in a transaction of the caller's: all of it is committed with the rest, or
none of it.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from rowcall import Context, InvalidOption, Job, JobCancelled, LeaseLost, Rowcall, WrongState
from rowcall.worker import settling
from tests.drivers.caller.callers.base import Caller
from tests.drivers.caller.queue_site import Case, act
from tests.drivers.caller.test_flows import SOME, lives_on
from tests.wake.idle import Idle
from tests.worker.support import comes_to, ended


@pytest.fixture(params=SOME, ids=lambda kind: kind.name)
def case(request: pytest.FixtureRequest) -> Case:
    here, elsewhere = request.getfixturevalue(f"{request.param.database}_sites")
    return Case(request.param, here, elsewhere)


class Before:
    """Jobs in every state, committed before the transaction begins."""

    def __init__(self, case: Case) -> None:
        jobs, self.queue = case.jobs, case.queue
        send = case.site.send.using(queue=self.queue)
        later = case.site.send.using(queue=self.queue, delay=60)
        self.claimed = [send.enqueue(name) for name in ("completed", "failed")]
        self.claimed = jobs.claim("by-hand", limit=2, queues=[self.queue])
        self.cancelled = later.enqueue("cancelled")
        self.dependent = case.site.send.using(queue=self.queue, after=self.cancelled).enqueue("dependent")
        self.tagged = case.site.send.using(queue=self.queue, tags=[self.queue], delay=60).enqueue("tagged")
        self.deleted = later.enqueue("deleted")
        self.retried = jobs.cancel(later.enqueue("retried"))
        self.rescheduled = later.enqueue("rescheduled")
        self.preferred = later.enqueue("preferred")
        self.edited, self.approved = later.enqueue("edited"), later.enqueue("approved")
        self.completed_chain = jobs.start_chain([later.bind("first"), later.bind("last")])
        self.cancelled_chain = jobs.start_chain([later.bind("first"), later.bind("last")])


async def change_all(case: Case, mine: Caller, before: Before) -> None:
    completed, failed = before.claimed
    await act(case, mine, "complete", completed, {"ok": True})
    await act(case, mine, "fail", failed, "TEST:FAILED", "on purpose")
    assert (await act(case, mine, "cancel", before.cancelled, "with the order")).status == "cancelled"
    assert await act(case, mine, "cancel", tag=case.queue) == 1
    await act(case, mine, "delete", before.deleted)
    assert (await act(case, mine, "retry", before.retried)).status == "pending"
    assert (await act(case, mine, "reschedule", before.rescheduled, delay=0)).status == "pending"
    assert (await act(case, mine, "set_priority", before.preferred, 9)).priority == 9
    edited = await act(case, mine, "edit", before.edited, {"to": "corrected"}, tags=["new"])
    assert (edited.payload, edited.tags) == ({"to": "corrected"}, ("new",))
    await act(
        case, mine, "complete", before.approved.id, "yes", then=case.site.send.using(queue=case.queue).bind("next")
    )
    assert (await act(case, mine, "complete_chain", before.completed_chain, "ended")).result == "ended"
    assert (await act(case, mine, "cancel_chain", before.cancelled_chain)).status == "cancelled"


def states_of(jobs: list[Job]) -> dict[object, str]:
    return {job.payload["to"]: str(job.status) for job in jobs if job.chain_id is None}


CHANGED = {
    "completed": "succeeded",
    "failed": "scheduled",
    "cancelled": "cancelled",
    "dependent": "cancelled",
    "tagged": "cancelled",
    "retried": "pending",
    "rescheduled": "pending",
    "preferred": "scheduled",
    "corrected": "scheduled",
}


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
def test_all_or_nothing(case: Case, commits: bool) -> None:
    async def scenario(mine: Caller) -> None:
        before, written = Before(case), case.written
        await mine.begin()
        await mine.execute(case.note)
        await change_all(case, mine, before)
        seen = await act(case, mine, "list", queue=case.queue)
        assert states_of(seen.jobs) == CHANGED
        assert await act(case, mine, "get", before.cancelled) == next(
            job for job in seen.jobs if job.id == before.cancelled.id
        )
        assert case.written == written  # others see nothing of it
        await lives_on(case, mine)
        await (mine.commit() if commits else mine.rollback())
        if not commits:
            assert (case.written, case.notes) == (written, 0)
            return
        assert states_of(case.written) == CHANGED
        assert case.notes == 1
        assert case.jobs.get(before.preferred).priority == 9
        assert case.jobs.chain(before.completed_chain).result == "ended"
        assert case.jobs.chain(before.cancelled_chain).status == "cancelled"
        assert [event.detail for event in case.jobs.timeline(before.cancelled) if event.event == "CANCELLED"] == [
            "with the order"
        ]

    case.run(scenario)


def test_a_refused_action_leaves_the_transaction_alive(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        job = case.site.send.using(queue=case.queue).enqueue("claimed")
        (claimed,) = case.jobs.claim("by-hand", queues=[case.queue])
        waiting = case.site.send.using(queue=case.queue).enqueue("waiting")
        await mine.begin()
        await mine.execute(case.note)
        for name, args in (("delete", [job]), ("retry", [job]), ("reschedule", [job])):
            options = {"delay": 1} if name == "reschedule" else {}
            with pytest.raises(WrongState):
                await act(case, mine, name, *args, **options)
        await act(case, mine, "complete", claimed)
        with pytest.raises(LeaseLost):
            await act(case, mine, "complete", claimed)
        with pytest.raises(InvalidOption):
            await act(case, mine, "cancel")
        assert (await act(case, mine, "get", waiting)).status == "pending"
        await lives_on(case, mine)
        await mine.commit()

    case.run(scenario)
    assert states_of(case.written) == {"claimed": "succeeded", "waiting": "pending"}


# --- workers next to an open transaction, on PostgreSQL --------------------------------------------


@pytest.mark.concurrency
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_locks_of_an_open_transaction_stop_no_worker(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(settling, "MARK_AFTER_SECONDS", 0.0)
    with Rowcall(postgres_url) as jobs, psycopg.connect(postgres_url) as mine:
        gate = threading.Event()

        @jobs.task(max_attempts=1)
        def running(ctx: Context) -> None:
            assert gate.wait(20)

        @jobs.task
        def note(text: str) -> None: ...

        first = running.enqueue()
        waiting = note.using(delay=60, tags=["t"]).enqueue("waiting")
        blocked = note.using(after=first).enqueue("blocked")
        other = note.using(after=first).enqueue("other")
        deleted = note.using(after=first).enqueue("deleted")
        with jobs.worker(concurrency=2):
            comes_to(jobs, first, "running")
            for job in (first, waiting, blocked):
                jobs.cancel(job, connection=mine)
            jobs.delete(deleted, connection=mine)
            gate.set()
            for text in ("one", "two", "three"):
                assert ended(jobs, note.enqueue(text)).status == "succeeded"
            assert jobs.get(first).status == "running"  # its row is locked
            getattr(mine, end)()
            assert ended(jobs, first).status == "succeeded"
            assert ended(jobs, other).status == "succeeded"
            if end == "commit":
                assert [jobs.get(job).status for job in (waiting, blocked)] == ["cancelled", "cancelled"]
            else:
                assert jobs.get(waiting).status == "scheduled"
                assert ended(jobs, blocked).status == "succeeded"
                assert ended(jobs, deleted).status == "succeeded"


def test_workers_and_waiters_are_notified_at_the_commit(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Rowcall(postgres_url) as jobs, psycopg.connect(postgres_url) as mine:
        idle = Idle(jobs, postgres_url)
        idle.watch(monkeypatch)
        later = jobs.enqueue("note", {"text": "x"}, delay=3600)
        other = jobs.enqueue("note", {"text": "never"}, delay=3600)
        with ThreadPoolExecutor() as others, idle.worker():
            waiter = others.submit(pytest.raises, JobCancelled, jobs.result, other)
            idle.settle()
            jobs.reschedule(later, delay=0, connection=mine)
            jobs.cancel(other, connection=mine)
            assert idle.ran == []
            mine.commit()
            idle.has_run("x")
            waiter.result(20)
