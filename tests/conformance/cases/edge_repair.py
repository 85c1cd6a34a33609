"""Edges whose blocker ended unseen, and jobs that are sent again although what they waited for has not succeeded."""

from __future__ import annotations

from typing import Literal

import pytest

from rowcall import Rowcall, Status, StillNeeded
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.operations.enqueue import bind
from rowcall.store.ends.after import repair_edges
from tests.conformance.store import Store


def repaired(jobs: Rowcall) -> int:
    return queue_of(jobs).run(Write(lambda: repair_edges(queue_of(jobs).dialect)))


def statuses(jobs: Rowcall, *job_ids: int) -> list[str]:
    return [str(jobs.get(job_id).status) for job_id in job_ids]


class TestEdgeRepair:
    def test_a_blocker_that_plain_sql_deleted_or_ended(self, jobs: Rowcall, store: Store) -> None:
        gone, ended = jobs.enqueue("a"), jobs.enqueue("a")
        patient = jobs.enqueue("b", after=[gone], on_blocker_failure="wait")
        waiting, last = jobs.enqueue("b", after=[ended]), jobs.enqueue("c", after=[patient])
        store.execute(f"delete from rowcall_job where id = {gone.id}")
        store.execute(f"update rowcall_job set status = 'succeeded', finished_at = created_at where id = {ended.id}")
        assert repaired(jobs) == 2
        assert statuses(jobs, patient.id, waiting.id, last.id) == ["failed", "pending", "failed"]
        assert "JOB:DELETED" in (jobs.get(patient.id).error_detail or "")
        assert repaired(jobs) == 0

    def test_what_waits_rightly_is_left_alone(self, jobs: Rowcall) -> None:
        broken, later = jobs.enqueue("a", max_attempts=1), jobs.enqueue("a", delay=600)
        patient = jobs.enqueue("b", after=[broken], on_blocker_failure="wait")
        fallen, waiting = jobs.enqueue("b", after=[broken]), jobs.enqueue("b", after=[later])
        (claimed,) = jobs.claim("hand")
        jobs.fail(claimed, "TEST:BROKEN")
        assert str(jobs.retry(fallen.id).status) == "blocked"
        assert repaired(jobs) == 0
        assert statuses(jobs, patient.id, fallen.id, waiting.id) == ["blocked"] * 3
        jobs.retry(broken.id)
        (again,) = jobs.claim("hand")
        jobs.complete(again)
        assert statuses(jobs, patient.id, fallen.id) == ["pending", "pending"]


class TestSentAgain:
    @pytest.mark.parametrize("how", ["cancelled", "expired"])
    def test_what_never_ran_waits_for_its_blockers_again(self, jobs: Rowcall, how: str) -> None:
        blocker = jobs.enqueue("a", delay=600)
        waiting = jobs.enqueue("b", after=[blocker], expires_in=1 if how == "expired" else 9_000)
        if how == "expired":
            queue_of(jobs).clock.advance(2)  # type: ignore[attr-defined]
            assert jobs.claim("hand") == []
        else:
            jobs.cancel(waiting.id)
        assert jobs.get(waiting.id).status is Status.CANCELLED
        assert jobs.retry(waiting.id).status is Status.BLOCKED
        jobs.cancel(blocker.id)
        assert jobs.get(waiting.id).error_code == "BLOCKER:CANCELLED"

    @pytest.mark.parametrize("on_failure", ["fail", "wait"])
    def test_a_blocker_that_was_deleted_meanwhile_is_not_waited_for(
        self, jobs: Rowcall, on_failure: Literal["fail", "wait"]
    ) -> None:
        gone, other = jobs.enqueue("a"), jobs.enqueue("a")
        waiting = jobs.enqueue("b", after=[gone, other], on_blocker_failure=on_failure)
        jobs.cancel(waiting.id)
        jobs.delete(gone.id)
        assert jobs.retry(waiting.id).status is Status.BLOCKED
        assert repaired(jobs) == 0
        (claimed,) = jobs.claim("hand")
        jobs.complete(claimed)
        assert statuses(jobs, waiting.id) == ["pending"]

    def test_many_chains_at_once(self, jobs: Rowcall) -> None:
        """More than one transaction takes: the last steps are met before the first."""
        broken = [True]

        @jobs.task(max_attempts=1)
        def step() -> None:
            if broken:
                raise ValueError

        chains = [jobs.start_chain([step.bind(), step.bind(), step.bind()]) for _ in range(75)]
        jobs.drain()
        assert jobs.stats().by_status["failed"] == 225
        assert jobs.retry(status="failed") == 225
        assert {str(step.status) for chain in chains for step in jobs.chain(chain.id).steps} == {"pending", "blocked"}
        broken.clear()
        jobs.drain()
        assert jobs.stats().by_status["succeeded"] == 225

    def test_a_cancelled_chain_begins_where_it_was_left(self, jobs: Rowcall) -> None:
        chain = jobs.start_chain([bind(queue_of(jobs), name, (), {}) for name in "abc"])
        jobs.cancel_chain(chain.id)
        jobs.retry(chain.id)
        assert [str(step.status) for step in jobs.chain(chain.id).steps] == ["pending", "blocked", "blocked"]

    def test_the_last_step_of_a_chain_that_others_wait_for_is_not_deleted(self, jobs: Rowcall) -> None:
        chain = jobs.start_chain([bind(queue_of(jobs), "a", (), {}), bind(queue_of(jobs), "b", (), {})])
        waiting = jobs.enqueue("c", after=[chain])
        (first,) = jobs.claim("hand")
        jobs.complete(first)
        with pytest.raises(StillNeeded) as refused:
            jobs.delete(chain.steps[-1].id)
        assert refused.value.needed_by == [waiting.id]
