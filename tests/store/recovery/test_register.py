"""A worker is registered when it starts, and removed when it leaves, unless a handler of it still has a slot."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from rowcall import Limit, Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.recovery.register import retire
from tests.conformance.worker_parts import StoreWorker


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as made:
        yield made


def leave(jobs: Rowcall, worker: StoreWorker, running: Collection[tuple[int, int]] = ()) -> bool:
    queue = queue_of(jobs)
    return queue.run(Write(retire, queue.dialect, worker.name, running))


def test_a_worker_without_jobs_is_removed(jobs: Rowcall) -> None:
    worker = StoreWorker(jobs, "web-1", tasks={"send": "0123abcd"}, queues="mail")
    (found,) = jobs.workers()
    assert (found.name, found.queues, found.tasks, found.running) == ("web-1", "mail", ["send"], 0)
    assert leave(jobs, worker)
    assert jobs.workers() == []


def test_a_worker_stays_while_an_abandoned_handler_has_a_slot(jobs: Rowcall) -> None:
    jobs.enqueue("send", limit=Limit("mail", concurrency=1))
    worker = StoreWorker(jobs, "web-1")
    ready = worker.start_one()
    jobs.complete(jobs.get(ready.id))  # its handler does not notice
    assert not leave(jobs, worker, [(ready.id, ready.lease)])
    (found,) = jobs.workers()
    assert (found.queues, found.concurrency, found.heartbeats) == ("", 0, 1)
    assert leave(jobs, worker)
    assert jobs.workers() == []
