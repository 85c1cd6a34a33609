"""Schedules: each tick is enqueued once, at its time, even if workers race or die or the clock is set."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from rowcall import InvalidOption, Job, Rowcall, ScheduleNotFound, Status
from rowcall.app import queue_of
from rowcall.domain.schedule import CatchUp
from rowcall.operations.schedules import publish_schedules
from rowcall.store.schedules.ticks import TICKS_AT_ONCE
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.store import Store

DAY = timedelta(days=1)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)  # where the clock of the test begins


def ticks(jobs: Rowcall) -> list[datetime]:
    """Claim what is due, and give the times of all ticks so far, first to last."""
    while jobs.claim("hand", limit=100):
        pass
    return sorted(job.run_at for job in jobs.list(limit=1000).jobs)


class TestSchedules:
    def test_a_tick_is_a_job_of_its_time_and_not_before(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.add_schedule(
            "digest", "send", {"to": "ann"}, cron="0 9 * * *", tz="America/New_York", queue="mail", priority=7
        )
        clock.set(NOON + timedelta(hours=2, milliseconds=-1))
        assert jobs.dequeue("hand") is None
        clock.advance(0.001)
        job = jobs.dequeue("hand")
        assert job is not None
        assert (job.type, job.payload, job.queue, job.priority) == ("send", {"to": "ann"}, "mail", 7)
        assert job.run_at == job.created_at == job.claimed_at == NOON + timedelta(hours=2)
        assert [(event.event, event.detail) for event in jobs.timeline(job.id)][1] == ("TICK", "digest")
        assert jobs.dequeue("hand") is None

    def test_the_row_has_the_last_and_next_run(self, jobs: Rowcall, clock: FakeClock) -> None:
        added = jobs.add_schedule("often", "send", every=timedelta(minutes=10))
        assert [added] == jobs.schedules()
        assert (added.next_run_at, added.last_run_at, added.last_job_id) == (NOON + timedelta(minutes=10), None, None)
        clock.advance(601)
        job = jobs.dequeue("hand")
        assert job is not None
        told = jobs.schedules()[0]
        assert (told.next_run_at, told.last_run_at) == (NOON + timedelta(minutes=20), NOON + timedelta(minutes=10))
        assert told.last_job_id == job.id
        assert (told.name, told.task, told.every, told.cron) == ("often", "send", timedelta(minutes=10), None)

    @pytest.mark.parametrize(
        ("catch_up", "days"), [("skip", []), ("one", [10]), ("all", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])]
    )
    def test_what_was_missed_follows_catch_up(
        self, jobs: Rowcall, clock: FakeClock, catch_up: CatchUp, days: list[int]
    ) -> None:
        jobs.add_schedule("daily", "send", cron="0 6 * * *", catch_up=catch_up)
        clock.advance(10 * DAY)  # no worker ran for ten days
        six = NOON - timedelta(hours=6)
        assert ticks(jobs) == [six + day * DAY for day in days]
        clock.set(six + 11 * DAY)
        assert ticks(jobs) == [six + day * DAY for day in [*days, 11]]

    def test_all_of_a_long_time_come_in_turns(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.add_schedule("often", "send", every=60, catch_up="all")
        clock.advance(10 * 3600)
        assert len(jobs.claim("hand", limit=1000)) == TICKS_AT_ONCE
        assert ticks(jobs) == [NOON + timedelta(minutes=minute) for minute in range(1, 601)]

    def test_a_schedule_that_is_behind_does_not_hold_up_the_others(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.add_schedule("often", "send", every=1, catch_up="all")
        jobs.add_schedule("hourly", "rare", cron="0 * * * *")
        clock.advance(3600)
        assert "rare" in {job.type for job in jobs.claim("hand", limit=1000)}

    def test_paused_means_none_and_what_fell_into_the_pause_was_not_missed(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        jobs.add_schedule("daily", "send", cron="0 6 * * *", catch_up="all")
        paused = jobs.pause_schedule("daily", actor="ann")
        assert (paused.paused, paused.paused_by, paused.next_run_at) == (True, "ann", None)
        assert jobs.pause_schedule("daily", actor="bob").paused_by == "ann"  # she had done it
        clock.advance(3 * DAY)
        assert ticks(jobs) == []
        resumed = jobs.resume_schedule("daily", actor="bob")
        assert (resumed.paused, resumed.paused_by) == (False, None)
        assert resumed.next_run_at == NOON + 4 * DAY - timedelta(hours=6)
        assert ticks(jobs) == []
        clock.advance(DAY)
        assert ticks(jobs) == [NOON + 4 * DAY - timedelta(hours=6)]

    def test_a_clock_that_is_set_back_repeats_nothing(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.add_schedule("often", "send", every=60, catch_up="all")
        clock.advance(180)
        assert len(ticks(jobs)) == 3
        clock.jump(-150)
        for _ in range(5):
            clock.advance(30)
            assert len(ticks(jobs)) == 3
        clock.advance(60)
        assert ticks(jobs) == [NOON + timedelta(minutes=minute) for minute in (1, 2, 3, 4)]

    def test_one_more_by_hand(self, jobs: Rowcall, clock: FakeClock) -> None:
        added = jobs.add_schedule("daily", "send", {"to": "ann"}, cron="0 6 * * *", queue="mail")
        jobs.pause_schedule("daily")
        job = jobs.run_schedule_now("daily", actor="bob")
        assert (job.type, job.queue, job.payload, job.run_at) == ("send", "mail", {"to": "ann"}, NOON)
        assert job.status is Status.PENDING
        assert ("RUN_NOW", "bob", "daily") in [
            (event.event, event.actor, event.detail) for event in jobs.timeline(job.id)
        ]
        told = jobs.resume_schedule("daily")
        assert (told.last_run_at, told.last_job_id, told.next_run_at) == (None, job.id, added.next_run_at)

    def test_a_removed_schedule_makes_no_more_jobs(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.add_schedule("often", "send", every=60)
        clock.advance(60)
        assert len(ticks(jobs)) == 1
        jobs.remove_schedule("often")
        clock.advance(3600)
        assert len(ticks(jobs)) == 1
        assert jobs.schedules() == []

    def test_one_that_is_not_there(self, jobs: Rowcall) -> None:
        for act in (jobs.remove_schedule, jobs.run_schedule_now, jobs.pause_schedule, jobs.resume_schedule):
            with pytest.raises(ScheduleNotFound, match="schedule 'daily' does not exist"):
                act("daily")

    def test_a_changed_schedule_takes_effect_from_now_on(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.add_schedule("daily", "send", cron="0 6 * * *", catch_up="all")
        clock.advance(3 * DAY)
        changed = jobs.add_schedule("daily", "send", cron="0 18 * * *", catch_up="all")
        assert changed.next_run_at == NOON + 3 * DAY + timedelta(hours=6)
        assert ticks(jobs) == []

    def test_one_that_is_added_again_keeps_what_was_missed(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.add_schedule("daily", "send", cron="0 6 * * *", catch_up="one")
        clock.advance(3 * DAY)
        jobs.add_schedule("daily", "write", {"to": "bob"}, cron="0 6 * * *", catch_up="all")
        assert ticks(jobs) == [NOON + day * DAY - timedelta(hours=6) for day in (1, 2, 3)]
        assert {job.type for job in jobs.list().jobs} == {"write"}

    def test_a_row_that_makes_no_sense_stops_by_itself(self, jobs: Rowcall, clock: FakeClock, store: Store) -> None:
        for name in ("line", "zone", "options", "sound"):
            jobs.add_schedule(name, "send", cron="0 * * * *")
        store.execute("update rowcall_schedule set cron = 'what?' where name = 'line'")
        store.execute("update rowcall_schedule set zone = 'Nowhere' where name = 'zone'")
        store.execute("update rowcall_schedule set options = '{\"priority\": \"high\"}' where name = 'options'")
        clock.advance(3600)
        assert len(ticks(jobs)) == 1
        told = {schedule.name: schedule for schedule in jobs.schedules()}
        assert told["sound"].problem is None
        assert "'what?' must have 5 fields" in str(told["line"].problem)
        with pytest.raises(InvalidOption, match="got 1"):
            jobs.resume_schedule("line")
        for name in ("line", "zone", "options"):
            assert told[name].problem
            assert told[name].next_run_at is None
        assert jobs.add_schedule("line", "send", cron="0 * * * *").problem is None
        clock.advance(3600)
        assert len(ticks(jobs)) == 3


class TestDeclaredSchedules:
    def test_they_are_written_when_a_worker_starts_and_ticked_by_a_drain(self, jobs: Rowcall, clock: FakeClock) -> None:
        ran: list[str] = []

        @jobs.schedule("0 6 * * *", catch_up="all")
        @jobs.task
        def digest() -> None:
            ran.append("digest")

        assert jobs.schedules() == []
        (unwritten,) = jobs.schedules(unwritten=True)
        assert (unwritten.name, unwritten.cron, unwritten.declaration) == ("digest", "0 6 * * *", "new")
        assert unwritten.next_run_at is None
        assert jobs.drain().total == 0
        assert [schedule.name for schedule in jobs.schedules()] == ["digest"]
        assert jobs.schedules() == jobs.schedules(unwritten=True)
        clock.advance(3 * DAY)
        assert jobs.drain().succeeded == 3
        assert ran == ["digest"] * 3

    def test_the_next_process_continues_where_the_last_one_was(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        def start(line: str | None) -> Rowcall:
            queue = open_queue(clock=clock)
            task = queue.task(name="digest")(lambda: None)
            if line is not None:
                queue.schedule(line, catch_up="all")(task)
            queue.drain()
            return queue

        start("0 6 * * *")
        clock.advance(2 * DAY)
        again = start("0 6 * * *")
        assert len(ticks(again)) == 2
        clock.advance(2 * DAY)
        changed = start("0 18 * * *")
        assert len(ticks(changed)) == 2
        clock.advance(DAY)
        assert len(ticks(changed)) == 3
        clock.advance(DAY)
        undeclared = start(None)
        assert len(ticks(undeclared)) == 4  # it stays until it is removed
        assert [one.declaration for one in undeclared.schedules()] == ["gone"]
        assert [one.declaration for one in changed.schedules()] == ["current"]
        assert [one.declaration for one in open_queue(clock=clock).schedules()] == ["unknown"]
        changed.add_schedule("digest", "digest", cron="0 18 * * *", catch_up="all")
        assert [one.declaration for one in undeclared.schedules()] == [None]
        changed.drain()
        assert [one.declaration for one in changed.schedules()] == ["current"]
        undeclared.remove_schedule("digest")
        clock.advance(DAY)
        assert len(ticks(undeclared)) == 4

    @pytest.mark.parametrize("on_duplicate", ["return", "raise"])
    def test_a_key_keeps_ticks_apart_from_jobs_that_have_not_ended(
        self, jobs: Rowcall, clock: FakeClock, on_duplicate: Literal["return", "raise"]
    ) -> None:
        task = jobs.task(name="digest", key="digest", on_duplicate=on_duplicate)(lambda: None)
        jobs.schedule(every=60, catch_up="all")(task)
        publish_schedules(queue_of(jobs))
        clock.advance(60)
        (running,) = jobs.claim("hand", limit=10)
        assert running.key == "digest"
        clock.advance(120)
        assert jobs.claim("hand", limit=10) == []
        told = jobs.schedules()[0]
        assert (told.last_job_id, told.last_run_at) == (running.id, clock.now())
        again = jobs.run_schedule_now("digest", actor="ann")
        assert (again.id, again.duplicate) == (running.id, True)
        said = [(event.event, event.actor, event.detail) for event in jobs.timeline(running.id)]
        assert ("RUN_NOW", "ann", "digest") in said
        jobs.complete(running)
        clock.advance(60)
        assert [job.run_at for job in jobs.claim("hand", limit=10)] == [clock.now()]

    def test_the_options_of_the_task_are_those_of_its_jobs(self, jobs: Rowcall, clock: FakeClock) -> None:
        options = {
            "queue": "mail",
            "priority": 3,
            "max_attempts": 2,
            "delay": 30,
            "expires_in": 600,
            "tags": ["a", "b"],
        }
        task = jobs.task(name="digest", **options)(lambda: None)  # type: ignore[call-overload]
        jobs.schedule(every=60)(task)
        jobs.schedule(every=60, name="urgent", queue="express", priority=9)(task)
        publish_schedules(queue_of(jobs))
        clock.advance(90)
        urgent, usual = sorted(jobs.claim("hand", limit=10), key=lambda job: job.queue)
        assert (usual.queue, usual.priority, usual.max_attempts, usual.tags) == ("mail", 3, 2, ("a", "b"))
        assert (usual.run_at, usual.expires_at) == (clock.now(), clock.now() + timedelta(seconds=600))
        assert (urgent.queue, urgent.priority, urgent.max_attempts) == ("express", 9, 2)

    def test_a_pause_outlives_a_restart(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        first, second = open_queue(clock=clock), open_queue(clock=clock)
        for queue in (first, second):
            queue.schedule(every=60)(queue.task(name="digest")(lambda: None))
        first.drain()
        first.pause_schedule("digest", actor="ann")
        second.drain()
        assert second.schedules()[0].paused_by == "ann"

    def test_a_worker_that_knows_no_such_task_ticks_for_the_workers_that_do(
        self, open_queue: OpenQueue, clock: FakeClock
    ) -> None:
        jobs, stranger = open_queue(clock=clock), open_queue(clock=clock)
        jobs.add_schedule("often", "send", every=60)
        clock.advance(60)
        assert stranger.drain().total == 0
        assert jobs.list(status="pending").jobs[0].type == "send"


@pytest.mark.concurrency
class TestScheduleRaces:
    def test_many_claimers_enqueue_each_tick_once(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        queues = [open_queue(clock=clock) for _ in range(4)]
        for number in range(5):
            queues[0].add_schedule(f"often-{number}", f"task-{number}", every=60, catch_up="all")

        def claim(queue: Rowcall, together: threading.Barrier) -> list[Job]:
            together.wait()
            found: list[Job] = []
            while claimed := queue.claim("hand", limit=10):
                found += claimed
            return found

        for _ in range(10):
            clock.advance(180)
            together = threading.Barrier(4)
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(claim, queues, [together] * 4))
        ticked = sorted((job.type, job.run_at) for job in queues[0].list(limit=1000).jobs)
        assert ticked == [
            (f"task-{number}", NOON + timedelta(minutes=minute)) for number in range(5) for minute in range(1, 31)
        ]

    def test_a_kill_between_ticks_loses_and_repeats_none(
        self, open_queue: OpenQueue, start_program: StartProgram
    ) -> None:
        jobs = open_queue()
        period = timedelta(milliseconds=100)
        jobs.add_schedule("often", "quick", every=period, catch_up="all")

        def enqueued() -> list[datetime]:
            return sorted(job.run_at for job in jobs.list(limit=1000).jobs)

        workers = [start_program("work"), start_program("work")]
        for _ in range(3):
            seen = len(enqueued())
            eventually(lambda seen=seen: len(enqueued()) > seen + 5, message="more ticks")  # type: ignore[misc]
            workers.pop(0).kill()
            workers.append(start_program("work"))
        seen = len(enqueued())
        eventually(lambda: len(enqueued()) > seen + 5, message="ticks after the last kill")
        jobs.remove_schedule("often")
        found = enqueued()
        assert found == [found[0] + period * number for number in range(len(found))]
