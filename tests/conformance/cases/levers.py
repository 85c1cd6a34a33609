"""Levers: limits that people change while jobs run, for all workers at once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rowcall import InvalidOption, Limit, LimitNotFound, Rowcall
from rowcall.app import queue_of
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.cases.limits import declare, enqueue
from tests.conformance.fixtures import OpenQueue

WRONG_NUMBERS: list[tuple[dict[str, Any], str]] = [
    ({}, r"limit needs concurrency=…, or rate=… and per=…"),
    ({"concurrency": 0}, "concurrency must be a whole number from 1 to 1000000, got 0"),
    ({"concurrency": 2.5}, "concurrency must be a whole number"),
    ({"rate": -1, "per": 1}, "rate must be a whole number"),
    ({"rate": 5}, "rate and per must be given together"),
    ({"per": 0}, "per must be a duration"),
    ({"concurrency": 1, "actor": 3}, "actor must be a text, got 3"),
]


class TestLevers:
    def test_numbers_that_are_set_replace_those_of_code_and_rows(
        self, jobs: Rowcall, open_queue: OpenQueue, clock: FakeClock
    ) -> None:
        other = open_queue(clock=clock)  # does not declare it: the rows have the old numbers
        declare(jobs, Limit("one", concurrency=2))
        enqueue(jobs, "abcdefgh")
        claimed = other.claim("w", limit=9)
        assert len(claimed) == 2
        raised = jobs.set_limit("one", concurrency=4, actor="ann")
        assert (raised.concurrency, raised.declared_concurrency, raised.changed_by) == (4, 2, "ann")
        claimed += other.claim("w", limit=9)
        assert len(claimed) == 4
        other.set_limit("one", concurrency=1)
        for _ in range(3):
            jobs.complete(claimed.pop())
            assert jobs.claim("w", limit=9) == []
        jobs.complete(claimed.pop())
        assert len(jobs.claim("w", limit=9)) == 1
        assert jobs.reset_limit("one")
        assert not jobs.reset_limit("one")
        assert len(jobs.claim("w", limit=9)) == 1

    def test_a_worker_that_starts_later_does_not_undo_it(self, jobs: Rowcall) -> None:
        declare(jobs, Limit("one", concurrency=9))
        jobs.set_limit("one", concurrency=1)
        with jobs.worker(queues=["nothing"]):
            eventually(jobs.workers)
        (limit,) = jobs.limits()
        assert (limit.concurrency, limit.declared_concurrency, limit.is_set) == (1, 9, True)

    def test_a_rate_is_changed_and_what_is_not_given_stays(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("api", rate=2, per=10))
        enqueue(jobs, "abcdefgh")
        assert len(jobs.claim("w", limit=9)) == 2
        changed = jobs.set_limit("api", rate=5)
        assert (changed.rate, changed.per, changed.started, changed.waiting) == (5, 10.0, 2, 6)
        assert len(jobs.claim("w", limit=9)) == 3
        jobs.set_limit("api", rate=1, per=20)
        clock.advance(15)
        assert jobs.claim("w", limit=9) == []
        clock.advance(6)
        assert len(jobs.claim("w", limit=9)) == 1

    def test_each_limit_says_what_it_uses_and_who_waits(self, jobs: Rowcall, clock: FakeClock) -> None:
        declare(jobs, Limit("stripe", concurrency=2, by="customer"))
        began = clock.now()
        enqueue(jobs, "aaaab")
        jobs.claim("w", limit=9)
        (limit,) = asyncio.run(jobs.alimits())
        assert (limit.running, limit.waiting, limit.since) == (3, 2, began)
        assert [(one.value, one.running, one.waiting) for one in limit.by_key] == [("a", 2, 2), ("b", 1, 0)]

    def test_changes_are_noted(self, jobs: Rowcall) -> None:
        declare(jobs, Limit("one", concurrency=2))
        asyncio.run(jobs.aset_limit("one", concurrency=3, actor="ann"))
        asyncio.run(jobs.areset_limit("one", actor="bob"))
        found = [(one.event, one.limit, one.actor, one.detail) for one in jobs.limit_changes()]
        assert found == [
            ("LIMIT_RESET", "one", "bob", "2 at once; before: 3 at once"),
            ("LIMIT_SET", "one", "ann", "3 at once; before: 2 at once"),
        ]
        assert len(asyncio.run(jobs.alimit_changes(limit=1))) == 1

    def test_a_limit_of_one_enqueue_is_known_by_its_jobs(self, jobs: Rowcall, open_queue: OpenQueue) -> None:
        other = open_queue(clock=queue_of(jobs).clock)
        for _ in range(3):
            jobs.enqueue("send", limit=Limit("ad hoc", concurrency=1))
        with pytest.raises(LimitNotFound, match="limit 'ad hoc' does not exist"):
            other.set_limit("ad hoc", concurrency=3)
        assert len(jobs.claim("w", limit=9)) == 1
        assert other.set_limit("ad hoc", rate=8, per=60).concurrency == 1
        with pytest.raises(LimitNotFound, match=r"limit 'adhoc' does not exist \(did you mean 'ad hoc'\?\)"):
            other.reset_limit("adhoc")

    @pytest.mark.parametrize(("numbers", "problem"), WRONG_NUMBERS)
    def test_wrong_numbers_change_nothing(self, jobs: Rowcall, numbers: dict[str, Any], problem: str) -> None:
        declare(jobs, Limit("one", concurrency=2))
        with pytest.raises(InvalidOption, match=problem):
            jobs.set_limit("one", **numbers)
        for name in ("", "x" * 101, "nul\0", 7):
            with pytest.raises(InvalidOption, match="limit: the name must"):
                jobs.set_limit(name, concurrency=1)  # type: ignore[arg-type]
        assert [(one.is_set, one.changed_at) for one in jobs.limits()] == [(False, None)]
        assert jobs.limit_changes() == []

    def test_lowered_under_load_no_more_run_than_the_new_number(self, jobs: Rowcall, open_queue: OpenQueue) -> None:
        """Two workers with jobs in slots and buffers. Jobs in a buffer were claimed under the former number."""
        first, second, shared = open_queue(), open_queue(), Shared()
        for queue in (first, second):
            declare_shared(queue, shared)
        enqueue(first, ["x"] * 400)
        with first.worker(concurrency=8), second.worker(concurrency=8), shared.opened_at_the_end():
            eventually(lambda: shared.most >= 10, message="both workers to be busy")
            jobs.set_limit("one", concurrency=2)
            shared.may_end.set()
            eventually(lambda: jobs.limits()[0].running <= 2, message="the new number to hold")
            shared.restart()
            eventually(lambda: shared.calls >= 30, message="jobs to start again")
            assert shared.most <= 2
            shared.may_end.clear()
            jobs.set_limit("one", concurrency=40)
            eventually(lambda: shared.most >= 10, message="all held jobs to start again")


class Shared:
    """Counts handlers that run at the same moment in all workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.running = self.most = self.calls = 0
        self.may_end = threading.Event()

    def run(self) -> None:
        """Run until handlers may end, and a little longer, so that others run at the same moment."""
        self.count(1)
        self.may_end.wait(60)
        threading.Event().wait(0.02)
        self.count(-1)

    @contextlib.contextmanager
    def opened_at_the_end(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.may_end.set()

    def restart(self) -> None:
        with self._lock:
            self.most, self.calls = self.running, 0

    def count(self, change: int) -> None:
        with self._lock:
            self.running += change
            self.calls += change > 0
            self.most = max(self.most, self.running)


def declare_shared(jobs: Rowcall, shared: Shared) -> None:
    @jobs.task(limit=Limit("one", concurrency=40))
    def charge(customer: str) -> None:
        shared.run()
