"""Limits: how many run at once, how many start in any window, and that no other job waits behind a full one."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from rowcall import Job, JobNotFound, LeaseLost, Limit, Retention, Rowcall, Status
from rowcall.app import queue_of
from rowcall.operations import by_hand
from rowcall.store.statement import Plan
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from rowcall.worker.upkeep.held_jobs import HeldJobs
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.notes import Note, Notes
from tests.conformance.store import Store
from tests.conformance.worker_parts import StoreWorker, watcher

STRIPE = Limit("stripe", concurrency=2, by="customer")


def declare(jobs: Rowcall, *limits: Limit, name: str = "charge") -> None:
    @jobs.task(name=name, limit=list(limits))
    def charge(customer: str = "none", number: int = 0) -> None: ...


def charged(jobs: Iterable[Job]) -> list[object]:
    return [job.payload["customer"] for job in jobs]


def enqueue(jobs: Rowcall, customers: Iterable[str], task: str = "charge") -> list[Job]:
    return [jobs.enqueue(task, {"customer": customer}) for customer in customers]


class TestLimits:
    def test_at_most_so_many_of_one_value_run_at_once(self, jobs: Rowcall) -> None:
        declare(jobs, STRIPE)
        enqueue(jobs, "aaaabbc")
        claimed = jobs.claim("w", limit=10)
        assert charged(claimed) == ["a", "a", "b", "b", "c"]
        assert jobs.claim("w", limit=10) == []

    def test_a_claim_by_hand_is_filled_whatever_the_number_of_keys(self, jobs: Rowcall) -> None:
        @jobs.task(limit=Limit("each", concurrency=1, by="number"))
        def charge(number: int) -> None: ...

        charge.enqueue_many([{"number": number} for number in range(450)])  # no transaction locks this many
        assert len(jobs.claim("w", limit=440)) == 440
        assert len(asyncio.run(jobs.aclaim("w", limit=440))) == 10

    def test_where_rows_disagree_the_strictest_holds(self, open_queue: OpenQueue, clock: FakeClock) -> None:
        lax, strict = open_queue(clock=clock), open_queue(clock=clock)
        for _ in range(3):
            lax.enqueue("call", limit=Limit("at once", concurrency=5))
            strict.enqueue("send", limit=Limit("at once", concurrency=2))
        assert len(lax.claim("w", limit=10)) == 2

    def test_a_full_key_makes_no_job_wait_behind_it(self, jobs: Rowcall) -> None:
        declare(jobs, STRIPE)
        enqueue(jobs, ["a"] * 600)
        enqueue(jobs, "b")
        jobs.enqueue("plain")
        assert charged(jobs.claim("w", limit=2)) == ["a", "a"]
        others = [jobs.dequeue("w") for _ in range(3)]
        assert [job and job.type for job in others] == ["charge", "plain", None]

    def test_a_freed_slot_goes_to_the_first_in_turn(self, jobs: Rowcall) -> None:
        declare(jobs, STRIPE)
        first, second, third, _ = enqueue(jobs, "aaaa")
        urgent = jobs.enqueue("charge", {"customer": "a"}, priority=5)
        one, two = jobs.claim("w", limit=2)
        assert (one.id, two.id) == (urgent.id, first.id)
        assert jobs.dequeue("w") is None
        jobs.complete(one)
        assert [job.id for job in jobs.claim("w", limit=9)] == [second.id]
        jobs.fail(two, "OUCH:OUCH")
        assert [job.id for job in jobs.claim("w", limit=9)] == [third.id]

    @pytest.mark.parametrize("end", ["complete", "fail", "release", "lease"])
    def test_however_an_attempt_ends_its_slot_is_freed(self, jobs: Rowcall, clock: FakeClock, end: str) -> None:
        declare(jobs, Limit("one", concurrency=1))
        first, second = enqueue(jobs, "ab")
        running = jobs.dequeue("w", lease=60)
        assert running is not None
        assert jobs.dequeue("w") is None
        match end:
            case "complete":
                jobs.complete(running)
            case "fail":
                jobs.fail(running, "OUCH:OUCH")
            case "release":
                jobs.release(running)
            case "lease":
                clock.advance(61)
        again = jobs.dequeue("w")
        assert again is not None
        assert again.id == (first.id if end in ("release", "lease") else second.id)
        assert jobs.dequeue("w") is None

    def test_an_attempt_that_was_lost_gives_nothing_back(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("one", concurrency=1))
        enqueue(jobs, "ab")
        lost = jobs.dequeue("w", lease=60)
        clock.advance(61)
        assert jobs.dequeue("other") is not None
        assert lost is not None
        with pytest.raises(LeaseLost):
            jobs.complete(lost)
        assert jobs.dequeue("other") is None

    def test_a_lost_worker_s_slots_are_freed(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("one", concurrency=1))
        enqueue(jobs, "ab")
        StoreWorker(jobs, "doomed").start_one()
        watch = watcher(jobs)
        watch.check()
        assert jobs.dequeue("w") is None
        clock.advance(16)
        watch.check()
        assert jobs.dequeue("w") is not None
        assert jobs.dequeue("w") is None

    def test_jobs_that_wait_are_pending_and_say_why(self, jobs: Rowcall) -> None:
        declare(jobs, STRIPE)
        ids = [job.id for job in enqueue(jobs, "aaa")]
        jobs.claim("w", limit=3)
        assert [job.id for job in jobs.list(status="pending").jobs] == [ids[2]]
        assert jobs.stats().by_status["pending"] == 1
        (held,) = [event for event in jobs.timeline(ids[2]) if event.event == "HELD"]
        assert held.detail == 'by limit ["stripe","a"]'
        assert not [event for event in jobs.timeline(ids[0]) if event.event == "HELD"]

    def test_a_held_job_can_be_cancelled_retried_and_deleted(self, jobs: Rowcall) -> None:
        declare(jobs, Limit("one", concurrency=1))
        _, second, third = enqueue(jobs, "abc")
        running = jobs.dequeue("w")
        assert running is not None
        assert jobs.dequeue("w") is None
        jobs.cancel(second.id)
        jobs.delete(third.id)
        jobs.complete(running)
        assert jobs.dequeue("w") is None
        jobs.retry(second.id)
        again = jobs.dequeue("w")
        assert again is not None
        assert again.id == second.id
        with pytest.raises(JobNotFound):
            jobs.get(third.id)

    def test_a_held_job_expires(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("one", concurrency=1))
        jobs.enqueue("charge")
        expiring = jobs.enqueue("charge", expires_in=60)
        assert len(jobs.claim("w", limit=2)) == 1
        clock.advance(61)
        jobs.claim("w")
        assert jobs.get(expiring.id).status is Status.CANCELLED

    def test_tasks_share_a_limit_by_its_name_and_a_queue_has_its_own(self, jobs: Rowcall) -> None:
        declare(jobs, Limit("shared", concurrency=3), name="charge")
        declare(jobs, Limit("shared", concurrency=3), name="refund")
        jobs.limit_queue("mail", Limit("mail", concurrency=2))
        enqueue(jobs, "ab", "charge")
        enqueue(jobs, "ab", "refund")
        assert len(jobs.claim("w", limit=9)) == 3
        for _ in range(4):
            jobs.enqueue("letter", queue="mail")
        assert len(jobs.claim("w", limit=9)) == 2

    def test_a_job_under_two_limits_uses_both_slots_or_none(self, jobs: Rowcall) -> None:
        declare(jobs, Limit("all", concurrency=3), Limit("each", concurrency=1, by="customer"))
        enqueue(jobs, "aabbccdd")
        claimed = jobs.claim("w", limit=9)
        assert charged(claimed) == ["a", "b", "c"]
        done = []
        while claimed:
            done += claimed
            for job in claimed:
                jobs.complete(job)
            claimed = jobs.claim("w", limit=9)
            assert len(claimed) <= 3
            assert max(Counter(charged(claimed)).values(), default=0) <= 1
        assert sorted(charged(done)) == list("aabbccdd")  # type: ignore[type-var]

    def test_a_batch_takes_no_more_than_its_limit_allows(self, jobs: Rowcall) -> None:
        sizes: list[int] = []

        @jobs.task(batch=10, limit=Limit("pairs", concurrency=2, by="item"))
        def squares(items: list[int]) -> list[int]:
            sizes.append(len(items))
            assert max(Counter(items).values()) <= 2
            return items

        squares.enqueue_many([{"item": number % 2} for number in range(12)])
        assert jobs.drain().succeeded == 12
        assert max(sizes) <= 4

    def test_options_of_one_enqueue(self, jobs: Rowcall) -> None:
        @jobs.task(limit=Limit("one", concurrency=1))
        def alone(number: int = 0) -> None: ...

        other = Limit("other", concurrency=1)
        alone.enqueue()
        alone.using(limit=[]).enqueue_many([{}, {}])
        alone.using(limit=other).enqueue_many([{}, {}])
        jobs.enqueue("unknown", limit=other)
        assert len(jobs.claim("w", limit=9)) == 4
        assert len(jobs.claim("w", limit=9)) == 0

    def test_who_did_not_know_the_limit_is_limited_anyway(self, jobs: Rowcall, store: Store) -> None:
        jobs.migrate()
        for _ in range(3):
            store.execute("""insert into rowcall_job (type, payload) values ('charge', '{"customer": "a"}')""")
        store.execute("insert into rowcall_job (type, payload, limits) values ('charge', '{}', 'nonsense')")
        declare(jobs, STRIPE)
        enqueue(jobs, "ab")
        assert sorted(job.payload.get("customer", "none") for job in jobs.claim("w", limit=9)) == [  # type: ignore[type-var]
            "a",
            "a",
            "b",
            "none",
        ]

    def test_an_argument_that_is_not_given_counts_as_its_default(self, jobs: Rowcall) -> None:
        declare(jobs, STRIPE)
        enqueue(jobs, ["none"])
        for _ in range(2):
            jobs.enqueue("charge")
        assert len(jobs.claim("w", limit=9)) == 2

    def test_a_large_payload_counts_by_its_value(self, jobs: Rowcall) -> None:
        @jobs.task(limit=STRIPE)
        def charge(customer: str, text: str) -> None: ...

        for customer in "aaab":
            charge.enqueue(customer, "x" * 300_000)
        charge.enqueue_many([{"customer": "b", "text": "y" * 300_000}] * 2)
        assert sorted(charged(jobs.claim("w", limit=9))) == ["a", "a", "b", "b"]  # type: ignore[type-var]

    def test_a_limit_that_is_changed_rules_at_once_everywhere(self, jobs: Rowcall, open_queue: OpenQueue) -> None:
        clock = queue_of(jobs).clock
        declare(jobs, Limit("one", concurrency=4))
        enqueue(jobs, "abcdefghij")
        claimed = jobs.claim("w", limit=4)
        lowered, raised = open_queue(clock=clock), open_queue(clock=clock)
        declare(lowered, Limit("one", concurrency=2))
        lowered.drain()
        for left in (3, 2):
            jobs.complete(claimed.pop())
            assert jobs.claim("w", limit=9) == []
            assert len(claimed) == left
        jobs.complete(claimed.pop())
        assert len(jobs.claim("w", limit=9)) == 1
        declare(raised, Limit("one", concurrency=5))
        with raised.worker(queues=["nothing"]):  # it runs none of them, and publishes the limit
            eventually(lambda: jobs.claim("w", limit=9))
        assert jobs.stats().by_status["running"] == 5

    def test_pruned_jobs_leave_nothing(self, store: Store, open_queue: OpenQueue, clock: FakeClock) -> None:
        jobs = open_queue(clock=clock, retention=Retention(succeeded=10))
        declare(jobs, STRIPE)
        enqueue(jobs, "abab")
        assert jobs.drain().succeeded == 4
        clock.advance(11)
        assert jobs.prune().jobs == 4
        assert store.execute("select * from rowcall_slot") == []

    def test_random_histories_never_exceed_it_and_end(self, jobs: Rowcall, clock: FakeClock, store: Store) -> None:
        """Claims of several, ends of every kind, leases that run out; what counts is what the rows say."""
        chance = random.Random(6)
        jobs.migrate()
        declare(jobs, Limit("all", concurrency=5), STRIPE)
        declare(jobs, Limit("all", concurrency=5), name="refund")
        claimed: list[Job] = []
        for _ in range(150):
            match chance.randrange(5):
                case 0:
                    enqueue(jobs, chance.choices("abc", k=3), chance.choice(["charge", "refund"]))
                case 1 | 2:
                    claimed += jobs.claim("w", limit=chance.randrange(1, 5), lease=60)
                case 3 if claimed:
                    self._end(jobs, claimed.pop(chance.randrange(len(claimed))), chance)
                case 4:
                    clock.advance(chance.choice([1, 10, 40]))
            self._within(store)
        while any(jobs.stats().by_status[status] for status in ("scheduled", "pending", "running")):
            clock.advance(61)
            for job in jobs.claim("w", limit=5, lease=60):
                jobs.complete(job)
            self._within(store)
        assert store.execute("select * from rowcall_slot") == []

    def _end(self, jobs: Rowcall, job: Job, chance: random.Random) -> None:
        try:
            match chance.randrange(3):
                case 0:
                    jobs.complete(job)
                case 1:
                    jobs.release(job)
                case 2:
                    jobs.fail(job, "OUCH:OUCH")
        except LeaseLost:
            pass

    def _within(self, store: Store) -> None:
        running = store.execute("select type, payload from rowcall_jobs where status = 'running'")
        assert len(running) <= 5
        customers = Counter(str(payload) for kind, payload in running if kind == "charge")
        assert max(customers.values(), default=0) <= 2


class TestRateLimits:
    def test_so_many_start_within_a_period_and_then_as_many_more(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("api", rate=3, per=10))
        enqueue(jobs, "abcdefgh")
        assert len(jobs.claim("w", limit=9)) == 3
        clock.advance(9)
        assert jobs.claim("w", limit=9) == []
        clock.advance(1.3)
        assert len(jobs.claim("w", limit=2)) == 2
        assert len(jobs.claim("w", limit=2)) == 1
        clock.advance(10.3)
        assert jobs.drain().succeeded == 2
        assert jobs.drain().total == 0

    def test_a_start_that_was_rolled_back_does_not_count(self, jobs: Rowcall) -> None:
        declare(jobs, Limit("api", rate=1, per=10))
        enqueue(jobs, "a")
        right = by_hand._claim_some

        def interrupted(*arguments: Any) -> Plan[object]:
            yield from right(*arguments)
            raise RuntimeError("after the claim, and before its commit")

        with mock.patch.object(by_hand, "_claim_some", interrupted), pytest.raises(RuntimeError):
            jobs.claim("w")
        assert len(jobs.claim("w")) == 1

    def test_the_rate_of_a_queue_whose_claims_are_all_by_hand(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.limit_queue("default", Limit("mail", rate=3, per=10))
        for _ in range(9):
            jobs.enqueue("charge")
        for _ in range(3):
            assert len(jobs.claim("w", limit=9)) == 3
            assert jobs.claim("w", limit=9) == []
            clock.advance(10.3)

    def test_each_value_has_its_own_rate(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("api", rate=1, per=10, by="customer"))
        enqueue(jobs, "aabbc")
        jobs.enqueue("plain")
        assert sorted(job.type for job in jobs.claim("w", limit=9)) == ["charge"] * 3 + ["plain"]
        clock.advance(10.3)
        assert sorted(charged(jobs.claim("w", limit=9))) == ["a", "b"]  # type: ignore[type-var]

    def test_every_attempt_is_a_start(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("api", rate=1, per=10))
        enqueue(jobs, "a")
        for _ in range(3):
            job = jobs.dequeue("w")
            assert job is not None
            jobs.release(job)
            assert jobs.dequeue("w") is None
            clock.advance(10.3)

    def test_both_limits_of_one(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("both", concurrency=1, rate=2, per=10))
        enqueue(jobs, "abc")
        one = jobs.dequeue("w")
        assert one is not None
        assert jobs.dequeue("w") is None
        jobs.complete(one)
        two = jobs.dequeue("w")
        assert two is not None
        jobs.complete(two)
        assert jobs.dequeue("w") is None
        clock.advance(10.3)
        assert jobs.dequeue("w") is not None

    def test_a_rate_that_was_lowered_and_raised_again_has_forgotten_nothing(
        self, jobs: Rowcall, open_queue: OpenQueue, clock: FakeClock
    ) -> None:
        lowered, raised = open_queue(clock=clock), open_queue(clock=clock)
        declare(jobs, Limit("api", rate=6, per=10))
        declare(lowered, Limit("api", rate=1, per=10))
        declare(raised, Limit("api", rate=6, per=10))
        enqueue(jobs, "a" * 20)
        clock.advance(5)
        assert len(jobs.claim("w", limit=3)) == 3
        clock.advance(8)
        assert len(jobs.claim("w", limit=3)) == 3
        lowered.drain()
        clock.advance(3)
        assert jobs.claim("w", limit=9) == []
        assert raised.drain().succeeded == 3

    def test_a_clock_that_is_set_back_does_not_stop_it_for_long(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("api", rate=2, per=10))
        enqueue(jobs, "abcd")
        assert len(jobs.claim("w", limit=9)) == 2
        clock.jump(timedelta(hours=-5))
        jobs.enqueue("charge")
        assert jobs.claim("w", limit=9) == []
        clock.advance(10.3)
        assert len(jobs.claim("w", limit=9)) >= 1

    def test_a_check_by_an_older_time_leaves_the_starts_alone(self, jobs: Rowcall, clock: FakeClock) -> None:
        """As of a process that was stopped between two reads, while others have started jobs."""
        declare(jobs, Limit("api", rate=2, per=10))
        enqueue(jobs, "abcd")
        assert len(jobs.claim("w", limit=9)) == 2
        clock.jump(timedelta(minutes=-1))
        assert HeldJobs(queue_of(jobs)).check_all() == 0
        clock.jump(timedelta(minutes=1))
        jobs.enqueue("charge")
        assert jobs.claim("w", limit=9) == []

    def test_no_window_ever_has_more(self, open_queue: OpenQueue, clock: FakeClock, store: Store) -> None:
        """Random claims, ends, pruning, tidying and a rate that is changed, against the times of the starts."""
        chance = random.Random(60)
        jobs = open_queue(clock=clock, retention=Retention(succeeded=5))
        declare(jobs, Limit("api", rate=4, per=10))
        narrow = open_queue(clock=clock)
        declare(narrow, Limit("api", rate=2, per=10))
        narrowed_at = float("inf")
        starts: list[float] = []
        for step in range(200):
            if step == 120:
                narrow.drain()
                starts += [clock.monotonic()] * (self._started(store) - len(starts))
                narrowed_at = clock.monotonic()
            enqueue(jobs, "a" * chance.randrange(2))
            for job in jobs.claim("w", limit=chance.randrange(1, 4), lease=chance.choice([1, 100])):
                starts.append(clock.monotonic())
                self._window(starts, clock.monotonic(), narrowed_at)
                if chance.random() < 0.8:
                    jobs.complete(job)
            if chance.random() < 0.1:
                jobs.prune()
            clock.advance(chance.choice([0, 0.3, 1, 2.7]))
        assert len(starts) > 30

    def _started(self, store: Store) -> int:
        return sum(int(str(row[0])) for row in store.execute("select coalesce(max(number), 0) from rowcall_start"))

    def _window(self, starts: list[float], now: float, narrowed_at: float) -> None:
        within = [at for at in starts if at > now - 10]
        assert len(within) <= (2 if now > narrowed_at + 10 else 4)

    def test_a_worker_continues_by_itself_when_the_period_is_over(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()
        done = threading.Event()
        numbers: list[int] = []

        @jobs.task(limit=Limit("api", rate=2, per=0.2))
        def call(number: int) -> None:
            numbers.append(number)
            if len(numbers) == 6:
                done.set()

        call.enqueue_many([{"number": number} for number in range(6)])
        with jobs.worker():
            assert done.wait(20)
        assert sorted(numbers) == list(range(6))


@pytest.mark.concurrency
class TestLimitsOfThreads:
    def test_many_claimers_never_exceed_it_at_any_moment(self, open_queue: OpenQueue, store: Store) -> None:
        """Seen from the claimers' own counts, and from the rows at one moment after the other."""
        jobs = open_queue()
        declare(jobs, Limit("all", concurrency=4), STRIPE)
        enqueue(jobs, random.Random(3).choices("abc", k=60))
        running: Counter[object] = Counter()
        lock = threading.Lock()
        too_many: list[object] = []

        def work(seed: int) -> None:
            chance, mine = random.Random(seed), open_queue()
            declare(mine, Limit("all", concurrency=4), STRIPE)
            while mine.stats().by_status["succeeded"] < 60:
                claimed = mine.claim(f"w{seed}", limit=chance.randrange(1, 4))
                with lock:
                    running.update(charged(claimed))
                    too_many.extend(running.total() > 4 or max(running.values(), default=0) > 2 for _ in claimed)
                for job in claimed:
                    with lock:
                        running.subtract(charged([job]))
                    if chance.random() < 0.2:
                        mine.release(job)
                    else:
                        mine.complete(job)

        threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            rows = store.execute("select payload from rowcall_jobs where status = 'running'")
            too_many.append(len(rows) > 4 or max(Counter(map(str, rows)).values(), default=0) > 2)
        assert not any(too_many)
        assert len(too_many) > 60
        assert store.execute("select * from rowcall_slot") == []
        assert store.execute("select * from rowcall_job where held is not null") == []

    def test_many_claimers_start_as_many_as_the_rate_allows_and_no_more(
        self, open_queue: OpenQueue, clock: FakeClock
    ) -> None:
        limit = Limit("api", rate=10, per=10)
        jobs = open_queue(clock=clock)
        declare(jobs, limit)
        enqueue(jobs, "a" * 60)
        for _ in range(3):
            claimed: list[Job] = []

            def work(claimed: list[Job] = claimed) -> None:
                mine = open_queue(clock=clock)
                declare(mine, limit)
                while found := mine.claim("w", limit=2):
                    claimed += found

            threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(claimed) == 10
            clock.advance(11)


@pytest.mark.concurrency
class TestLimitsOfProcesses:
    def test_one_at_a_time_among_four_workers_of_which_two_are_killed(
        self, open_queue: OpenQueue, start_program: StartProgram, notes: Notes
    ) -> None:
        jobs = open_queue()
        jobs.migrate()
        ids = [jobs.enqueue("alone", {"key": "k"}, max_attempts=20).id for _ in range(60)]
        workers = [start_program("work", "--concurrency", "2") for _ in range(4)]
        killed = []
        for done in (15, 30):
            eventually(lambda done=done: len(notes.read("ended")) >= done, message="some progress")  # type: ignore[misc]
            killed.append(workers.pop())
            killed[-1].kill()
        eventually(lambda: jobs.stats().by_status["succeeded"] == len(ids), within=40, message="all succeeded")
        self._one_at_a_time(notes.read(), {worker.pid for worker in killed})

    def _one_at_a_time(self, noted: list[Note], killed: set[int | None]) -> None:
        running: Note | None = None
        for note in noted:
            if note.event == "started":
                assert running is None or running.pid in killed, (running, note)
                running = note
            elif note.event == "ended":
                running = None
