"""Any language that speaks SQL can enqueue."""

from __future__ import annotations

import pytest

from rowcall import Rowcall, Status
from rowcall.testing.conformance.fixtures import OpenQueue
from rowcall.testing.conformance.store import Store, refuses


class TestPlainSql:
    @pytest.fixture
    def real(self, open_queue: OpenQueue) -> Rowcall:
        """By the database's own clock, as its defaults are."""
        jobs = open_queue()
        jobs.migrate()
        return jobs

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

    @pytest.mark.parametrize("payload", ["[1, 2]", '"text"', "7", "null"])
    def test_a_payload_that_is_no_object_fails_without_a_retry(self, real: Rowcall, store: Store, payload: str) -> None:
        @real.task
        def send(to: str) -> None: ...

        store.execute(f"insert into rowcall_job (type, payload) values ('send', '{payload}')")
        assert real.drain().failed == 1
        (job,) = real.list().jobs
        assert (job.status, job.attempt) == (Status.FAILED, 1)
        assert (job.error_code or "").startswith("INVALID_INPUT:")
        assert job.error_detail

    @pytest.mark.parametrize("payload", ["not JSON at all", '{"to": ', ""])
    def test_what_is_not_json_is_refused_or_fails_without_a_retry(
        self, real: Rowcall, store: Store, payload: str
    ) -> None:
        @real.task
        def send(to: str) -> None: ...

        if refuses(store, f"insert into rowcall_job (type, payload) values ('send', '{payload}')"):
            assert real.list().jobs == []
            return
        assert real.drain().failed == 1
        (job,) = real.list().jobs
        assert (job.status, job.attempt, job.error_code) == (Status.FAILED, 1, "INVALID_INPUT:NOT_JSON")

    @pytest.mark.parametrize("payload", ["{}", '{"to": 5}', '{"to": "a", "unknown": 1}', '{"TO": "a"}'])
    def test_a_payload_that_does_not_fit_fails_without_a_retry(self, real: Rowcall, store: Store, payload: str) -> None:
        @real.task
        def send(to: str) -> None: ...

        store.execute(f"insert into rowcall_job (type, payload) values ('send', '{payload}')")
        assert real.drain().failed == 1
        (job,) = real.list().jobs
        assert (job.status, job.attempt) == (Status.FAILED, 1)
        assert (job.error_code or "").startswith("INVALID_INPUT:")

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

    def test_a_retry_policy_that_is_none_is_passed_over(self, real: Rowcall, store: Store) -> None:
        @real.task
        def break_down() -> None:
            raise ValueError

        store.execute("insert into rowcall_job (type, retry) values ('break_down', 'often')")
        assert real.drain().retried == 1
        (job,) = real.list().jobs
        assert job.status is Status.SCHEDULED

    @pytest.mark.parametrize(
        "columns", ["(type) values ('')", "(type, status) values ('a', 'asleep')", "(payload) values ('{}')"]
    )
    def test_rows_that_make_no_sense_are_refused_by_the_table(self, real: Rowcall, store: Store, columns: str) -> None:
        with pytest.raises(Exception, match=r"(?i)constraint"):
            store.execute(f"insert into rowcall_job {columns}")
        assert real.list().jobs == []
