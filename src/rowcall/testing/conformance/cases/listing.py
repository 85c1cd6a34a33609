"""Pages of jobs, and counts."""

from __future__ import annotations

import pytest

from rowcall import InvalidOption, JobNotFound, Rowcall
from rowcall.testing.clock import FakeClock


class TestListing:
    def test_newest_first_page_by_page(self, jobs: Rowcall) -> None:
        ids = [jobs.enqueue("send").id for _ in range(25)]
        assert self._pages(jobs, limit=10) == [ids[::-1][:10], ids[::-1][10:20], ids[::-1][20:]]

    def test_a_full_last_page_has_no_cursor(self, jobs: Rowcall) -> None:
        for _ in range(20):
            jobs.enqueue("send")
        assert [len(page) for page in self._pages(jobs, limit=10)] == [10, 10]

    def test_an_empty_list_is_one_empty_page(self, jobs: Rowcall) -> None:
        page = jobs.list()
        assert (page.jobs, page.next_cursor) == ([], None)

    def test_cursors_stay_stable_while_jobs_come_and_go(self, jobs: Rowcall) -> None:
        ids = [jobs.enqueue("send").id for _ in range(30)]
        first = jobs.list(limit=10)
        assert [job.id for job in first.jobs] == ids[:19:-1]
        jobs.delete(first.jobs[-1].id)  # the very job the cursor stands on
        jobs.delete(ids[15])
        for _ in range(5):
            jobs.enqueue("send")
        second = jobs.list(limit=10, cursor=first.next_cursor)
        assert [job.id for job in second.jobs] == [ids[n] for n in range(19, 8, -1) if n != 15]
        jobs.delete(ids[0])
        third = jobs.list(limit=10, cursor=second.next_cursor)
        assert [job.id for job in third.jobs] == [ids[n] for n in range(8, 0, -1)]
        assert third.next_cursor is None

    def test_a_job_that_changes_its_state_between_pages_moves_nothing_else(self, jobs: Rowcall) -> None:
        ids = [jobs.enqueue("send").id for _ in range(6)]
        first = jobs.list(status="pending", limit=2)
        jobs.claim("hand", limit=1)
        second = jobs.list(status="pending", limit=10, cursor=first.next_cursor)
        assert [job.id for job in second.jobs] == [ids[3], ids[2], ids[1]]

    def test_filters_narrow_one_by_one_and_together(self, jobs: Rowcall) -> None:
        for number in range(48):
            job = jobs.enqueue(
                f"type{number % 2}",
                queue=f"queue{number % 3}",
                tags=["even"] if number % 4 in (0, 2) else ["odd", "other"],
            )
            if number % 4 == 0:
                jobs.cancel(job.id)
        everything = jobs.list(limit=1000).jobs
        for status in (None, "pending", "cancelled"):
            for queue in (None, "queue1"):
                for kind in (None, "type0"):
                    for tag in (None, "even", "other"):
                        found = jobs.list(status=status, queue=queue, type=kind, tag=tag, limit=1000).jobs
                        assert found == [
                            job
                            for job in everything
                            if (status is None or job.status == status)
                            and (queue is None or job.queue == queue)
                            and (kind is None or job.type == kind)
                            and (tag is None or tag in job.tags)
                        ]

    def test_filtered_pages_follow_on(self, jobs: Rowcall) -> None:
        ids = [jobs.enqueue("send", queue="mail" if number % 2 else "other").id for number in range(20)]
        assert self._pages(jobs, limit=4, queue="mail") == [ids[19:11:-2], ids[11:3:-2], ids[3::-2]]

    def test_counts_by_state_and_queue(self, jobs: Rowcall, clock: FakeClock) -> None:
        for _ in range(3):
            jobs.enqueue("send", queue="mail")
        jobs.enqueue("send", queue="media", delay=60)
        jobs.complete(jobs.claim("hand", queues=["mail"])[0])
        stats = jobs.stats()
        assert stats.total == 4
        assert {name: count for name, count in stats.by_status.items() if count} == {
            "pending": 2,
            "scheduled": 1,
            "succeeded": 1,
        }
        assert stats.by_queue["mail"]["succeeded"] == 1
        assert stats.by_queue["media"]["scheduled"] == 1

    @pytest.mark.parametrize("cursor", ["", "before-", "before-x", "7", "before-1; drop table rowcall_job"])
    def test_a_cursor_of_one_s_own_making_is_refused(self, jobs: Rowcall, cursor: str) -> None:
        with pytest.raises(InvalidOption, match="cursor"):
            jobs.list(cursor=cursor)

    def test_a_job_that_is_not_there_is_said_to_be_missing(self, jobs: Rowcall) -> None:
        for look in (jobs.get, jobs.attempts, jobs.timeline):
            with pytest.raises(JobNotFound) as missing:
                look(12345)
            assert missing.value.job_id == 12345

    def _pages(self, jobs: Rowcall, *, limit: int, queue: str | None = None) -> list[list[int]]:
        pages = []
        cursor = None
        while True:
            page = jobs.list(limit=limit, cursor=cursor, queue=queue)
            pages.append([job.id for job in page.jobs])
            cursor = page.next_cursor
            if cursor is None:
                return pages
