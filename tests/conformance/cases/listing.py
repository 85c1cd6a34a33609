"""Pages of jobs, and counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from rowcall import Fail, InvalidOption, Job, JobCancelled, JobNotFound, Rowcall
from rowcall.actions import JobFilter
from rowcall.store.jobs import pages
from rowcall.testing.fake_clock import FakeClock


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
        assert len(jobs.claim("hand", limit=9)) == 9
        everything = jobs.list(limit=1000).jobs
        for status in (None, "pending", "running", "cancelled", ["running", "cancelled"], ["pending", "running"]):
            for queue in (None, "queue1"):
                for kind in (None, "type0"):
                    for tag in (None, "even", "other"):
                        found = jobs.list(status=status, queue=queue, type=kind, tag=tag, limit=1000).jobs
                        assert found == [
                            job
                            for job in everything
                            if (status is None or job.status in ([status] if isinstance(status, str) else status))
                            and (queue is None or job.queue == queue)
                            and (kind is None or job.type == kind)
                            and (tag is None or tag in job.tags)
                        ]

    def test_filtered_pages_follow_on(self, jobs: Rowcall) -> None:
        ids = [jobs.enqueue("send", queue="mail" if number % 2 else "other").id for number in range(20)]
        assert self._pages(jobs, limit=4, queue="mail") == [ids[19:11:-2], ids[11:3:-2], ids[3::-2]]

    def test_every_filter_in_both_orders_is_as_if_all_jobs_were_looked_at(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        _some_of_all(jobs, clock)
        everything = jobs.list(limit=1000).jobs
        middle = everything[len(everything) // 2].created_at
        ended = sorted(job.finished_at for job in everything if job.finished_at is not None)[10]
        chain = next(job.chain_id for job in everything if job.chain_id is not None)
        cases: list[tuple[JobFilter, Callable[[Job], bool]]] = [
            ({"status": ["failed", "running", "pending"]}, lambda job: job.status in ("failed", "running", "pending")),
            (
                {"status": ["failed", "blocked"], "tag": "even"},
                lambda job: job.status == "failed" and "even" in job.tags,
            ),
            ({"key": "key-10", "type": "type1"}, lambda job: job.key == "key-10"),
            ({"key": "key-10", "type": "type0"}, lambda job: False),
            ({"chain": chain}, lambda job: job.chain_id == chain),
            ({"worker": "hand"}, lambda job: job.worker == "hand"),
            ({"worker": "hand", "status": "running"}, lambda job: job.worker == "hand" and job.status == "running"),
            ({"error_code": "A:B"}, lambda job: job.error_code == "A:B"),
            ({"error_code": "A:*", "queue": "queue1"}, lambda job: job.error_code == "A:B" and job.queue == "queue1"),
            (
                {"error_code": "*", "status": "scheduled"},
                lambda job: job.status == "scheduled" and bool(job.error_code),
            ),
            ({"created_after": middle}, lambda job: job.created_at >= middle),
            ({"created_before": middle, "type": "type1"}, lambda job: job.created_at < middle and job.type == "type1"),
            ({"finished_after": ended}, lambda job: job.finished_at is not None and job.finished_at >= ended),
            (
                {"finished_before": ended, "status": ["failed", "succeeded"]},
                lambda job: job.finished_at is not None and job.finished_at < ended,
            ),
            ({"payload": {"number": 3}}, lambda job: job.payload.get("number") == 3),
            (
                {"payload": {"deep": {"even": True}}},
                lambda job: job.payload.get("deep") == {"even": True, "none": None},
            ),
            ({"payload": {"deep": {"none": None, "even": False}}}, lambda job: job.payload.get("number") in (1, 3, 5)),
            ({"payload": {"deep": {"even": 1}}}, lambda job: False),
            ({"payload": {"number": "3"}}, lambda job: False),
        ]
        for chosen, fits in cases:
            expected = [job for job in everything if fits(job)]
            if "finished_after" in chosen or "finished_before" in chosen:
                expected.sort(key=lambda job: (str(job.finished_at), job.id), reverse=True)
            found: list[Job] = []
            cursor = None
            while found == [] or cursor is not None:
                page = jobs.list(limit=7, cursor=cursor, **chosen)
                found += page.jobs
                cursor = page.next_cursor
                if not page.jobs:
                    break
            assert found == expected, chosen
            assert jobs.list(limit=1000, order="oldest", **chosen).jobs == expected[::-1], chosen

    def test_a_cursor_of_another_filter_is_refused(self, jobs: Rowcall) -> None:
        for _ in range(3):
            jobs.enqueue("send")
        cursor = jobs.list(limit=1, type="send", status=["pending", "failed"]).next_cursor
        assert len(jobs.list(limit=9, type="send", status=["failed", "pending"], cursor=cursor).jobs) == 2
        for other in ({}, {"type": "send"}, {"type": "send", "status": ["pending", "failed"], "order": "oldest"}):
            with pytest.raises(InvalidOption, match="cursor belongs to another filter or order"):
                jobs.list(cursor=cursor, **other)

    def test_a_page_that_looked_at_too_many_jobs_says_so(self, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pages, "LOOK_AT_MOST", 20)
        monkeypatch.setattr(pages, "LARGEST_CHUNK", 10)
        first = jobs.enqueue("send", {"number": 7})
        for number in range(30):
            jobs.enqueue("send", {"number": number % 3})
        page = jobs.list(payload={"number": 7}, limit=5)
        assert (page.jobs, page.partial) == ([], True)
        page = jobs.list(payload={"number": 7}, limit=5, cursor=page.next_cursor)
        assert (page.jobs, page.partial, page.next_cursor) == ([first], False, None)

    @pytest.mark.parametrize(
        ("chosen", "said"),
        [
            ({"payload": 7}, "payload must be an object"),
            ({"payload": {}}, "payload must be an object"),
            ({"payload": {"a": [1]}}, "payload must have only texts, numbers"),
            ({"payload": {"a": float("nan")}}, "payload must have only texts, numbers"),
            ({"payload": {"a": "\0"}}, "payload must have only texts, numbers"),
            ({"payload": {'"': 1}}, "payload must have names without quotes"),
            ({"created_after": "yesterday"}, "created_after must be a datetime"),
            ({"finished_before": datetime(2026, 1, 1)}, "finished_before must have a time zone"),
            ({"key": "a"}, "key belongs to a task"),
            ({"key": "\0", "type": "a"}, "key must be a text"),
            ({"chain": "a"}, "chain must be a Chain or its id"),
            ({"status": []}, "status must be one of"),
            ({"status": ["failed", "done"]}, "status must be one of"),
            ({"order": "random"}, "order must be newest or oldest"),
            ({"worker": 7}, "worker must be a string"),
            ({"colour": "red"}, "unknown filter 'colour'"),
        ],
        ids=str,
    )
    def test_what_is_no_filter_is_refused(self, jobs: Rowcall, chosen: dict[str, object], said: str) -> None:
        with pytest.raises(InvalidOption, match=said):
            jobs.list(**chosen)  # type: ignore[arg-type]

    def test_a_payload_that_is_nested_too_deeply_is_refused(self, jobs: Rowcall) -> None:
        payload: dict[str, object] = {"a": 1}
        for _ in range(5000):
            payload = {"a": payload}
        with pytest.raises(InvalidOption, match="payload is nested too deeply"):
            jobs.list(payload=payload)

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


class TestActOnAll:
    """`retry` and `cancel` by a filter have separate tests."""

    def test_reschedule_prioritize_and_delete_what_fits(self, jobs: Rowcall, clock: FakeClock) -> None:
        _some_of_all(jobs, clock)
        retries = jobs.list(status="scheduled", error_code="*", limit=1000).jobs
        assert retries
        assert jobs.reschedule(status="scheduled", error_code="*", delay=0, actor="ann") == len(retries)
        again = [jobs.get(job.id) for job in retries]
        assert {(job.status, job.run_at) for job in again} == {("pending", clock.now())}
        assert [event.actor for event in jobs.timeline(retries[0])][-1] == "ann"

        pending = jobs.list(status="pending", queue="queue1", limit=1000).jobs
        assert jobs.set_priority(priority=9, queue="queue1", status="pending") == len(pending)
        assert {jobs.get(job.id).priority for job in pending} == {9}
        assert jobs.set_priority(priority=9, queue="queue1", status="pending") == 0

        failed = jobs.list(status="failed", limit=1000).jobs
        assert jobs.delete(status="failed", limit=3) == 3
        assert jobs.delete(status="failed") == len(failed) - 3
        assert jobs.list(status="failed").jobs == []
        assert jobs.stats().by_status["failed"] == 0

    def test_a_job_that_another_one_waits_for_is_not_deleted(self, jobs: Rowcall) -> None:
        first = jobs.enqueue("send")
        second = jobs.enqueue("send", after=first, queue="other")
        assert jobs.delete(queue="default") == 0
        assert jobs.delete(type="send") == 2
        assert jobs.list().jobs == []
        assert second.id

    def test_a_limit_counts_the_jobs_that_change(self, jobs: Rowcall) -> None:
        ids = [jobs.enqueue("part").id for _ in range(4)]
        jobs.enqueue("whole", after=ids[2:])
        assert jobs.delete(type="part", limit=2) == 2  # the newest ones are needed
        assert [job.id for job in jobs.list(type="part", order="oldest")] == ids[2:]
        jobs.enqueue("part", priority=-1)
        running = jobs.claim("hand", limit=2)
        assert jobs.cancel(type="part", status="running", limit=1) == 1
        assert jobs.cancel(type="part", status="running", limit=1) == 1
        for job in running:
            with pytest.raises(JobCancelled):
                jobs.heartbeat(job)

    def test_more_than_fit_into_one_transaction(self, jobs: Rowcall) -> None:
        @jobs.task
        def send() -> None: ...

        send.enqueue_many([{}] * 450)
        assert jobs.set_priority(priority=3, type="send", limit=300) == 300
        assert jobs.set_priority(priority=3, type="send") == 150
        assert jobs.delete(all=True) == 450

    def test_a_filter_that_matches_everything_needs_all(self, jobs: Rowcall) -> None:
        job = jobs.enqueue("send")
        for call in _bulk_actions(jobs):
            for chosen in ({}, {"limit": 5}, {"queue": None}, {"all": False}):
                with pytest.raises(
                    InvalidOption, match="this matches every job; add a filter such as queue=…, or pass"
                ):
                    call(**chosen)
            with pytest.raises(InvalidOption, match="all must be True or False"):
                call(all="yes")
        with pytest.raises(InvalidOption, match="this matches every job"):
            jobs.cancel(status=["blocked", "scheduled", "pending", "running"])
        assert jobs.get(job.id) == job
        assert jobs.reschedule(delay=5, all=True) == 1
        assert jobs.cancel(all=True) == 1

    def test_a_time_in_the_future_is_not_a_filter(self, jobs: Rowcall, clock: FakeClock) -> None:
        first = jobs.enqueue("send").created_at
        clock.advance(10)
        last = jobs.enqueue("send").created_at
        later, moment = last + timedelta(milliseconds=1), timedelta(milliseconds=1)
        for call in _bulk_actions(jobs):
            for chosen in (
                {"created_before": later},
                {"created_before": later, "limit": 5},
            ):
                with pytest.raises(InvalidOption, match="this matches every job"):
                    call(**chosen)
        with jobs.transaction() as transaction, pytest.raises(InvalidOption, match="this matches every job"):
            jobs.delete(created_before=later, connection=transaction)
        with pytest.raises(InvalidOption, match="this matches every job"):
            jobs.retry(finished_before=later)
        assert jobs.delete(finished_before=later) == 0  # of jobs that have finished
        # an earlier job may be gone: the same call must not fail then
        assert jobs.set_priority(priority=4, created_after=first - moment) == 2
        assert jobs.set_priority(priority=5, created_before=last) == 1
        assert jobs.set_priority(priority=6, created_after=first + moment) == 1
        assert jobs.set_priority(priority=7, created_before=later, type="send") == 2
        assert jobs.delete(created_before=later, all=True) == 2


def _bulk_actions(jobs: Rowcall) -> list[Callable[..., object]]:
    return [
        jobs.retry,
        jobs.cancel,
        jobs.delete,
        lambda **chosen: jobs.reschedule(delay=5, **chosen),
        lambda **chosen: jobs.set_priority(priority=5, **chosen),
    ]


def _some_of_all(jobs: Rowcall, clock: FakeClock) -> None:
    """Jobs in many states, some with keys, tags, chains and errors."""

    @jobs.task
    def step() -> None: ...

    for number in range(60):
        jobs.enqueue(
            f"type{number % 3}",
            {"number": number % 7, "deep": {"even": number % 7 % 2 == 0, "none": None}},
            queue=f"queue{number % 2}",
            tags=["even"] if number % 2 == 0 else [],
            key=f"key-{number}",
        )
        clock.advance(1)
    jobs.start_chain([step.bind(), step.bind()])
    for job in jobs.claim("hand", limit=40):
        clock.advance(1)
        match job.id % 4:
            case 0:
                jobs.complete(job)
            case 1:
                jobs.fail(job, "A:B")
            case 2:
                jobs.fail(job, Fail("A:B"))
            case _:
                pass
