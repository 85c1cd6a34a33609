"""The order of jobs that waited for others and jobs that did not."""

from __future__ import annotations

import pytest

from rowcall import DuplicateJob, Rowcall


class TestTurns:
    def test_a_job_that_is_unblocked_goes_behind_those_that_were_pending(self, jobs: Rowcall) -> None:
        first = jobs.enqueue("work")
        waiting = jobs.enqueue("work", after=first)
        pending = [jobs.enqueue("work").id for _ in range(3)]
        jobs.complete(*jobs.claim("hand"))
        later = jobs.enqueue("work").id
        assert [job.id for job in jobs.claim("hand", limit=9)] == [*pending, waiting.id, later]

    def test_so_it_does_behind_those_that_were_unblocked_before_it(self, jobs: Rowcall) -> None:
        blockers = [jobs.enqueue("work") for _ in range(3)]
        waiting = [jobs.enqueue("work", after=blocker).id for blocker in reversed(blockers)]
        for claimed in jobs.claim("hand", limit=3):
            jobs.complete(claimed)
        assert [job.id for job in jobs.claim("hand", limit=9)] == list(reversed(waiting))

    def test_those_that_one_end_unblocks_keep_their_order(self, jobs: Rowcall) -> None:
        first = jobs.enqueue("work")
        waiting = [jobs.enqueue("work", after=first).id for _ in range(5)]
        jobs.complete(*jobs.claim("hand"))
        assert [job.id for job in jobs.claim("hand", limit=9)] == waiting

    def test_priority_comes_before_turns(self, jobs: Rowcall) -> None:
        first = jobs.enqueue("work", priority=9)
        waiting = jobs.enqueue("work", after=first, priority=5)
        pending = jobs.enqueue("work")
        jobs.complete(*jobs.claim("hand"))
        assert [job.id for job in jobs.claim("hand", limit=9)] == [waiting.id, pending.id]


class TestRetryOfAKey:
    def test_the_newest_job_that_has_the_key_is_named(self, jobs: Rowcall) -> None:
        first = jobs.enqueue("work", key="order-1")
        jobs.complete(*jobs.claim("hand"))
        jobs.enqueue("work", key="order-1")
        jobs.claim("hand")
        newest = jobs.enqueue("work", key="order-1", on_duplicate="replace")
        with pytest.raises(DuplicateJob) as refused:
            jobs.retry(first.id)
        assert refused.value.job_id == newest.id
