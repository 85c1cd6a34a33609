"""Chains as a whole: pages of them, and what happens to one that is deleted."""

from __future__ import annotations

import pytest

from rowcall import Chain, InvalidOption, Job, JobNotFound, Rowcall, Status, StillNeeded, WrongState
from rowcall.app import queue_of
from rowcall.operations.enqueue import bind
from tests.conformance.cases.chains import two_steps
from tests.conformance.store import Store


def chain_of(jobs: Rowcall, *names: str) -> Chain:
    return jobs.start_chain([bind(queue_of(jobs), name, (), {}) for name in names])


class TestListingChains:
    def test_pages_are_newest_first_and_hold_each_once(self, jobs: Rowcall) -> None:
        ids = [chain_of(jobs, "a", "b").id for _ in range(7)]
        jobs.enqueue("alone")
        seen, cursor, lengths = [], None, []
        while True:
            page = jobs.list_chains(limit=3, cursor=cursor)
            seen += [chain.id for chain in page.chains]
            lengths.append(len(page.chains))
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == ids[::-1]
        assert lengths == [3, 3, 1]
        assert jobs.list_chains(limit=7).next_cursor is None

    def test_a_page_says_of_a_chain_what_the_chain_says_but_for_its_steps(self, jobs: Rowcall) -> None:
        chain = chain_of(jobs, "a", "b")
        jobs.complete(jobs.claim("hand")[0], 1)
        (listed,) = jobs.list_chains().chains
        whole = jobs.chain(chain.id)
        assert listed.steps == ()
        for field in ("id", "type", "queue", "status", "length", "current", "created_at", "finished_at", "result"):
            assert getattr(listed, field) == getattr(whole, field)

    def test_type_and_status_narrow_it(self, jobs: Rowcall) -> None:
        done, cancelled, running, waiting = (chain_of(jobs, kind, "last").id for kind in ("a", "b", "a", "b"))
        jobs.complete_chain(done)
        for step in jobs.chain(cancelled).steps[::-1]:
            jobs.cancel(step.id)
        jobs.claim("hand", limit=1)
        by_status = {str(status): [chain.id for chain in jobs.list_chains(status=status).chains] for status in Status}
        assert by_status == {
            "blocked": [],
            "scheduled": [],
            "pending": [waiting],
            "running": [running],
            "succeeded": [done],
            "failed": [],
            "cancelled": [cancelled],
        }
        assert [chain.id for chain in jobs.list_chains(type="a").chains] == [running, done]
        assert [chain.id for chain in jobs.list_chains(type="a", status="succeeded").chains] == [done]
        assert jobs.list_chains(type="last").chains == []

    def test_wrong_filters_are_refused(self, jobs: Rowcall) -> None:
        for wrong in ({"status": "done"}, {"limit": 0}, {"limit": 100_000}, {"cursor": "5"}, {"limit": True}):
            with pytest.raises(InvalidOption):
                jobs.list_chains(**wrong)


class TestCancellingChains:
    def test_what_waits_is_cancelled_and_what_depends_on_it(self, jobs: Rowcall) -> None:
        chain = chain_of(jobs, "a", "b", "c")
        after = jobs.enqueue("d", after=[chain])
        assert [(one.id, one.is_chain, one.open) for one in jobs.blockers(after.id)] == [(chain.id, True, True)]
        cancelled = jobs.cancel_chain(chain.id, "not needed", actor="ann")
        assert {step.status for step in cancelled.steps} == {Status.CANCELLED}
        assert {step.error_code for step in cancelled.steps} == {"CANCELLED:BY_HAND"}
        assert jobs.get(after.id).error_code == "BLOCKER:CANCELLED"
        assert [(one.status, one.open) for one in jobs.blockers(after.id)] == [(Status.CANCELLED, False)]
        assert [one.actor for one in jobs.timeline(chain.id) if one.event == "CANCELLED"][-1] == "ann"
        with pytest.raises(WrongState):
            jobs.cancel_chain(chain.id)

    def test_what_runs_is_asked_to_end_and_nothing_comes_after_it(self, jobs: Rowcall) -> None:
        chain = chain_of(jobs, "a", "b")
        (running,) = jobs.claim("hand")
        assert [step.status for step in jobs.cancel_chain(chain.id).steps] == [Status.RUNNING, Status.CANCELLED]
        jobs.complete(running, 5)
        assert jobs.chain(chain.id).status is Status.CANCELLED
        assert jobs.claim("hand") == []

    def test_none_of_that_id(self, jobs: Rowcall) -> None:
        with pytest.raises(JobNotFound):
            jobs.cancel_chain(99)
        with pytest.raises(JobNotFound):
            jobs.blockers(99)
        with pytest.raises(JobNotFound):
            jobs.dependents(99)


class TestDeletingChains:
    def test_all_its_steps_go(self, jobs: Rowcall, store: Store) -> None:
        chain, other = two_steps(jobs), jobs.enqueue("other", delay=60)
        jobs.complete(jobs.claim("hand")[0])
        assert jobs.delete_chain(chain.id) == 2
        assert [job.id for job in jobs.list().jobs] == [other.id]
        assert store.execute("select count(*) from rowcall_edge") == [(0,)]
        assert jobs.stats().total == 1
        with pytest.raises(JobNotFound):
            jobs.delete_chain(chain.id)

    @pytest.mark.parametrize("what", ["chain", "first", "last"])
    def test_it_is_refused_while_something_outside_waits_for_it(self, jobs: Rowcall, store: Store, what: str) -> None:
        chain = two_steps(jobs)
        blockers: dict[str, Job | Chain] = {"chain": chain, "first": chain.steps[0], "last": chain.steps[1]}
        waiting = jobs.enqueue("outside", after=blockers[what])
        below = jobs.enqueue("below", after=waiting)
        before = store.execute("select * from rowcall_job order by id")
        with pytest.raises(StillNeeded) as raised:
            jobs.delete_chain(chain.id)
        assert (raised.value.job_id, raised.value.needed_by) == (chain.id, [waiting.id])
        assert store.execute("select * from rowcall_job order by id") == before
        assert jobs.delete_chain(chain.id, cascade=True) == 4
        assert jobs.list().jobs == []
        assert jobs.stats().total == 0
        with pytest.raises(JobNotFound):
            jobs.get(below.id)

    def test_what_has_finished_outside_does_not_keep_it(self, jobs: Rowcall) -> None:
        chain = two_steps(jobs)
        waiting = jobs.enqueue("outside", after=chain.steps[0])
        jobs.cancel(waiting.id)
        assert jobs.delete_chain(chain.id) == 2
        assert jobs.get(waiting.id).status is Status.CANCELLED

    @pytest.mark.parametrize("cascade", [False, True])
    def test_it_is_refused_while_one_of_them_runs(self, jobs: Rowcall, cascade: bool) -> None:
        chain = two_steps(jobs)
        jobs.claim("hand")
        with pytest.raises(WrongState):
            jobs.delete_chain(chain.id, cascade=cascade)
        assert jobs.chain(chain.id).length == 2

    def test_with_cascade_what_runs_outside_keeps_all_of_it(self, jobs: Rowcall) -> None:
        chain = two_steps(jobs)
        outside = jobs.enqueue("outside", after=chain.steps[0])
        jobs.complete(jobs.claim("hand")[0])
        running = [job.id for job in jobs.claim("hand", limit=10)]
        assert outside.id in running
        with pytest.raises(WrongState):
            jobs.delete_chain(chain.id, cascade=True)
        assert jobs.chain(chain.id).length == 2
