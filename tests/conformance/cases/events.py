"""Events: what happens to jobs, as it happens."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from rowcall import (
    Backoff,
    Cancel,
    Context,
    Event,
    Events,
    Fail,
    InvalidOption,
    Job,
    JobEvent,
    JobNotFound,
    Rowcall,
    Snooze,
    StoreUnavailable,
)
from rowcall.app import queue_of
from rowcall.operations.retention import clean_up
from rowcall.store.results import readers
from rowcall.store.results.readers import ROWS_AT_ONCE
from rowcall.store.statement import Plan
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.store import Store

CHANGES = "select count(*) from rowcall_change"
WAITERS = "select count(*) from rowcall_waiter"


def until(events: Iterator[JobEvent], kind: str, job: Job | None = None) -> list[JobEvent]:
    """Read up to the first event of a kind."""
    found: list[JobEvent] = []
    while not (found and found[-1].event == kind and (job is None or found[-1].job_id == job.id)):
        found.append(next(events))
    return found


def told(events: list[JobEvent], job: Job) -> list[tuple[object, ...]]:
    return [(one.at, one.event, one.actor, one.detail) for one in events if one.job_id == job.id]


def lines(timeline: list[Event]) -> list[tuple[object, ...]]:
    return [(one.at, one.event, one.actor, one.detail) for one in timeline if one.event != "HELD"]


def clean(jobs: Rowcall) -> None:
    """Do what the upkeep of a worker does now and then."""
    queue = queue_of(jobs)
    with contextlib.closing(queue.database.connect()) as connection:
        clean_up(queue, connection)


class TestEvents:
    @pytest.fixture
    def declared(self, jobs: Rowcall) -> Rowcall:
        @jobs.task
        def fine() -> None: ...

        @jobs.task(max_attempts=2, retry=Backoff.constant(0))
        def failing() -> None:
            raise ValueError("no")

        @jobs.task
        def snoozing(ctx: Context) -> None:
            if ctx.job.claimed_at == ctx.job.created_at:
                raise Snooze(delay=1)

        @jobs.task
        def refusing() -> None:
            raise Cancel("enough")

        @jobs.task(queue="mail")
        def broken() -> None:
            raise Fail("MAIL:BROKEN")

        return jobs

    def test_every_line_of_every_timeline_comes_once(self, declared: Rowcall, clock: FakeClock) -> None:
        jobs = declared
        before = jobs.enqueue("broken")
        jobs.drain()
        with jobs.events() as events:
            made = [jobs.enqueue(name) for name in ("fine", "failing", "snoozing", "refusing", "broken")]
            waiting, hand, lost, moved = (jobs.enqueue("fine", delay=60 + n) for n in range(4))
            chained = jobs.enqueue("fine", after=[made[0]])
            doomed = jobs.enqueue("fine", after=[made[4]])
            expired = jobs.enqueue("unknown", expires_in=5)
            jobs.drain()
            clock.advance(2)
            jobs.drain()
            clock.advance(10)
            jobs.drain()
            jobs.cancel(waiting.id, reason="why not")
            jobs.complete(hand.id, {"by": "hand"})
            jobs.reschedule(lost.id, delay=0)
            jobs.set_priority(moved.id, 7)
            [claimed] = jobs.claim("by hand", lease=5)
            jobs.heartbeat(claimed)
            clock.advance(60)
            assert jobs.claim("by hand", limit=5) != []
            found = until(events, "CLAIMED", moved)
            jobs.retry(made[4].id)
            jobs.retry(before.id)
            jobs.retry(expired.id)
            jobs.drain()
            found += until(events, "ENQUEUED", jobs.enqueue("last"))
        for job in (*made, waiting, hand, lost, moved, chained, doomed, expired):
            assert sorted(map(repr, told(found, job))) == sorted(map(repr, lines(jobs.timeline(job)))), job.type
        assert [line[1] for line in told(found, before)] == ["MANUAL_RETRY", "CLAIMED", "STARTED", "FAILED"]
        assert {one.event for one in found} >= {
            *("ENQUEUED", "CLAIMED", "STARTED", "SUCCEEDED", "FAILED", "RETRY_SCHEDULED"),
            *("SNOOZED", "CANCELLED", "EXPIRED", "RECOVERED", "BLOCKED", "UNBLOCKED", "COMPLETED", "MANUAL_RETRY"),
        }

    def test_a_running_job_is_seen_before_it_ends(self, jobs: Rowcall, clock: FakeClock) -> None:
        with jobs.events(kind=["claimed", "started", "heartbeat", "succeeded"]) as events:
            job = jobs.enqueue("by hand")
            claimed = jobs.dequeue("me")
            assert claimed is not None
            assert [one.event for one in until(events, "STARTED")] == ["CLAIMED", "STARTED"]
            jobs.heartbeat(claimed)
            assert next(events).event == "HEARTBEAT"
            clock.advance(1)
            jobs.heartbeat(claimed)
            assert next(events).event == "HEARTBEAT"
            jobs.complete(claimed)
            assert [(one.event, one.job_id) for one in until(events, "SUCCEEDED")] == [("SUCCEEDED", job.id)]

    def test_every_line_of_the_timeline_of_one_job_comes_once(self, jobs: Rowcall, clock: FakeClock) -> None:
        found: list[JobEvent] = []

        @jobs.task(max_attempts=2, retry=Backoff.constant(0))
        def watched(ctx: Context) -> None:
            found.extend(until(events, "STARTED"))
            clock.jump(5)  # the claim was that long before the start, as it is known at the end
            if ctx.job.attempt < 3:
                raise ValueError("no")

        clock.advance(1)  # at 0, a worker would not know when an attempt started
        job = watched.enqueue()
        kinds = ["CLAIMED", "STARTED", "FAILED", "RETRY_SCHEDULED", "MANUAL_RETRY", "SUCCEEDED"]
        with jobs.events(id=job, kind=kinds) as events:
            jobs.drain()
            jobs.retry(job)
            jobs.drain()
            found += until(events, "SUCCEEDED")
        in_timeline = Counter(one.event for one in jobs.timeline(job) if one.event in kinds)
        assert Counter(one.event for one in found) == in_timeline

    def test_filters(self, declared: Rowcall) -> None:
        jobs = declared
        job = jobs.enqueue("fine")
        streams = {
            "queue": jobs.events(queue="mail"),
            "task": jobs.events(task="fine"),
            "id": jobs.events(id=job),
            "kind": jobs.events(kind=("succeeded", "FAILED")),
            "all": jobs.events(queue="mail", task="broken", kind="FAILED"),
        }
        jobs.enqueue("broken")
        jobs.drain()
        last = {"queue": "FAILED", "task": "SUCCEEDED", "id": "SUCCEEDED", "kind": "FAILED", "all": "FAILED"}
        found = {name: until(stream, last[name]) for name, stream in streams.items()}
        assert {one.queue for one in found["queue"]} == {"mail"}
        assert {one.type for one in found["task"]} == {"fine"}
        assert {one.job_id for one in found["id"]} == {job.id}
        assert [one.event for one in found["id"]] == ["CLAIMED", "STARTED", "SUCCEEDED"]
        assert [one.event for one in found["all"]] == ["FAILED"]
        assert {one.event for one in found["kind"]} <= {"SUCCEEDED", "FAILED"}
        for stream in streams.values():
            stream.close()
            assert list(stream) == []

    def test_jobs_of_schedules(self, declared: Rowcall) -> None:
        jobs = declared
        jobs.add_schedule("hourly", "fine", every=3600)
        with jobs.events(kind=["RUN_NOW", "TICK"]) as events:
            job = jobs.run_schedule_now("hourly", actor="ann")
            first = next(events)
        assert (first.event, first.job_id, first.actor) == ("RUN_NOW", job.id, "ann")

    def test_steps_are_in_the_timeline_only(self, jobs: Rowcall) -> None:
        @jobs.task
        def stepped(ctx: Context) -> None:
            ctx.step("one", int)

        job = stepped.enqueue()
        with jobs.events(id=job) as events:
            jobs.drain()
            found = [one.event for one in until(events, "SUCCEEDED")]
        assert "STEP_FINISHED" in [one.event for one in jobs.timeline(job)]
        assert found == ["CLAIMED", "STARTED", "SUCCEEDED"]

    def test_wrong_filters(self, jobs: Rowcall) -> None:
        with pytest.raises(InvalidOption, match=r"got 'succeded' \(did you mean 'SUCCEEDED'\?\)"):
            jobs.events(kind="succeded")
        with pytest.raises(InvalidOption, match=r"kind must be one of .*, got \[\]"):
            jobs.events(kind=[])
        with pytest.raises(InvalidOption, match="queue must have 1 to 200 characters"):
            jobs.events(queue="")
        with pytest.raises(InvalidOption, match="job must be a Job or its id"):
            jobs.aevents(id="1")  # type: ignore[arg-type]
        with pytest.raises(JobNotFound):
            jobs.aevents(id=-1)
        with pytest.raises(JobNotFound):
            jobs.events(id=7)

    def test_a_deleted_job_ends_its_events(self, jobs: Rowcall) -> None:
        job = jobs.enqueue("any")
        events = jobs.events(id=job)
        jobs.cancel(job)
        assert next(events).event == "CANCELLED"
        jobs.delete(job)
        assert list(events) == []

    @pytest.mark.parametrize("ends", ["before the prune", "after the prune"])
    def test_who_does_not_ask_for_long_is_told(self, declared: Rowcall, clock: FakeClock, ends: str) -> None:
        jobs = declared
        with jobs.events(kind="SUCCEEDED") as events:
            jobs.enqueue("fine")
            if ends == "before the prune":
                jobs.drain()
            clock.advance(73)
            clean(jobs)
            jobs.drain()
            assert [(one.event, one.job_id) for one in until(events, "MISSED")] == [("MISSED", None)]
            job = jobs.enqueue("fine")
            jobs.drain()
            assert [(one.event, one.job_id) for one in until(events, "SUCCEEDED")] == [("SUCCEEDED", job.id)]

    def test_who_asks_in_time_stays_registered(self, declared: Rowcall, clock: FakeClock) -> None:
        jobs = declared
        with jobs.events(kind="SUCCEEDED") as events:
            for _ in range(3):
                clock.advance(50)
                job = jobs.enqueue("fine")
                jobs.drain()
                assert [(one.event, one.job_id) for one in until(events, "SUCCEEDED")] == [("SUCCEEDED", job.id)]
                clean(jobs)

    def test_lost_changes_are_missed(self, declared: Rowcall, store: Store) -> None:
        jobs = declared
        with jobs.events(kind="SUCCEEDED") as events:
            jobs.enqueue("fine")
            jobs.drain()
            until(events, "SUCCEEDED")
            store.execute("delete from rowcall_change")
            assert next(events).event == "MISSED"

    def test_an_outage_while_the_reader_starts_again_is_missed(
        self, declared: Rowcall, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs, database = declared, queue_of(declared).database
        with jobs.events(kind="SUCCEEDED") as events:
            store.execute("delete from rowcall_waiter")
            jobs.enqueue("fine")
            jobs.drain()
            read = database.read
            failed: list[object] = []

            def read_until_the_start(plan: Plan[object], **options: object) -> object:
                if not failed and store.execute(WAITERS) == [(1,)]:
                    failed.append(plan)
                    raise StoreUnavailable("the server has gone")
                return read(plan, **options)  # type: ignore[arg-type]

            monkeypatch.setattr(database, "read", read_until_the_start)
            assert next(events).event == "MISSED"
            assert failed

    def test_an_outage_at_the_end_of_a_look_loses_nothing(
        self, declared: Rowcall, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs, database = declared, queue_of(declared).database
        with jobs.events(kind="SUCCEEDED") as events:
            job = jobs.enqueue("fine")
            jobs.drain()
            read = database.read
            failed: list[object] = []

            def read_and_fail_once(plan: Plan[object], **options: object) -> object:
                found = read(plan, **options)  # type: ignore[arg-type]
                if not failed:
                    failed.append(found)
                    raise StoreUnavailable("the server has gone")
                return found

            monkeypatch.setattr(database, "read", read_and_fail_once)
            assert [(one.event, one.job_id) for one in until(events, "SUCCEEDED")] == [("SUCCEEDED", job.id)]
            assert failed

    def test_a_job_that_is_gone_before_it_was_read_is_missed(self, declared: Rowcall) -> None:
        jobs = declared
        with jobs.events(kind="SUCCEEDED") as events:
            job = jobs.enqueue("fine")
            jobs.drain()
            jobs.delete(job)
            assert next(events).event == "MISSED"

    @pytest.mark.parametrize("by", ["call", "plain SQL"])
    def test_a_waiting_job_that_is_deleted_before_it_was_read_is_missed(
        self, declared: Rowcall, store: Store, by: str
    ) -> None:
        jobs = declared

        def delete(job: Job) -> None:
            if by == "call":
                jobs.delete(job)
            else:
                store.execute(f"delete from rowcall_job where id = {job.id}")

        other = jobs.enqueue("fine", delay=60)
        with jobs.events() as events, jobs.events(kind="SUCCEEDED") as ends, jobs.events(id=other) as of_one:
            delete(jobs.enqueue("fine", delay=60))
            assert next(events).event == "MISSED"
            jobs.set_priority(other, 7)
            delete(other)
            assert next(events).event == "MISSED"
            assert [one.event for one in of_one] == ["MISSED"]
            fine = jobs.enqueue("fine")
            assert next(events).job_id == fine.id
            jobs.drain()
            assert [one.event for one in until(ends, "SUCCEEDED")] == ["SUCCEEDED"]

    def test_an_unblocked_job_that_is_deleted_before_that_was_read_is_missed(self, declared: Rowcall) -> None:
        jobs = declared
        blocker = jobs.enqueue("fine")
        job = jobs.enqueue("unknown", after=[blocker])
        with jobs.events(kind="UNBLOCKED") as events:
            jobs.drain()
            jobs.delete(job)
            assert next(events).event == "MISSED"

    def test_deleting_what_was_read_is_not_a_miss(self, declared: Rowcall, store: Store) -> None:
        jobs = declared
        old, waiting, blocker = jobs.enqueue("broken"), jobs.enqueue("fine", delay=60), jobs.enqueue("fine")
        jobs.enqueue("fine", after=[blocker])
        jobs.drain()
        with jobs.events() as events:
            read = jobs.enqueue("fine", delay=60)
            jobs.set_priority(waiting, 7)
            until(events, "PRIORITY_CHANGED", waiting)
            jobs.retry(old)
            jobs.drain()
            until(events, "FAILED", old)
            recorded = store.execute(CHANGES)
            jobs.delete(old)
            jobs.delete(blocker)
            assert store.execute(CHANGES) == recorded
            jobs.delete(read)
            jobs.delete(waiting)
            last = jobs.enqueue("fine")
            assert next(events).job_id == last.id

    def test_many_deletions_are_recorded_together(self, jobs: Rowcall, store: Store) -> None:
        @jobs.task
        def many() -> None: ...

        with jobs.events(kind="ENQUEUED") as events:
            many.enqueue_many([{}] * 50)
            store.execute("delete from rowcall_job")
            server = queue_of(jobs).config.server
            has_row_triggers = server is not None and server.kind == "mysql"  # it has no others
            assert store.execute(CHANGES)[0][0] <= (50 if has_row_triggers else 1)  # type: ignore[operator]
            assert next(events).event == "MISSED"
            job = many.enqueue()
            assert next(events).job_id == job.id

    def test_many_jobs_come_page_by_page(self, jobs: Rowcall) -> None:
        @jobs.task
        async def many(number: int) -> None: ...

        count = ROWS_AT_ONCE + 100
        with jobs.events(kind=["ENQUEUED", "SUCCEEDED"]) as events:
            many.enqueue_many({"number": number} for number in range(count))
            jobs.drain()
            found = [next(events) for _ in range(2 * count)]
        enqueued, succeeded = ([one.job_id for one in found if one.event == kind] for kind in ("ENQUEUED", "SUCCEEDED"))
        assert len(set(enqueued)) == count
        assert set(enqueued) == set(succeeded)

    def test_one_deleted_job_among_many_is_missed_once(self, jobs: Rowcall) -> None:
        @jobs.task
        def many() -> None: ...

        with jobs.events(kind="ENQUEUED") as events, jobs.events(kind="ENQUEUED") as others:
            enqueued = many.using(delay=60).enqueue_many([{}] * (3 * ROWS_AT_ONCE + 5))
            jobs.delete(enqueued[ROWS_AT_ONCE + 5])
            for reader in (events, others):
                found = [next(reader).event for _ in enqueued]
                assert found.count("MISSED") == 1
            last = jobs.enqueue("many")
            assert [next(reader).job_id for reader in (events, others)] == [last.id, last.id]

    def test_a_deletion_in_the_callers_transaction(self, jobs: Rowcall) -> None:
        with jobs.events() as events:
            kept = jobs.enqueue("any", delay=60)
            with contextlib.suppress(KeyError), jobs.transaction() as transaction:
                jobs.delete(kept, connection=transaction)
                raise KeyError  # it is rolled back
            assert next(events).job_id == kept.id
            with jobs.transaction() as transaction:
                gone = jobs.enqueue("any", connection=transaction)
                jobs.set_priority(kept, 7, connection=transaction)
                jobs.delete(gone, connection=transaction)
            assert {next(events).event, next(events).event} == {"PRIORITY_CHANGED", "MISSED"}

    def test_a_reader_that_starts_again_says_once_that_it_missed_events(
        self, declared: Rowcall, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = declared
        with jobs.events() as events:
            jobs.enqueue("fine")
            jobs.drain()
            jobs.delete(jobs.enqueue("fine", delay=60))
            with monkeypatch.context() as patched:
                patched.setattr(readers, "KEPT_CHANGES", 0)
                assert next(events).event == "MISSED"
            later = [jobs.enqueue("fine", delay=60).id, jobs.enqueue("fine", delay=60).id]
            assert [next(events).job_id, next(events).job_id] == later

    def test_nothing_is_recorded_while_no_one_reads(self, declared: Rowcall, store: Store) -> None:
        jobs = declared
        job = jobs.enqueue("fine")
        with jobs.events(id=job), jobs.events() as events:
            jobs.drain()
            until(events, "SUCCEEDED")
        assert store.execute(CHANGES) == [(1,)]
        clean(jobs)
        jobs.enqueue("fine")
        jobs.drain()
        assert store.execute(CHANGES) == store.execute(WAITERS) == [(0,)]

    def test_leaving_the_loop_ends_the_reading(self, jobs: Rowcall, store: Store) -> None:
        def first(events: Events) -> JobEvent:
            return next(iter(events))

        def enqueue_until_seen() -> None:
            while not seen.wait(0.05):
                jobs.enqueue("any")

        seen = threading.Event()
        enqueueing = threading.Thread(target=enqueue_until_seen)
        enqueueing.start()
        try:
            assert first(jobs.events()).event == "ENQUEUED"
        finally:
            seen.set()
            enqueueing.join()
        eventually(lambda: store.execute(WAITERS) == [(0,)], message="no reader is registered")

    @pytest.mark.parametrize("end", [Events.close, lambda events: events._stream.queue.close()])
    def test_closing_ends_a_wait(self, jobs: Rowcall, end: Callable[[Events], None]) -> None:
        events = jobs.events()
        threading.Timer(0.1, end, [events]).start()
        assert list(events) == []

    def test_async_code_that_gives_up_waiting_loses_nothing(self, declared: Rowcall) -> None:
        jobs = declared

        async def read() -> list[str]:
            found: list[str] = []
            async with jobs.aevents(queue="default") as events:
                job = await jobs.aenqueue("fine")
                drained = asyncio.create_task(jobs.adrain())
                while "SUCCEEDED" not in found:
                    with contextlib.suppress(TimeoutError):
                        found.append((await asyncio.wait_for(anext(events), 0.002)).event)
                await drained
                assert [one.event for one in await jobs.atimeline(job)] == found
            return [one.event async for one in events]

        assert asyncio.run(read()) == []

    def test_events_of_another_process(self, open_queue: OpenQueue, start_program: StartProgram) -> None:
        jobs = open_queue()
        with jobs.events() as events:
            assert start_program("enqueue", "1").wait() == 0
            start_program("claim")
            found = until(events, "SUCCEEDED")
        assert [one.event for one in found if one.job_id == found[-1].job_id] == [
            *("ENQUEUED", "CLAIMED", "STARTED", "SUCCEEDED")
        ]
