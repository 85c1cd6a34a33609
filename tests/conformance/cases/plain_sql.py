"""Any language that speaks SQL can enqueue."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from rowcall import Rowcall, Status
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store, refuses

DEEP = "[" * 50_000 + "]" * 50_000  # Python 3.13 reads 10,000
UNREADABLE = {
    "limits": f'[["k", "k", 1, null, null, null, {DEEP}]]',
    "retry": f'{{"kind": "constant", "base_seconds": 1, "more": {DEEP}}}',
}


class TestPlainSql:
    @pytest.fixture
    def real(self, open_queue: OpenQueue) -> Rowcall:
        """By the database's own clock, as its defaults are."""
        jobs = open_queue()
        jobs.migrate()
        return jobs

    @pytest.fixture
    def usual_recursion_limit(self) -> Iterator[None]:
        """Python's own: a test that ran before may have left a higher one, which lets more rows be read."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(1000)
        yield
        sys.setrecursionlimit(limit)

    def test_type_and_payload_make_a_job_that_runs(self, real: Rowcall, store: Store) -> None:
        ran: list[tuple[str, str]] = []

        @real.task
        def send_email(to: str, subject: str) -> None:
            ran.append((to, subject))

        store.execute(
            "insert into rowcall_job (type, payload)"
            """ values ('send_email', '{"to": "a@example.com", "subject": "x"}')"""
        )
        (job,) = real.list().jobs
        assert (job.status, job.queue, job.priority, job.max_attempts) == (Status.SCHEDULED, "default", 0, 5)
        assert real.drain().succeeded == 1
        assert ran == [("a@example.com", "x")]
        assert [event.event for event in real.timeline(job.id)] == ["ENQUEUED", "CLAIMED", "STARTED", "SUCCEEDED"]

    def test_it_can_be_claimed_by_hand(self, real: Rowcall, store: Store) -> None:
        store.execute("""insert into rowcall_job (type, payload) values ('send', '{"n": 1}')""")
        job = real.dequeue("hand")
        assert job is not None
        assert (job.type, job.payload, job.attempt) == ("send", {"n": 1}, 1)

    def test_other_columns_may_be_given(self, real: Rowcall, store: Store) -> None:
        store.execute("insert into rowcall_job (type, queue, priority, max_attempts) values ('low', 'mail', -5, 1)")
        store.execute("insert into rowcall_job (type, queue, priority) values ('high', 'mail', 5)")
        store.execute("insert into rowcall_job (type, status) values ('waits', 'pending')")
        assert [job.type for job in real.claim("hand", limit=3, queues=["mail"])] == ["high", "low"]
        (waits,) = real.claim("hand", limit=3)
        assert (waits.type, waits.payload) == ("waits", {})

    @pytest.mark.parametrize(
        ("payload", "said"),
        [
            ("[1, 2]", "expected `object`, got `array`"),
            ('"text"', "expected `object`, got `str`"),
            ("7", "expected `object`, got `int`"),
            ("null", "got `null`"),
        ],
    )
    def test_a_payload_that_is_no_object_fails_without_a_retry(
        self, real: Rowcall, store: Store, payload: str, said: str
    ) -> None:
        self._insert_next_to_good_ones(real, store, payload)
        self._check_failed_alone(real, "INVALID_INPUT:SCHEMA_MISMATCH", said)

    @pytest.mark.parametrize("payload", ["not JSON at all", '{"number": ', ""])
    def test_what_is_not_json_is_refused_or_fails_without_a_retry(
        self, real: Rowcall, store: Store, payload: str
    ) -> None:
        if refuses(store, f"insert into rowcall_job (type, payload) values ('elsewhere', '{payload}')"):
            assert real.list().jobs == []
            return
        assert real.get(1).payload == {"__raw__": payload}
        self._insert_next_to_good_ones(real, store, payload)
        self._check_failed_alone(real, "INVALID_INPUT:NOT_JSON", "the payload is not JSON")

    @pytest.mark.parametrize(
        ("payload", "said"),
        [
            ("{}", "missing argument 'number'"),
            ('{"number": "one"}', "argument 'number': expected `int`, got `str`"),
            ('{"number": 1, "unknown": 1}', "unexpected argument 'unknown'"),
            ('{"NUMBER": 1}', "unexpected argument 'NUMBER'"),
        ],
    )
    def test_a_payload_that_does_not_fit_fails_without_a_retry(
        self, open_queue: OpenQueue, store: Store, payload: str, said: str
    ) -> None:
        real = open_queue(mismatch_grace=0)
        real.migrate()
        self._insert_next_to_good_ones(real, store, payload)
        self._check_failed_alone(real, "INVALID_INPUT:SCHEMA_MISMATCH", said)

    def _insert_next_to_good_ones(self, jobs: Rowcall, store: Store, payload: str) -> None:
        """Write a row for a handler in a thread and one for a coroutine."""

        @jobs.task(max_attempts=5)
        def double(number: int) -> int:
            return 2 * number

        @jobs.task(max_attempts=5)
        async def triple(number: int) -> int:
            return 3 * number

        for task in ("double", "triple"):
            store.execute(f"insert into rowcall_job (type, payload) values ('{task}', '{payload}')")
            jobs.enqueue(task, {"number": 7})

    def _check_failed_alone(self, jobs: Rowcall, code: str, said: str) -> None:
        summary = jobs.drain()
        assert (summary.failed, summary.succeeded, summary.retried) == (2, 2, 0)
        for job in jobs.list(status="failed").jobs:
            assert (job.attempt, job.error_code) == (1, code)
            assert said in (job.error_detail or "")
            (attempt,) = jobs.attempts(job.id)
            assert (attempt.status, attempt.error_code, attempt.next_run_at) == ("failed", code, None)
        assert sorted(str(job.result) for job in jobs.list(status="succeeded").jobs) == ["14", "21"]

    def test_a_bad_row_does_not_stop_the_good_ones(self, real: Rowcall, store: Store) -> None:
        ran: list[int] = []

        @real.task
        def note(number: int) -> None:
            ran.append(number)

        for number in range(5):
            store.execute("""insert into rowcall_job (type, payload) values ('note', '"broken"')""")
            store.execute(f"""insert into rowcall_job (type, payload) values ('note', '{{"number": {number}}}')""")
        summary = real.drain()
        assert (summary.succeeded, summary.failed) == (5, 5)
        assert sorted(ran) == list(range(5))

    def test_a_retry_policy_that_is_none_is_passed_over(
        self, real: Rowcall, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        @real.task
        def break_down() -> None:
            raise ValueError

        store.execute("insert into rowcall_job (type, retry) values ('break_down', 'often')")
        assert real.drain().retried == 1
        (job,) = real.list().jobs
        assert job.status is Status.SCHEDULED
        assert "ignored the retry policy in a job's row: not a retry policy" in caplog.text

    @pytest.mark.usefixtures("usual_recursion_limit")
    @pytest.mark.parametrize("by_hand", [False, True])
    @pytest.mark.parametrize(("column", "text"), UNREADABLE.items())
    def test_a_row_that_cannot_be_read_fails_by_itself(
        self, real: Rowcall, store: Store, column: str, text: str, by_hand: bool
    ) -> None:
        @real.task(timeout=30)
        def note(number: int) -> int:
            return number

        for number in range(5):
            store.execute(f"insert into rowcall_job (type, payload, {column}) values ('note', '{{}}', '{text}')")
            note.enqueue(number)
        if by_hand:
            claimed = real.claim("hand", limit=10)
            assert [job.payload for job in claimed] == [{"number": number} for number in range(5)]
            for job in claimed:
                real.complete(job)
        else:
            summary = real.drain(concurrency=1)
            assert (summary.succeeded, summary.failed) == (5, 5)
        assert len(real.list(status="succeeded").jobs) == 5
        failed = real.list(status="failed").jobs
        assert {(job.attempt, job.error_code) for job in failed} == {(1, "INVALID_INPUT:UNREADABLE_ROW")}
        assert {job.error_detail for job in failed} == {f"the column {column} cannot be read: it is nested too deeply"}
        assert len(failed) == 5
        assert real.stats().by_status["failed"] == 5
        assert [attempt.status for attempt in real.attempts(failed[0].id)] == ["failed"]

    def test_a_held_job_whose_key_cannot_be_read_runs(self, real: Rowcall, store: Store) -> None:
        @real.task
        def note(number: int = 1) -> int:
            return number

        store.execute(f"insert into rowcall_job (type, status, held) values ('note', 'pending', 'limit:{DEEP}')")
        note.enqueue()
        assert real.drain().succeeded == 2

    @pytest.mark.parametrize("held", ["nonsense", "", "a", "MISMATCH", "limit", "[" * 5000])
    def test_a_job_that_is_held_for_an_unknown_reason_runs(self, real: Rowcall, store: Store, held: str) -> None:
        @real.task
        def note(number: int = 1) -> int:
            return number

        for _ in range(3):
            store.execute(f"insert into rowcall_job (type, status, held) values ('note', 'pending', '{held}')")
        note.enqueue()
        assert real.drain().succeeded == 4
        assert real.stats().by_status["pending"] == 0

    def test_ready_rows_without_a_job_hide_no_other_job(self, real: Rowcall, store: Store) -> None:
        @real.task
        def note(number: int = 1) -> int:
            return number

        done = note.enqueue()
        real.drain()
        for number in (done.id, 1_000_000, 1_000_001):
            store.execute(
                'insert into rowcall_ready (queue, type, "rank", turn, id, since, attempt)'
                f" select 'default', 'note', -9, {number}, {number}, created_at, 0 from rowcall_job"
            )
        good = note.enqueue()
        real.drain(concurrency=1)
        assert real.get(good.id).status is Status.SUCCEEDED
        assert real.attempts(done.id)[-1].attempt == 1
        assert real.stats().by_status["pending"] == 0

    def test_a_status_that_was_set_by_hand_is_counted_once_and_stops_no_other_job(
        self, real: Rowcall, store: Store
    ) -> None:
        ran: list[int] = []

        @real.task
        def note(number: int) -> None:
            ran.append(number)

        first = note.enqueue_many([{"number": number} for number in range(3)])[0].id
        store.execute(f"update rowcall_job set status = 'running' where id = {first}")
        assert store.execute("select count(*) from rowcall_ready") == [(2,)]
        assert real.stats().total == 3
        for lease in ("lease", "lease + 1"):  # a lease that was raised by hand may leave a ready row
            store.execute(f"update rowcall_job set status = 'pending' where id = {first}")
            store.execute(f"update rowcall_job set status = 'running', lease = {lease} where id = {first}")
        store.execute(f"update rowcall_job set status = 'pending' where id = {first}")
        assert real.drain().succeeded == 3
        assert sorted(ran) == [0, 1, 2]

    def test_a_recount_finds_jobs_that_have_no_ready_row(self, real: Rowcall, store: Store) -> None:
        @real.task
        def note(number: int = 1) -> int:
            return number

        lost = note.using(priority=3).enqueue()
        store.execute("delete from rowcall_ready")
        assert real.drain().succeeded == 0
        real.recount()
        assert real.drain().succeeded == 1
        assert real.get(lost.id).status is Status.SUCCEEDED

    def test_jobs_behind_those_with_the_highest_lease_run(self, real: Rowcall, store: Store) -> None:
        @real.task
        def note(number: int = 1) -> int:
            return number

        for _ in range(20):
            store.execute(f"insert into rowcall_job (type, priority, lease) values ('note', 9, {2**62 - 1})")
        good = note.enqueue()
        real.drain(concurrency=1)
        assert real.get(good.id).status is Status.SUCCEEDED

    def test_a_job_with_a_very_high_id_does_not_keep_others_from_being_enqueued(
        self, real: Rowcall, store: Store
    ) -> None:
        @real.task
        def note(number: int = 1) -> int:
            return number

        store.execute(f"insert into rowcall_job (id, type) values ({2**62}, 'note')")
        assert refuses(store, f"insert into rowcall_job (id, type) values ({2**63 - 1}, 'note')")
        assert refuses(store, "insert into rowcall_job (id, type) values (0, 'note')")
        jobs = [note.enqueue(), *note.enqueue_many([{}, {}])]
        last = note.using(after=jobs).enqueue()
        assert real.drain().succeeded == 5
        assert real.get(last.id).status is Status.SUCCEEDED
        assert real.get(2**62).status is Status.SUCCEEDED

    def test_ids_that_plain_sql_gave_are_passed_over(self, real: Rowcall, store: Store) -> None:
        first = real.enqueue("note")
        for number in (1, 3):
            store.execute(f"insert into rowcall_job (id, type) values ({first.id + number}, 'note')")
        ids = {first.id, first.id + 1, first.id + 3, *(real.enqueue("note").id for _ in range(4))}
        assert len(ids) == 7
        assert {job.id for job in real.list().jobs} == ids

    @pytest.mark.parametrize(
        "columns", ["(type) values ('')", "(type, status) values ('a', 'asleep')", "(payload) values ('{}')"]
    )
    def test_rows_that_make_no_sense_are_refused_by_the_table(self, real: Rowcall, store: Store, columns: str) -> None:
        with pytest.raises(Exception, match=r"(?i)constraint|default value"):
            store.execute(f"insert into rowcall_job {columns}")
        assert real.list().jobs == []
