"""Unique jobs: what a key keeps from being written twice, and what becomes of the duplicate."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import msgspec
import pytest

from rowcall import Context, DuplicateJob, InvalidOption, Job, Rowcall, Status
from rowcall.declare.option_table import EnqueueOptions
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store


def jobs_written(store: Store) -> int:
    ((count,),) = store.execute("select count(*) from rowcall_job")
    assert isinstance(count, int)
    return count


def end(jobs: Rowcall, status: str) -> None:
    """End the one job that is due."""
    (job,) = jobs.claim("hand")
    if status == "succeeded":
        jobs.complete(job)
    else:
        jobs.fail(job, "A:B")


class TestKeys:
    def test_a_second_job_with_the_key_is_the_first_one(self, jobs: Rowcall, store: Store) -> None:
        first = jobs.enqueue("send", {"to": "a"}, key="order-1")
        second = jobs.enqueue("send", {"to": "b"}, key="order-1")
        assert (first.duplicate, second.duplicate) == (False, True)
        assert (second.id, second.payload, second.key) == (first.id, {"to": "a"}, "order-1")
        assert jobs_written(store) == 1
        assert jobs.stats().total == 1

    def test_a_key_is_its_types_and_its_own(self, jobs: Rowcall, store: Store) -> None:
        for kind, key in (("send", "a"), ("send", "b"), ("print", "a"), ("send", "A"), ("send", "a ")):
            assert not jobs.enqueue(kind, key=key).duplicate
        assert jobs_written(store) == 5
        assert not jobs.enqueue("send").duplicate

    @pytest.mark.parametrize("state", ["scheduled", "pending", "blocked", "running", "retried"])
    def test_what_has_not_finished_keeps_its_key(self, jobs: Rowcall, clock: FakeClock, state: str) -> None:
        blocker = jobs.enqueue("other", delay=1000)
        match state:
            case "scheduled":
                first = jobs.enqueue("send", key="k", delay=60)
            case "blocked":
                first = jobs.enqueue("send", key="k", after=blocker)
            case _:
                first = jobs.enqueue("send", key="k", max_attempts=2)
        if state in ("running", "retried"):
            (running,) = jobs.claim("hand")
            if state == "retried":
                jobs.fail(running, "A:B")
        again = jobs.enqueue("send", key="k")
        assert (again.id, again.duplicate) == (first.id, True)
        assert again == _as_duplicate(jobs, first.id)

    @pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
    def test_what_has_finished_keeps_its_key_only_within_any(self, jobs: Rowcall, status: str) -> None:
        first = jobs.enqueue("send", key="k", max_attempts=1)
        if status == "cancelled":
            jobs.cancel(first.id)
        else:
            end(jobs, status)
        duplicate = jobs.enqueue("send", key="k", key_scope="any")
        assert (duplicate.id, duplicate.duplicate, duplicate.status) == (first.id, True, status)
        second = jobs.enqueue("send", key="k", key_scope="active")
        assert (second.duplicate, second.status) == (False, Status.PENDING)
        assert jobs.enqueue("send", key="k", key_scope="any").id == second.id  # the newest has it

    def test_a_window_counts_from_when_the_job_was_written(self, jobs: Rowcall, clock: FakeClock) -> None:
        first = jobs.enqueue("send", key="k", key_scope="any", key_window=60)
        clock.advance(30)
        end(jobs, "succeeded")
        clock.advance(29.999)
        assert jobs.enqueue("send", key="k", key_scope="any", key_window=timedelta(minutes=1)).id == first.id
        clock.advance(0.001)
        second = jobs.enqueue("send", key="k", key_scope="any", key_window=60)
        assert not second.duplicate
        clock.advance(60)
        third = jobs.enqueue("send", key="k", key_window=60)  # it still waits, and is too old to count
        assert not third.duplicate
        assert jobs.enqueue("send", key="k").id == third.id

    def test_raise_says_which_job_it_is(self, jobs: Rowcall, store: Store) -> None:
        first = jobs.enqueue("send", key="k")
        with pytest.raises(DuplicateJob) as raised:
            jobs.enqueue("send", key="k", on_duplicate="raise")
        assert (raised.value.job_id, raised.value.key) == (first.id, "k")
        assert jobs_written(store) == 1
        end(jobs, "succeeded")
        assert not jobs.enqueue("send", key="k", on_duplicate="raise").duplicate

    def test_replace_gives_the_waiting_one_new_arguments_and_a_new_time(
        self, jobs: Rowcall, clock: FakeClock, store: Store
    ) -> None:
        first = jobs.enqueue("send", {"to": "a"}, key="k", delay=10, on_duplicate="replace")
        for number in range(5):
            clock.advance(9)
            again = jobs.enqueue("send", {"to": str(number)}, key="k", delay=10, on_duplicate="replace")
            assert (again.id, again.duplicate) == (first.id, True)
            assert again == _as_duplicate(jobs, first.id)
            assert (again.payload, again.run_at) == ({"to": str(number)}, clock.now() + timedelta(seconds=10))
            assert jobs.dequeue("hand") is None
        assert jobs_written(store) == 1
        clock.advance(10)
        (job,) = jobs.claim("hand")
        assert job.payload == {"to": "4"}
        assert [event.event for event in jobs.timeline(first.id)].count("REPLACED") == 5
        assert jobs.stats().by_status["running"] == 1

    def test_replace_can_make_it_due_at_once_or_later(self, jobs: Rowcall, clock: FakeClock) -> None:
        first = jobs.enqueue("send", key="k", delay=60, on_duplicate="replace")
        assert jobs.enqueue("send", key="k", on_duplicate="replace").status is Status.PENDING
        assert jobs.enqueue("send", key="k", delay=60, on_duplicate="replace").status is Status.SCHEDULED
        assert jobs.dequeue("hand") is None
        clock.advance(60)
        (job,) = jobs.claim("hand")
        assert job.id == first.id

    def test_replace_of_a_blocked_one_leaves_it_blocked(self, jobs: Rowcall) -> None:
        blocker = jobs.enqueue("other", queue="others")
        first = jobs.enqueue("send", {"to": "a"}, key="k", after=blocker)
        again = jobs.enqueue("send", {"to": "b"}, key="k", on_duplicate="replace")
        assert (again.id, again.status, again.payload) == (first.id, Status.BLOCKED, {"to": "b"})
        end(jobs, "succeeded")
        assert [job.payload for job in jobs.claim("hand")] == [{"to": "b"}]

    def test_replace_of_a_running_one_makes_a_new_one(self, jobs: Rowcall, store: Store) -> None:
        first = jobs.enqueue("send", {"to": "a"}, key="k")
        (running,) = jobs.claim("hand")
        second = jobs.enqueue("send", {"to": "b"}, key="k", on_duplicate="replace")
        assert (second.duplicate, second.payload) == (False, {"to": "b"})
        third = jobs.enqueue("send", {"to": "c"}, key="k", on_duplicate="replace")
        assert (third.id, third.duplicate) == (second.id, True)
        jobs.complete(running, "of the first")
        assert jobs.get(first.id).payload == {"to": "a"}
        assert jobs.get(second.id).payload == {"to": "c"}
        assert jobs_written(store) == 2

    def test_replace_finds_an_older_job_that_waits_again_while_the_newest_runs(
        self, jobs: Rowcall, store: Store
    ) -> None:
        first = jobs.enqueue("send", {"to": "a"}, key="k")
        (running,) = jobs.claim("hand")
        second = jobs.enqueue("send", {"to": "b"}, key="k", on_duplicate="replace")
        (running_too,) = jobs.claim("hand")
        jobs.release(running)
        third = jobs.enqueue("send", {"to": "c"}, key="k", on_duplicate="replace")
        assert (running_too.id, third.id, third.duplicate) == (second.id, first.id, True)
        assert jobs.get(first.id).payload == {"to": "c"}
        assert jobs_written(store) == 2

    def test_replace_of_one_that_will_be_tried_again_replaces_that(self, jobs: Rowcall, clock: FakeClock) -> None:
        first = jobs.enqueue("send", {"to": "a"}, key="k", max_attempts=3)
        end(jobs, "failed")
        again = jobs.enqueue("send", {"to": "b"}, key="k", on_duplicate="replace")
        assert (again.id, again.status, again.attempt) == (first.id, Status.PENDING, 1)
        (job,) = jobs.claim("hand")
        assert (job.payload, job.attempt) == ({"to": "b"}, 2)

    def test_replace_sets_a_new_end_of_waiting(self, jobs: Rowcall, clock: FakeClock) -> None:
        first = jobs.enqueue("send", key="k", delay=60, expires_in=100)
        clock.advance(50)
        jobs.enqueue("send", key="k", delay=60, expires_in=100, on_duplicate="replace")
        clock.advance(60)
        (job,) = jobs.claim("hand")
        assert (job.id, job.expires_at) == (first.id, clock.now() + timedelta(seconds=40))

    def test_throttle_replaces_the_arguments_and_keeps_the_time(self, jobs: Rowcall, clock: FakeClock) -> None:
        first = jobs.enqueue("send", {"to": "a"}, key="k", on_duplicate="replace", keep_run_at=True, delay=10)
        clock.advance(9)
        for to in ("b", "c"):
            again = jobs.enqueue("send", {"to": to}, key="k", on_duplicate="replace", keep_run_at=True, delay=10)
            assert (again.id, again.payload, again.run_at) == (first.id, {"to": to}, first.run_at)
        clock.advance(1)
        (running,) = jobs.claim("hand")
        assert running.payload == {"to": "c"}
        next_one = jobs.enqueue("send", key="k", on_duplicate="replace", keep_run_at=True, delay=10)
        assert (next_one.duplicate, next_one.status) == (False, Status.SCHEDULED)

    def test_a_job_that_waits_for_a_signal_is_replaced_with_a_new_time(self, jobs: Rowcall, clock: FakeClock) -> None:
        """Its step is deleted, so no signal would come."""

        @jobs.task(key="k", on_duplicate="replace", keep_run_at=True)
        def wait(ctx: Context, number: int) -> None:
            if number == 1:
                ctx.wait_for("never")

        first = wait.enqueue(1)
        jobs.drain()
        assert jobs.get(first.id).run_at.year == 9999
        assert wait.enqueue(2).duplicate
        jobs.drain()
        assert jobs.get(first.id).status == Status.SUCCEEDED

    def test_debounce_runs_at_most_the_longest_delay_after_the_first_enqueue(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        def enqueue() -> Job:
            return jobs.enqueue("send", key="k", on_duplicate="replace", delay=5, longest_delay=12)

        first = enqueue()
        waited = []
        for _ in range(3):
            clock.advance(4)
            waited.append((enqueue().run_at - first.created_at).total_seconds())
        assert waited == [9, 12, 12]

    def test_a_scope_of_waiting_jobs_lets_one_run_and_one_wait(self, jobs: Rowcall, store: Store) -> None:
        first = jobs.enqueue("send", key="k", key_scope="waiting")
        (running,) = jobs.claim("hand")
        second = jobs.enqueue("send", key="k", key_scope="waiting")
        third = jobs.enqueue("send", key="k", key_scope="waiting")
        assert (running.id, second.duplicate, third.id, third.duplicate) == (first.id, False, second.id, True)
        assert jobs_written(store) == 2

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"keep_run_at": True, "key": None, "on_duplicate": None}, "keep_run_at has no effect without a key"),
            ({"longest_delay": 5, "on_duplicate": "return"}, "longest_delay has no effect without on_duplicate"),
            ({"keep_run_at": True, "longest_delay": 5}, "keep_run_at cannot be combined with longest_delay"),
            ({"longest_delay": 5, "delay": 6}, "longest_delay must be at least the delay, 6 s"),
            ({"keep_run_at": 1}, "keep_run_at must be True or False, got 1"),
            ({"key_scope": "running"}, "key_scope must be active, waiting or any, got 'running'"),
        ],
    )
    def test_options_that_do_not_fit_are_refused(
        self, jobs: Rowcall, store: Store, options: EnqueueOptions, problem: str
    ) -> None:
        every: EnqueueOptions = {"key": "k", "on_duplicate": "replace", **options}
        with pytest.raises(InvalidOption, match=problem):
            jobs.enqueue("send", **every)
        assert jobs_written(store) == 0


class TestKeysOfTasks:
    def test_a_key_can_be_a_function_of_the_arguments(self, jobs: Rowcall, store: Store) -> None:
        @jobs.task(key=lambda order_id, to="ann": f"order-{order_id}")
        def send(order_id: int, to: str = "ann") -> None: ...

        first = send.enqueue(1, to="a")
        assert first.key == "order-1"
        assert send.enqueue(1, to="b").id == first.id
        assert send.enqueue(1).id == first.id
        assert send.enqueue(order_id=2).key == "order-2"
        assert jobs.enqueue("send", {"order_id": 2}).duplicate
        assert send.using(key="mine").enqueue(1).key == "mine"
        assert send.using(key=lambda order_id: f"other-{order_id}").enqueue(1).key == "other-1"
        assert jobs_written(store) == 4

    @pytest.mark.parametrize("answer", ["", 5, None, "x" * 513, "a\0b"])
    def test_a_function_that_gives_no_key_is_refused(self, jobs: Rowcall, store: Store, answer: object) -> None:
        @jobs.task(key=lambda: answer)  # type: ignore[arg-type, return-value]
        def send() -> None: ...

        jobs.migrate()
        with pytest.raises(InvalidOption, match="key"):
            send.enqueue()
        assert jobs_written(store) == 0

    def test_a_key_of_512_characters_is_kept_whole(self, jobs: Rowcall) -> None:
        key = "ж" * 511 + "a"
        first = jobs.enqueue("send", key=key)
        assert jobs.get(first.id).key == key
        assert jobs.enqueue("send", key=key).duplicate
        assert not jobs.enqueue("send", key="ж" * 511 + "b").duplicate

    @pytest.mark.parametrize("on_duplicate", ["return", "replace"])
    def test_of_many_in_one_call_each_key_is_written_once(
        self, jobs: Rowcall, store: Store, on_duplicate: Literal["return", "replace"]
    ) -> None:
        @jobs.task(key=lambda to, text: to, on_duplicate=on_duplicate)
        def send(to: str, text: str) -> None: ...

        before = send.enqueue("b", "old")
        rows = [{"to": to, "text": text} for to, text in (("a", "1"), ("b", "2"), ("c", "3"), ("a", "4"), ("b", "5"))]
        written = send.enqueue_many(rows)
        assert [job.key for job in written] == ["a", "b", "c", "a", "b"]
        assert written[0].id == written[3].id
        assert written[1].id == written[4].id == before.id
        assert jobs_written(store) == 3
        by_key = {job.key: job.payload["text"] for job in jobs.list().jobs}
        assert by_key == (
            {"a": "1", "b": "old", "c": "3"} if on_duplicate == "return" else {"a": "4", "b": "5", "c": "3"}
        )
        fresh = [job.duplicate for job in written]
        assert fresh == (
            [False, True, False, True, True] if on_duplicate == "return" else [True, True, False, False, True]
        )

    def test_of_many_with_one_that_is_refused_none_is_written(self, jobs: Rowcall, store: Store) -> None:
        @jobs.task(key=lambda to: to, on_duplicate="raise")
        def send(to: str) -> None: ...

        taken = send.enqueue("b")
        with pytest.raises(DuplicateJob) as raised:
            send.enqueue_many([{"to": "a"}, {"to": "b"}])
        assert (raised.value.job_id, raised.value.row) == (taken.id, 1)
        with pytest.raises(InvalidOption, match="rows 0 and 1 have the same key 'c'"):
            send.enqueue_many([{"to": "c"}, {"to": "c"}])
        assert jobs_written(store) == 1

    def test_other_options_come_from_the_task_and_from_the_call(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        jobs = open_queue(clock=clock)

        @jobs.task(key="only", key_scope="any", key_window=60)
        def send() -> None: ...

        first = send.enqueue()
        end(jobs, "succeeded")
        assert send.enqueue().id == first.id
        assert not send.using(key_scope="active").enqueue().duplicate
        with pytest.raises(DuplicateJob):
            send.using(on_duplicate="raise").enqueue()


def _as_duplicate(jobs: Rowcall, job_id: int) -> Job:
    """The job as it is, but for the mark."""
    return msgspec.structs.replace(jobs.get(job_id), duplicate=True)
