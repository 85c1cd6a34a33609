"""Which jobs a worker claims, in which order, and what it leaves alone."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from tests.worker.support import all_ended, ended, some_heartbeats


class Crowd:
    """Handlers that stay until they are let go, and are counted by kind while they run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.here: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.most_at_once = 0
        self.go = threading.Event()

    def enter(self, kind: str) -> None:
        with self._lock:
            self.here[kind] += 1
            self.most[kind] = max(self.most[kind], self.here[kind])
            self.most_at_once = max(self.most_at_once, self.here.total())

    def leave(self, kind: str) -> None:
        with self._lock:
            self.here[kind] -= 1


def declare_crowd(jobs: Rowcall, crowd: Crowd) -> None:
    @jobs.task
    def in_thread(kind: str) -> None:
        crowd.enter(kind)
        crowd.go.wait()
        crowd.leave(kind)

    @jobs.task
    async def on_loop(kind: str) -> None:
        crowd.enter(kind)
        while not crowd.go.is_set():
            await asyncio.sleep(0.001)
        crowd.leave(kind)


@pytest.mark.parametrize("tasks", [["in_thread"], ["on_loop"], ["in_thread", "on_loop"]])
def test_no_more_run_at_once_than_the_concurrency(jobs: Rowcall, tasks: list[str]) -> None:
    crowd = Crowd()
    declare_crowd(jobs, crowd)
    for number in range(30):
        jobs.enqueue(tasks[number % len(tasks)], {"kind": "one"})
    with jobs.worker(concurrency=4, lease=0.5):
        eventually(lambda: crowd.here.total() == 4)
        some_heartbeats(jobs, 2)
        assert crowd.here.total() == 4
        assert jobs.stats().by_status["running"] == 4
        crowd.go.set()
        all_ended(jobs)
    assert crowd.most_at_once == 4


@pytest.mark.parametrize("task", ["in_thread", "on_loop"])
def test_a_queue_keeps_to_its_limit(jobs: Rowcall, task: str) -> None:
    crowd = Crowd()
    declare_crowd(jobs, crowd)
    for queue in ("mail", "default", "unserved"):
        for _ in range(8):
            jobs.enqueue(task, {"kind": queue}, queue=queue)
    with jobs.worker(concurrency=6, queues="mail=2,default", lease=0.5):
        eventually(lambda: crowd.here == {"mail": 2, "default": 4})
        some_heartbeats(jobs, 2)
        assert crowd.here == {"mail": 2, "default": 4}
        crowd.go.set()
        eventually(lambda: jobs.stats().by_status["succeeded"] == 16)
    assert crowd.most["mail"] == 2
    assert jobs.stats().by_queue["unserved"]["pending"] == 8


def test_the_limit_of_a_queue_holds_for_buffered_jobs_too(jobs: Rowcall) -> None:
    crowd = Crowd()
    crowd.go.set()
    declare_crowd(jobs, crowd)
    for _ in range(400):
        jobs.enqueue("on_loop", {"kind": "mail"}, queue="mail")
    jobs.drain(concurrency=20, queues={"mail": 3})
    assert crowd.most_at_once <= 3
    assert jobs.stats().by_status["succeeded"] == 400


def test_queues_take_turns(jobs: Rowcall) -> None:
    order: list[str] = []

    @jobs.task
    async def from_queue(name: str) -> None:
        order.append(name)

    from_queue.using(queue="flood", priority=100).enqueue_many([{"name": "flood"}] * 2000)
    from_queue.using(queue="brook").enqueue_many([{"name": "brook"}] * 20)
    jobs.drain(concurrency=2)
    last_of_the_few = max(position for position, name in enumerate(order) if name == "brook")
    assert last_of_the_few < 1000
    assert len(order) == 2020


def test_a_flood_that_comes_later_does_not_starve_the_others(jobs: Rowcall) -> None:
    """With one slot, and no buffer, each queue has its turn in every other round."""
    order: list[str] = []

    @jobs.task
    def from_queue(name: str) -> None:
        order.append(name)
        threading.Event().wait(0.002)

    from_queue.using(queue="flood").enqueue_many([{"name": "flood"}] * 60)
    from_queue.using(queue="brook").enqueue_many([{"name": "brook"}] * 6)
    jobs.drain(concurrency=1)
    assert order[:40].count("brook") == 6


def test_higher_priority_runs_first_and_then_the_older(jobs: Rowcall) -> None:
    order: list[tuple[int, int]] = []

    @jobs.task
    def one(priority: int, number: int) -> None:
        order.append((-priority, number))

    @jobs.task
    async def other(priority: int, number: int) -> None:
        order.append((-priority, number))

    for number, priority in enumerate([0, 5, -3, 5, 100, 0, -3, 100, 7]):
        jobs.enqueue(["one", "other"][number % 2], {"priority": priority, "number": number}, priority=priority)
    jobs.drain(concurrency=1)
    assert len(order) == 9
    assert order == sorted(order)


def test_an_unknown_task_is_left_for_workers_that_know_it(
    jobs: Rowcall, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    @jobs.task
    def known(name: str) -> None:
        ran.append(name)

    strangers = [jobs.enqueue("stranger", {"name": str(number)}, priority=10) for number in range(50)]
    behind = known.enqueue("behind")
    with caplog.at_level(logging.WARNING, "rowcall"), jobs.worker(concurrency=2, lease=0.5):
        ended(jobs, behind)
        later = known.enqueue("later")
        strangers.append(jobs.enqueue("stranger", {"name": "late"}))
        ended(jobs, later)
        some_heartbeats(jobs)
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "'stranger'" in warnings[0]
    for job in strangers:
        left = jobs.get(job.id)
        assert (left.status, left.attempt, left.worker, left.error_code) == ("pending", 0, None, None)
    with Rowcall(tmp_path / "queue.db") as others:

        @others.task(name="stranger")
        def no_stranger_here(name: str) -> None:
            ran.append(name)

        assert others.drain(concurrency=1).succeeded == 51
    assert ran == ["behind", "later", *map(str, range(50)), "late"]
