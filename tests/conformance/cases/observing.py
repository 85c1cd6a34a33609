"""The five questions, asked before and after what was counted is folded."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from datetime import timedelta

import pytest

from rowcall import InvalidOption, Job, Rowcall, Status
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.operations.retention import sample
from rowcall.operations.stats import throughput
from rowcall.store.counts import questions, tallies
from rowcall.store.counts.pruning import prune_history
from rowcall.store.counts.samples import note_code
from rowcall.store.statement import Plan
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.store import Store

SPANS = "select span_ms, count(*) from rowcall_history group by span_ms"


class Undone(Exception): ...


def fold(jobs: Rowcall) -> int:
    return queue_of(jobs).run(Write(lambda: tallies.fold(queue_of(jobs).dialect, everything=True)))


def note_pending(jobs: Rowcall) -> None:
    with closing(queue_of(jobs).database.connect()) as connection:
        sample(queue_of(jobs), connection)


def fold_and_prune_history(jobs: Rowcall) -> None:
    for step in (tallies.fold_history, prune_history):
        while queue_of(jobs).run(Write(lambda step=step: step(queue_of(jobs).dialect))):  # type: ignore[misc]
            pass


def check_counts(jobs: Rowcall) -> None:
    """As the jobs themselves say, and again after tallies."""
    everything = jobs.list(limit=1000).jobs
    counted = Counter((job.queue, job.status.value) for job in everything)
    for _ in range(2):
        stats = jobs.stats()
        assert stats.total == len(everything)
        shown = {(queue, status): n for queue, counts in stats.by_queue.items() for status, n in counts.items() if n}
        assert shown == dict(counted)
        assert stats.by_status == {status.value: sum(job.status is status for job in everything) for status in Status}
        assert sum(jobs.retries().by_attempts.values()) == len(everything)
        fold(jobs)


class TestCounts:
    def test_they_follow_every_move(self, jobs: Rowcall, clock: FakeClock) -> None:
        for number in range(8):
            jobs.enqueue("send", queue=f"queue{number % 2}", max_attempts=1 + number % 2, expires_in=600)
        jobs.enqueue("send", delay=100, expires_in=30)
        check_counts(jobs)
        first, second, third, fourth, fifth = jobs.claim("hand", limit=5, lease=50)
        check_counts(jobs)
        jobs.complete(first)
        jobs.fail(second, "A:B", "no")
        jobs.release(third)
        check_counts(jobs)
        jobs.retry(first.id)
        jobs.cancel(third.id)
        check_counts(jobs)
        jobs.delete(third.id)
        clock.advance(60)
        jobs.claim("hand", limit=1)  # and what was lost is found, and what expired is cancelled
        check_counts(jobs)
        assert {jobs.get(one.id).status for one in (fourth, fifth)} <= {Status.PENDING, Status.FAILED, Status.RUNNING}
        assert jobs.stats().by_status["cancelled"] == 1

    def test_what_plain_sql_inserts_and_deletes_is_counted(self, jobs: Rowcall, store: Store) -> None:
        jobs.migrate()
        values = ", ".join(f"('old', '{status}')" for status in Status for _ in range(3))
        store.execute(f"insert into rowcall_job (type, status) values {values}")
        check_counts(jobs)
        assert jobs.stats().by_status["failed"] == 3
        store.execute("delete from rowcall_job where id % 2 = 0")
        check_counts(jobs)
        store.execute("delete from rowcall_job")
        check_counts(jobs)
        assert jobs.stats().by_type == {}

    def test_a_job_that_waits_and_yet_says_when_it_finished_is_counted_once(self, jobs: Rowcall, store: Store) -> None:
        jobs.migrate()
        store.execute("insert into rowcall_job (type) values ('send')")
        store.execute("update rowcall_job set finished_at = created_at")
        check_counts(jobs)
        assert [job.id for job in jobs.list(type="send").jobs] == [1]
        assert (jobs.retention().kept, jobs.prune().jobs) == ([], 0)

    def test_folding_that_is_rolled_back_loses_nothing(self, jobs: Rowcall) -> None:
        for _ in range(3):
            jobs.enqueue("send")
            jobs.complete(jobs.claim("hand")[0])

        def fold_and_fail() -> Plan[int]:
            yield from tallies.fold(queue_of(jobs).dialect, everything=True)
            raise Undone

        with pytest.raises(Undone):
            queue_of(jobs).run(Write(fold_and_fail))
        assert jobs.stats().by_status["succeeded"] == 3
        assert (fold(jobs), fold(jobs)) == (3, 0)
        assert jobs.stats().pace.succeeded == 3

    def test_only_minutes_that_are_over_are_folded_unless_all_is_asked_for(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        jobs.enqueue("send")
        jobs.complete(jobs.claim("hand")[0])
        over = lambda: tallies.fold(queue_of(jobs).dialect, everything=False)  # noqa: E731
        assert queue_of(jobs).run(Write(over)) == 0
        clock.advance(60)
        assert queue_of(jobs).run(Write(over)) == 1
        check_counts(jobs)

    def test_the_oldest_that_waits(self, jobs: Rowcall, clock: FakeClock) -> None:
        assert jobs.stats().oldest_waiting is None
        jobs.enqueue("send", queue="mail")
        clock.advance(20)
        jobs.enqueue("send", queue="media")
        jobs.enqueue("send", queue="future", delay=3600)
        clock.advance(1.5)
        stats = jobs.stats()
        assert stats.oldest_waiting_by_queue == {"mail": 21.5, "media": 1.5}
        assert stats.oldest_waiting == 21.5

    def test_a_job_that_is_due_before_it_is_enqueued_waits_since_it_was_enqueued(
        self, jobs: Rowcall, clock: FakeClock, store: Store
    ) -> None:
        @jobs.task
        def send() -> None: ...

        early = clock.now() - timedelta(days=1)
        first = send.using(queue="one", run_at=early).enqueue()
        assert first.run_at == early
        send.using(queue="many", run_at=early).enqueue_many([{}, {}])
        with jobs.flow() as flow:
            flow.add(send.using(queue="flow", run_at=early).bind())
        for status in ("pending", "scheduled"):
            store.execute(
                "insert into rowcall_job (type, queue, status, run_at, created_at)"
                f" select 'send', '{status}', '{status}', run_at, created_at from rowcall_job where id = {first.id}"
            )
        clock.advance(8)
        queues = ("flow", "many", "one", "pending", "scheduled")
        assert jobs.stats().oldest_waiting_by_queue == dict.fromkeys(queues, 8)
        for claimed in jobs.claim("hand", limit=3):
            jobs.complete(claimed)
        assert jobs.drain().succeeded == 3
        found = jobs.stats().pace.wait
        assert found is not None
        assert (found.p50, found.p99) == pytest.approx((8, 8), rel=0.07)

    def test_a_job_that_becomes_due_again_waits_since_then(self, jobs: Rowcall, clock: FakeClock) -> None:
        blocker = jobs.enqueue("send", queue="again")
        jobs.enqueue("send", queue="blocked", after=blocker)
        clock.advance(100)
        jobs.fail(jobs.claim("hand")[0], "A:B")
        due = jobs.get(blocker.id).run_at
        clock.advance(due - clock.now())
        clock.advance(4)
        assert jobs.stats().oldest_waiting_by_queue == {"again": 4}
        jobs.complete(jobs.claim("hand")[0])
        clock.advance(3)
        assert jobs.stats().oldest_waiting_by_queue == {"blocked": 3}


class TestPace:
    def work(self, jobs: Rowcall, clock: FakeClock, *, wait: float, run: float) -> Job:
        jobs.enqueue("send", queue="mail")
        clock.advance(wait)
        (job,) = jobs.claim("hand", lease=10_000)
        clock.advance(run)
        return job

    def test_what_came_and_went_within_the_window(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.complete(self.work(jobs, clock, wait=2, run=10))
        clock.advance(3600)
        for number in range(4):
            job = self.work(jobs, clock, wait=0.5, run=2)
            if number:
                jobs.complete(job)
            else:
                jobs.fail(job, "A:B", "")
        for folded in (False, True):
            stats = jobs.stats(window=60)
            assert (stats.pace.arrived, stats.pace.succeeded, stats.pace.retried, stats.pace.failed) == (4, 3, 1, 0)
            assert stats.pace == stats.pace_by_queue["mail"] == stats.pace_by_type["send"]
            assert stats.completions_per_second == 3 / stats.window
            assert stats.arrivals_per_second == 4 / stats.window
            assert 60 <= stats.window < 120
            assert stats.pace.wait is not None
            assert stats.pace.run is not None
            assert stats.pace.wait.p50 == pytest.approx(0.5, rel=0.07)
            assert stats.pace.run.p99 == pytest.approx(2, rel=0.07)
            longer = jobs.stats(window=timedelta(hours=2)).pace
            assert longer.succeeded == 4
            assert longer.run is not None
            assert longer.run.p99 == pytest.approx(10, rel=0.07)
            if not folded:
                fold(jobs)

    def test_history_becomes_coarser_with_time_and_is_forgotten_after_a_month(
        self, jobs: Rowcall, clock: FakeClock, store: Store
    ) -> None:
        for _ in range(3):
            jobs.complete(self.work(jobs, clock, wait=61, run=1))
            fold(jobs)
            jobs.complete(self.work(jobs, clock, wait=0, run=1))
            jobs.fail(self.work(jobs, clock, wait=0, run=1), "A:B", "no")
            fold(jobs)
        assert self.spans(store) == {0: 9}  # two of each minute have ended the same way
        expected = jobs.stats(window=3600).pace
        for later, spans in (
            (timedelta(minutes=1), {60_000: 6}),
            (timedelta(hours=4), {3_600_000: 2}),
            (timedelta(days=3), {6 * 3_600_000: 2}),
            (timedelta(days=6), {86_400_000: 2}),
            (timedelta(days=20), {86_400_000: 2}),
        ):
            clock.advance(later)
            for _ in range(2):
                fold_and_prune_history(jobs)
                assert self.spans(store) == spans
                pace = jobs.stats(window=timedelta(days=30)).pace
                assert (pace.succeeded, pace.retried) == (6, 3)
                assert (pace.wait, pace.run) == (expected.wait, expected.run)
        clock.advance(timedelta(days=3))
        fold_and_prune_history(jobs)
        assert self.spans(store) == {}
        assert jobs.stats().by_status["succeeded"] == 6

    def spans(self, store: Store) -> dict[object, object]:
        return {row[0]: row[1] for row in store.execute(SPANS)}


class TestQuestions:
    def test_stuck_begins_with_the_longest_silence(self, jobs: Rowcall, clock: FakeClock) -> None:
        ids = [jobs.enqueue("send").id for _ in range(3)]
        claimed = []
        for _ in ids:
            claimed += jobs.claim("hand", limit=1, lease=10_000)
            clock.advance(10)
        assert [(job.id, job.silent_for) for job in jobs.stuck()] == list(zip(ids, (30, 20, 10), strict=True))
        jobs.heartbeat(claimed[0])
        assert [job.id for job in jobs.stuck(limit=2)] == ids[1:]
        (last,) = [job for job in jobs.stuck() if job.id == ids[0]]
        assert (last.silent_for, last.worker, last.status) == (0, "hand", Status.RUNNING)

    def test_retries_by_type(self, jobs: Rowcall) -> None:
        for kind, tries in (("send", 1), ("send", 2), ("post", 2)):
            jobs.enqueue(kind, max_attempts=tries)
            for _ in range(tries):
                (job,) = jobs.claim("hand")
                jobs.complete(job)
                if job.attempt < tries:
                    jobs.retry(job.id)
        jobs.enqueue("send")
        for _ in range(2):
            found = jobs.retries()
            assert found.by_type == {"post": {2: 1}, "send": {0: 1, 1: 1, 2: 1}}
            assert found.by_attempts == {0: 1, 1: 1, 2: 2}
            fold(jobs)

    def test_errors_by_code_most_frequent_first(self, jobs: Rowcall, clock: FakeClock) -> None:
        began = clock.now()
        for code, kind in (("A:B", "send"), ("C:D", "send"), ("A:B", "post"), ("C:D", "send"), ("C:D", "send")):
            jobs.enqueue(kind, max_attempts=1)
            clock.advance(1)
            jobs.fail(jobs.claim("hand")[0], code, f"{code} of {kind}")
        for _ in range(2):
            often, seldom = jobs.top_errors()
            assert (often.error_code, often.count, often.types) == ("C:D", 3, {"send": 3})
            assert (seldom.error_code, seldom.count, seldom.types) == ("A:B", 2, {"post": 1, "send": 1})
            assert (seldom.first_at, seldom.last_at) == (began + timedelta(seconds=1), began + timedelta(seconds=3))
            assert seldom.sample == "A:B of post"
            assert [group.error_code for group in jobs.top_errors(limit=1)] == ["C:D"]
            fold(jobs)
            assert [(group.error_code, group.count) for group in jobs.top_errors(type="post")] == [("A:B", 1)]
            assert [group.error_code for group in jobs.top_errors(error_code="C:*")] == ["C:D"]
        for job in jobs.list(status="failed").jobs:
            jobs.retry(job.id)
        assert jobs.top_errors() == []

    def test_what_fails_now_counts_attempts_and_jobs_that_wait_for_a_retry(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        for kind, attempts in (("send", 5), ("send", 5), ("post", 1)):
            jobs.enqueue(kind, max_attempts=attempts)
        for job in jobs.claim("hand", limit=3):
            jobs.fail(job, "API:DOWN", f"of {job.id}")
        for _ in range(2):
            (down,) = jobs.failing()
            assert (down.error_code, down.attempts, down.failed, down.waiting) == ("API:DOWN", 3, 1, 2)
            assert (down.types, down.sample) == ({"send": 2, "post": 1}, "of 2")
            assert [(one.attempts, one.waiting) for one in jobs.failing(type="post")] == [(1, 0)]
            assert jobs.failing(type="other") == jobs.failing(error_code="API:UP") == []
            assert jobs.failing(error_code="API:*") == asyncio.run(jobs.afailing(window=3600)) == [down]
            fold(jobs)
        assert [group.count for group in jobs.top_errors()] == [1]
        clock.advance(3600)
        (waiting,) = jobs.failing()
        assert (waiting.attempts, waiting.waiting, waiting.types) == (0, 2, {"send": 0})
        for job in jobs.claim("hand", limit=3):
            jobs.complete(job)
        assert jobs.failing() == []
        assert [one.attempts for one in jobs.failing(window=7200)] == [3]

    def test_of_very_many_jobs_that_wait_for_a_retry_some_are_counted(
        self, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for kind in ("send", "send", "send", "post"):
            jobs.enqueue(kind)
        for job in jobs.claim("hand", limit=4):
            jobs.fail(job, "API:DOWN" if job.type == "send" else "API:SLOW", f"of {job.id}")
        monkeypatch.setattr(questions, "MOST_WAITING_COUNTED", 4)
        monkeypatch.setattr(questions, "FEWEST_WAITING_COUNTED", 1)
        down, slow = jobs.failing()
        assert (down.error_code, down.attempts, down.waiting, down.more_waiting) == ("API:DOWN", 3, 2, True)
        assert (slow.error_code, slow.waiting, slow.more_waiting, slow.sample) == ("API:SLOW", 1, False, "of 4")
        (down,) = jobs.failing(error_code="API:DOWN")  # the only group
        assert (down.waiting, down.more_waiting) == (3, False)

    def test_wrong_questions_about_errors_are_refused(self, jobs: Rowcall) -> None:
        for wrong in (
            {"window": 0},
            {"window": 10**9},
            {"limit": 0},
            {"type": ""},
            {"error_code": ""},
            {"error_code": 7},
        ):
            with pytest.raises(InvalidOption, match=next(iter(wrong))):
                jobs.failing(**wrong)


class TestActivity:
    def test_what_happened_is_counted_by_period(self, jobs: Rowcall, clock: FakeClock) -> None:
        for _ in range(3):
            jobs.enqueue("send", max_attempts=2)
        done, broken, _ = jobs.claim("hand", limit=3)
        jobs.complete(done)
        jobs.fail(broken, "A:B", "no")
        clock.advance(600)
        jobs.enqueue("send")
        for _ in range(2):
            activity = jobs.activity(window=3600)
            assert (activity.span, len(activity.periods)) == (60, 60)
            assert [one.arrived for one in activity.periods if one.arrived] == [3, 1]
            (first,) = [one for one in activity.periods if one.arrived == 3]
            assert (first.succeeded, first.retried, first.failed) == (1, 1, 0)
            assert activity.periods[-1].arrived == 1
            assert {code: sum(counts) for code, counts in activity.errors.items()} == {"A:B": 1}
            fold(jobs)

    def test_it_shows_pending_jobs_new_code_and_times_without_a_worker(self, jobs: Rowcall, clock: FakeClock) -> None:
        """Also after their minutes were merged into an hour. The first code of all is not new."""
        queue = queue_of(jobs)
        for named in ("mail", "mail", "media"):
            jobs.enqueue("send", queue=named)
        jobs.enqueue("resize", queue="media", delay=86_400)
        begin = clock.now()
        for code in ("0.1 aa", "0.1 aa", "0.1 bb"):
            queue.run(Write(lambda code=code: note_code(queue.dialect, code)))  # type: ignore[misc]
            note_pending(jobs)
        clock.advance(900)
        jobs.complete(jobs.claim("hand", limit=1, queues=["mail"])[0], actor="ann")
        note_pending(jobs)
        for window, hold in ((3600, 0), (86_400, 7200)):
            clock.advance(hold)
            fold(jobs)
            fold_and_prune_history(jobs)
            whole = jobs.activity(window=window)
            pending = [one.pending for one in whole.periods if one.pending is not None]
            assert pending == ([3, 2] if window == 3600 else [pytest.approx(2.75)])
            mail = [one.pending for one in jobs.activity(window=window, queue="mail").periods]
            assert [count for count in mail if count is not None] == ([2, 1] if window == 3600 else [1.75])
            marks = {one.kind: one for one in whole.marks}
            assert (marks["deploy"].detail, marks["deploy"].at <= begin) == ("0.1 bb", True)
            away = marks["no worker"]
            assert away.at > begin
            assert away.until == (None if window == 86_400 else clock.now().replace(second=0, microsecond=0))
            (ended,) = [one for one in whole.periods if one.succeeded]
            assert ended.run is not None
            of_media = jobs.activity(window=window, queue="media", type="send")
            assert sum(one.arrived or 0 for one in of_media.periods) == 1
            assert [one for one in of_media.periods if one.succeeded or one.run] == []
        assert jobs.stats(window=86_400).pace.succeeded == 1
        assert "" not in jobs.stats(window=86_400).pace_by_type
        assert queue.run(throughput(queue, window=86_400))["mail", "send"].others.count(1) == 1
        with pytest.raises(InvalidOption, match="queue"):
            jobs.activity(queue="")

    def test_it_has_at_most_60_periods(self, jobs: Rowcall) -> None:
        jobs.enqueue("send")
        for window in (60, 3600, 86_400, 7 * 86_400, 30 * 86_400):
            activity = asyncio.run(jobs.aactivity(window=window))
            assert len(activity.periods) <= 60
            assert sum(one.arrived or 0 for one in activity.periods) == 1
            assert activity.span * len(activity.periods) >= window - activity.span
        with pytest.raises(InvalidOption, match="window must be from 1 second to 30 days"):
            jobs.activity(window=31 * 86_400)
