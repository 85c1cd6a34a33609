"""What becomes of a job if what it waits for fails, is cancelled, or is lost."""

from __future__ import annotations

import pytest

from rowcall import Context, Rowcall, Status
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.cases.blockers import blocker, end
from tests.conformance.cases.chains import two_steps
from tests.conformance.worker_parts import StoreWorker, watcher


class TestFailingBlockers:
    @pytest.mark.parametrize("early", [False, True], ids=["while it waits", "before it comes"])
    @pytest.mark.parametrize("how", ["succeeded", "failed", "cancelled"])
    @pytest.mark.parametrize("on_failure", ["fail", "run", "wait"])
    def test_every_end_and_every_wish(self, jobs: Rowcall, on_failure: str, how: str, early: bool) -> None:
        one = blocker(jobs)
        if early:
            end(jobs, one, how)
        job = jobs.enqueue("send", after=one, on_blocker_failure=on_failure)  # type: ignore[arg-type]
        if not early:
            end(jobs, one, how)
        else:
            assert job.status is jobs.get(job.id).status
        found = jobs.get(job.id)
        expected: tuple[Status, str | None]
        match on_failure, how:
            case _, "succeeded":
                expected = (Status.PENDING, None)
            case "run", _:
                expected = (Status.PENDING, None)
            case "wait", _:
                expected = (Status.BLOCKED, None)
            case _, "failed":
                expected = (Status.FAILED, "BLOCKER:FAILED")
            case _:
                expected = (Status.CANCELLED, "BLOCKER:CANCELLED")
        assert (found.status, found.error_code) == expected
        assert (found.finished_at is None) is (found.error_code is None)
        by_status = jobs.stats().by_status
        assert by_status[str(found.status)] == 1 + (how == str(found.status))

    def test_a_failure_goes_down_the_graph(self, jobs: Rowcall) -> None:
        one = blocker(jobs)
        line = [one]
        for _ in range(30):
            line.append(jobs.enqueue("send", after=line[-1]))
        aside = jobs.enqueue("aside", after=[line[10], line[20]], on_blocker_failure="run")
        end(jobs, one, "failed")
        found = [jobs.get(job.id) for job in line[1:]]
        assert {(job.status, job.error_code) for job in found} == {(Status.FAILED, "BLOCKER:FAILED")}
        assert found[5].error_detail == f"job {line[5].id} failed with BLOCKER:FAILED"
        assert jobs.get(aside.id).status is Status.PENDING
        assert jobs.stats().by_status["failed"] == 31
        assert "FAILED" in str([event.event for event in jobs.timeline(line[3].id)])

    def test_what_waits_for_a_retry_continues_with_it(self, jobs: Rowcall) -> None:
        one = blocker(jobs)
        job = jobs.enqueue("send", after=one, on_blocker_failure="wait")
        end(jobs, one, "failed")
        jobs.retry(one.id)
        assert jobs.get(job.id).status is Status.BLOCKED
        end(jobs, one, "succeeded")
        assert jobs.get(job.id).status is Status.PENDING

    @pytest.mark.parametrize("how", ["failed", "cancelled"])
    def test_a_retry_brings_back_what_fell_with_it(self, jobs: Rowcall, how: str) -> None:
        one, other = blocker(jobs), blocker(jobs)
        line = [one]
        for _ in range(4):
            line.append(jobs.enqueue("send", after=line[-1]))
        both = jobs.enqueue("both", after=[one, other])
        taken = jobs.enqueue("keyed", after=one, key="k")
        behind = jobs.enqueue("behind", after=taken)
        end(jobs, one, how)
        late = jobs.enqueue("late", after=one)
        jobs.enqueue("keyed", key="k", delay=60)
        ended = {job.id: jobs.get(job) for job in (taken, behind)}
        assert {jobs.get(job).error_code for job in (*line[1:], both, late)} == {f"BLOCKER:{how.upper()}"}
        jobs.retry(one, actor="ann")
        assert [jobs.get(job).status for job in (*line[1:], both, late)] == [Status.BLOCKED] * 6
        assert "ann" in [event.actor for event in jobs.timeline(line[4])]
        assert {job_id: jobs.get(job_id) for job_id in ended} == ended  # another job has the key
        end(jobs, one, "succeeded")
        assert [jobs.get(job).status for job in (*line[1:], both, late)] == [
            *(Status.PENDING, *[Status.BLOCKED] * 3),
            *(Status.BLOCKED, Status.PENDING),
        ]
        assert jobs.stats().total == len(jobs.list(limit=500).jobs)

    def test_a_retry_brings_back_one_job_of_each_key(self, jobs: Rowcall) -> None:
        one = blocker(jobs)
        waiting = []
        for _ in range(2):
            waiting.append(jobs.enqueue("keyed", after=one, key="k"))
            jobs.cancel(waiting[-1])
        end(jobs, one, "failed")
        again = [jobs.enqueue("keyed", after=one, key="k") for _ in range(2)]
        assert [jobs.get(job).error_code for job in again] == ["BLOCKER:FAILED"] * 2
        jobs.retry(one)
        assert [jobs.get(job).status for job in again] == [Status.BLOCKED, Status.FAILED]
        assert [jobs.get(job).status for job in waiting] == [Status.CANCELLED] * 2  # by hand, not by a blocker

    def test_a_retry_of_a_step_brings_back_what_waited_for_the_chain(self, jobs: Rowcall) -> None:
        chain = two_steps(jobs)
        for_chain, for_job = jobs.enqueue("c", after=chain), jobs.enqueue("c", after=jobs.get(chain.id))
        jobs.cancel_chain(chain.id)
        first, second = (step.id for step in jobs.chain(chain.id).steps)
        jobs.retry(second)
        assert [jobs.get(job).status for job in (first, second, for_chain, for_job)] == [
            *(Status.CANCELLED, Status.BLOCKED, Status.BLOCKED, Status.CANCELLED)
        ]

    def test_a_bulk_retry_brings_them_back_once(self, jobs: Rowcall) -> None:
        one = blocker(jobs)
        waiting = [jobs.enqueue("send", after=one) for _ in range(3)]
        end(jobs, one, "failed")
        jobs.retry(status="failed", queue="default")
        assert [jobs.get(job).status for job in (one, *waiting)] == [Status.PENDING, *[Status.BLOCKED] * 3]
        assert [event.event for event in jobs.timeline(waiting[0])].count("MANUAL_RETRY") == 1

    def test_a_failure_that_is_tried_again_is_none_yet(self, jobs: Rowcall, clock: FakeClock) -> None:
        one = jobs.enqueue("blocker", max_attempts=2)
        job = jobs.enqueue("send", after=one)
        end(jobs, one, "failed")
        assert jobs.get(job.id).status is Status.BLOCKED
        clock.advance(600)
        end(jobs, one, "failed")
        assert jobs.get(job.id).status is Status.FAILED

    def test_the_first_failure_of_several_ends_it_once(self, jobs: Rowcall) -> None:
        first, second, third = blocker(jobs), blocker(jobs), blocker(jobs)
        job = jobs.enqueue("send", after=[first, second, third])
        claimed = {one.id: one for one in jobs.claim("hand", limit=10)}
        jobs.fail(claimed[second.id], "A:B")
        ended = jobs.get(job.id)
        assert ended.error_detail == f"job {second.id} failed with A:B"
        jobs.fail(claimed[first.id], "C:D")
        jobs.complete(claimed[third.id])
        assert jobs.get(job.id) == ended

    def test_results_of_those_that_failed_are_nothing(self, jobs: Rowcall) -> None:
        @jobs.task
        def whole(ctx: Context) -> list[object]:
            return ctx.blockers

        first, second = blocker(jobs), blocker(jobs)
        job = whole.using(after=[first, second], on_blocker_failure="run").enqueue()
        claimed = {one.id: one for one in jobs.claim("hand", limit=10)}
        jobs.fail(claimed[first.id], "A:B")
        jobs.complete(claimed[second.id], "well")
        jobs.drain()
        assert jobs.get(job.id).result == [None, "well"]

    def test_one_that_is_lost_for_good_has_failed(self, jobs: Rowcall, clock: FakeClock) -> None:
        one = blocker(jobs)
        job = jobs.enqueue("send", after=one)
        StoreWorker(jobs, "doomed").start_one()
        others = watcher(jobs)
        others.check()
        clock.advance(15)
        assert others.check() == 1
        assert jobs.get(one.id).error_code == "WORKER:LOST"
        assert jobs.get(job.id).error_code == "BLOCKER:FAILED"

    def test_one_that_expires_is_cancelled(self, jobs: Rowcall, clock: FakeClock) -> None:
        one = jobs.enqueue("blocker", delay=100, expires_in=50)
        job = jobs.enqueue("send", after=one)
        clock.advance(50)
        assert jobs.dequeue("hand") is None
        assert jobs.get(job.id).error_code == "BLOCKER:CANCELLED"

    def test_a_chain_that_fails_half_way_has_failed(self, jobs: Rowcall) -> None:
        chain = two_steps(jobs)
        job = jobs.enqueue("send", after=chain)
        (first,) = jobs.claim("hand")
        jobs.fail(first, "A:B")
        assert (jobs.get(job.id).status, jobs.get(job.id).error_code) == (Status.FAILED, "BLOCKER:FAILED")
        assert (jobs.get(job.id).error_detail or "").startswith(f"chain {chain.id} failed")

    @pytest.mark.parametrize("how", ["succeeded", "failed"])
    def test_a_job_that_was_cancelled_stays_so_when_its_blocker_ends(
        self, jobs: Rowcall, clock: FakeClock, how: str
    ) -> None:
        first = blocker(jobs)
        job = jobs.enqueue("send", after=first)
        jobs.cancel(job, reason="not needed")
        clock.advance(1)
        end(jobs, first, how)
        found = jobs.get(job)
        assert (found.status, found.error_code) == (Status.CANCELLED, "CANCELLED:BY_HAND")
        assert [one.open for one in jobs.blockers(job)] == [one.open for one in jobs.dependents(first)] == [False]
        assert "UNBLOCKED" not in [event.event for event in jobs.timeline(job)]
        assert jobs.stats().by_status["blocked"] == 0
