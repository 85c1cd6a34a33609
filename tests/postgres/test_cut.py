"""Connections are cut by `pg_terminate_backend`: while they are idle, during a drain, and in the middle of a call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from rowcall import Job, Rowcall, StoreUnavailable
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of
from tests.postgres.support import ATTEMPTS, PostgresSite, ask, pid_of
from tests.worker.support import ended

pytestmark = pytest.mark.concurrency

JOBS = 2000
THREADS = 8
EACH = 50
NOTHING_WRITTEN = "Nothing was written"

Outcome = Job | StoreUnavailable


def test_one_that_was_idle_is_replaced_without_a_word(
    site: PostgresSite, jobs: Rowcall, server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task
    def note(text: str) -> None: ...

    def use_many_at_once(threads: ThreadPoolExecutor) -> None:
        together = threading.Barrier(4)

        def read() -> int:
            together.wait(20)
            return jobs.stats().total

        for future in [threads.submit(read) for _ in range(4)]:
            future.result(20)

    calls: list[Callable[[], object]] = [
        lambda: note.enqueue("one"),
        lambda: note.enqueue_many([{"text": "two"}, {"text": "three"}]),
        lambda: asyncio.run(note.aenqueue("four")),
        lambda: asyncio.run(note.aenqueue_many([{"text": "five"}])),
        lambda: jobs.get(1),
        lambda: asyncio.run(jobs.alist()),
        lambda: jobs.complete(jobs.claim("me")[0]),
        lambda: jobs.cancel(1),
        jobs.drain,
    ]
    with ThreadPoolExecutor(4) as threads:
        for call in calls:
            use_many_at_once(threads)
            note.using(queue="kept", delay=600).enqueue("so that the writer has a connection")
            assert server.terminate_connections(database_of(site.url)) >= 2
            call()
    assert caplog.records == []
    assert jobs.stats().by_status["succeeded"] == 5


@pytest.mark.crash
def test_an_idle_worker_process_continues(site: PostgresSite, jobs: Rowcall, server: PostgresServer) -> None:
    with site.worker(lease=600):
        for number in range(3):
            assert server.terminate_connections(database_of(site.url)) >= 2
            assert ended(jobs, jobs.enqueue("note", {"text": str(number)})).status == "succeeded"


@pytest.mark.crash
def test_a_drain_continues(site: PostgresSite, jobs: Rowcall, server: PostgresServer) -> None:
    ran: Counter[int] = Counter()

    @jobs.task
    def count(number: int) -> None:
        ran[number] += 1
        if number % (JOBS // 10) == 0:
            server.terminate_connections(database_of(site.url))

    count.enqueue_many([{"number": number} for number in range(JOBS)])
    assert jobs.drain(concurrency=4).succeeded == JOBS
    assert ran == Counter(range(JOBS))
    tried = ask(site.url, ATTEMPTS)
    assert Counter((attempt, status, pid_of(worker)) for _, attempt, status, worker in tried) == {
        (1, "succeeded", os.getpid()): JOBS
    }


@pytest.mark.crash
def test_an_attempt_does_not_end_the_job_that_was_given_its_id(
    site: PostgresSite, jobs: Rowcall, server: PostgresServer
) -> None:
    """A standby that lagged has neither the job nor its claim, and its id becomes that of another job."""
    begun, may_end = ({text: threading.Event() for text in ("old", "new")} for _ in range(2))

    @jobs.task
    def wait(text: str) -> str:
        begun[text].set()
        assert may_end[text].wait(20)
        return text

    @jobs.task
    def note(text: str) -> None: ...

    with jobs.worker(concurrency=3, lease=600):
        old = wait.enqueue("old")
        assert begun["old"].wait(20)
        with psycopg.connect(site.url) as lagging:
            lagging.execute("delete from rowcall_claim")
            lagging.execute("delete from rowcall_job")
            lagging.execute("select setval(pg_get_serial_sequence('rowcall_job', 'id'), %s, false)", [old.id])
        assert server.terminate_connections(database_of(site.url)) >= 2
        new = wait.enqueue("new")
        assert new.id == old.id
        assert begun["new"].wait(20)
        may_end["old"].set()
        for number in range(3):  # later rounds, which settle
            assert ended(jobs, jobs.enqueue("note", {"text": str(number)})).status == "succeeded"
        assert jobs.get(new).status == "running"
        may_end["new"].set()
        assert ended(jobs, new).result == "new"


@contextlib.contextmanager
def cutting(server: PostgresServer, url: str) -> Iterator[None]:
    """All connections to the database are cut, again and again."""
    over = threading.Event()

    def cut() -> None:
        while not over.wait(0.005):
            server.terminate_connections(database_of(url))

    with ThreadPoolExecutor(1) as threads:
        cutter = threads.submit(cut)
        try:
            yield
        finally:
            over.set()
            cutter.result(20)


def test_enqueues_of_many_threads(site: PostgresSite, jobs: Rowcall, server: PostgresServer) -> None:
    def enqueue_some(first: int) -> list[tuple[int, Outcome]]:
        return [(number, enqueue_one(number)) for number in range(first, first + EACH)]

    def enqueue_one(number: int) -> Outcome:
        try:
            return jobs.enqueue("task", {"number": number})
        except StoreUnavailable as error:
            return error

    with cutting(server, site.url), ThreadPoolExecutor(THREADS) as threads:
        futures = [threads.submit(enqueue_some, thread * EACH) for thread in range(THREADS)]
        outcomes = [outcome for future in futures for outcome in future.result(60)]
    check_written(site, dict(outcomes))
    assert jobs.enqueue("task", {"number": -1}).id


def test_enqueues_of_many_tasks(site: PostgresSite, jobs: Rowcall, server: PostgresServer) -> None:
    async def enqueue_some(first: int) -> list[tuple[int, Outcome]]:
        return [(number, await enqueue_one(number)) for number in range(first, first + EACH // 10)]

    async def enqueue_one(number: int) -> Outcome:
        try:
            return await jobs.aenqueue("task", {"number": number})
        except StoreUnavailable as error:
            return error

    async def enqueue_all() -> list[tuple[int, Outcome]]:
        some = (enqueue_some(task * (EACH // 10)) for task in range(THREADS * 10))
        return [outcome for outcomes in await asyncio.gather(*some) for outcome in outcomes]

    with cutting(server, site.url):
        outcomes = asyncio.run(asyncio.wait_for(enqueue_all(), 60))
    check_written(site, dict(outcomes))
    assert asyncio.run(jobs.aenqueue("task", {"number": -1})).id


def test_many_at_once(site: PostgresSite, jobs: Rowcall, server: PostgresServer) -> None:
    """All of a call, or nothing: a call that raised may be there as a whole."""

    @jobs.task
    def task(number: int) -> None: ...

    written: dict[int, bool] = {}
    with cutting(server, site.url):
        for number in range(20):
            try:
                written[number] = len(task.enqueue_many([{"number": number}] * 100)) == 100
            except StoreUnavailable:
                written[number] = False
    found = Counter(number for (number,) in ask(site.url, "select (payload ->> 'number')::int from rowcall_job"))
    assert set(found.values()) <= {100}
    assert {number for number, is_written in written.items() if is_written} <= set(found)


def check_written(site: PostgresSite, outcomes: dict[int, Outcome]) -> None:
    """What was promised is there; what is not was not promised; nothing is there twice."""
    rows = ask(site.url, "select (payload ->> 'number')::int, id from rowcall_job")
    assert len(outcomes) == THREADS * EACH
    assert max(Counter(number for number, _ in rows).values()) == 1
    found: dict[int, int] = dict(rows)
    promised = {number: outcome.id for number, outcome in outcomes.items() if isinstance(outcome, Job)}
    assert promised
    assert promised == {number: found.get(number) for number in promised}
    for number, outcome in outcomes.items():
        if isinstance(outcome, StoreUnavailable):
            assert NOTHING_WRITTEN not in str(outcome) or number not in found, outcome
