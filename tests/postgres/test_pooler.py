"""Behind PgBouncer in transaction mode: every transaction may land on another connection of the server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.testing import eventually
from rowcall.testing.postgres_database import database_of, terminate_connections
from rowcall.worker import pace
from rowcall.worker.pacing import postgres_waiter
from tests.pgbouncer import PgBouncer
from tests.postgres.support import ATTEMPTS, PostgresSite, ask, times_said
from tests.worker.support import all_ended, ended, outcomes

pytestmark = pytest.mark.concurrency

NEVER_SECONDS = 3600.0
WARNING = "cannot receive notifications through a connection pooler"
SETTINGS = (
    "enable_seqscan",
    "enable_bitmapscan",
    "enable_hashjoin",
    "enable_mergejoin",
    "jit",
    "plan_cache_mode",
    "synchronous_commit",
    "default_transaction_isolation",
    "search_path",
    "timezone",
    "statement_timeout",
    "lock_timeout",
)


@pytest.fixture
def pooled_url(pgbouncer: PgBouncer, postgres_url: str) -> str:
    return pgbouncer.url(database_of(postgres_url))


@pytest.fixture
def site(pooled_url: str, tmp_path: Path) -> Iterator[PostgresSite]:
    site = PostgresSite(tmp_path, pooled_url)
    yield site
    site.jobs.close()


@pytest.fixture
def narrow(pgbouncer: PgBouncer, postgres_server_url: str) -> Iterator[PgBouncer]:
    """A pooler with one connection to each database, so that the next client sees what the last left behind."""
    with PgBouncer(postgres_server_url, pool_size=1) as bouncer:
        yield bouncer


def attempts(url: str) -> Counter[tuple[int, str]]:
    return Counter((attempt, status) for _, attempt, status, _ in ask(url, ATTEMPTS))


def test_the_whole_ring(site: PostgresSite, jobs: Rowcall) -> None:
    @jobs.task
    def note(text: str) -> None: ...

    async def enqueue_from_tasks() -> None:
        await asyncio.gather(*(note.aenqueue(f"task {number}") for number in range(100)))

    assert jobs.migrate()[1] >= 1
    with site.worker(concurrency=4) as one, site.worker(concurrency=4) as other:
        for number in range(100):
            note.enqueue(f"single {number}")
        note.enqueue_many([{"text": f"many {number}"} for number in range(1000)])
        asyncio.run(enqueue_from_tasks())
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(note.enqueue, (f"thread {number}" for number in range(100))))
        note.using(delay=0.1).enqueue("delayed")
        all_ended(jobs)
        assert len(site.lines) == len(set(site.lines)) == 1301
        assert attempts(site.url) == {(1, "succeeded"): 1301}
        for worker in (one, other):
            assert times_said(worker, WARNING) == 1
            assert len(worker.output.splitlines()) == 1, worker.output
    note.enqueue("by hand")
    (job,) = jobs.claim("me")
    jobs.heartbeat(job)
    jobs.complete(job)
    assert jobs.get(job.id).status == "succeeded"
    assert len(jobs.timeline(job.id)) >= 3


@pytest.mark.crash
def test_a_killed_worker_s_jobs_run_again(site: PostgresSite, jobs: Rowcall) -> None:
    jobs.migrate()
    job = jobs.enqueue("hold", {"name": "x"})
    with site.worker() as victim:
        site.wait_for_line("start x")
        with site.worker():
            victim.kill()
            site.wait_for_line("start x", times=2)
            site.open("x")
            assert ended(jobs, job).attempt == 2
    assert outcomes(jobs, job) == ["lost", "succeeded"]


def test_nothing_is_left_for_the_next_client(narrow: PgBouncer, postgres_url: str) -> None:
    url = narrow.url(database_of(postgres_url))
    with Rowcall(url, durability="normal") as jobs:

        @jobs.task
        def note(text: str) -> None: ...

        for number in range(10):  # more than once: psycopg prepares what it sees again and again
            note.enqueue(str(number))
            note.enqueue_many([{"text": str(number)}])
            jobs.stats()
            jobs.complete(jobs.claim("me")[0])
        assert jobs.drain().succeeded == 10
        asked = "select {}".format(", ".join(f"current_setting('{name}')" for name in SETTINGS))
        assert ask(url, asked) == ask(postgres_url, asked)
        assert ask(url, "select coalesce(current_setting('rowcall.notifies', true), '')") == [("",)]
        assert ask(url, "select name from pg_prepared_statements") == []
        assert ask(url, "select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()") == []
        assert ask(url, "select * from pg_listening_channels()") == []
        with psycopg.connect(url) as connection:
            connection.execute("create temporary table mine (number int)")


def test_a_worker_with_a_way_past_the_pooler_is_notified_at_once(
    pooled_url: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker never looks on its own here: what it does not hear of, it does not find."""
    for floor in ("FIRST_POLL_SECONDS", "LAST_POLL_SECONDS", "FIRST_DEAF_SECONDS", "LAST_DEAF_SECONDS"):
        monkeypatch.setattr(postgres_waiter, floor, NEVER_SECONDS)
    monkeypatch.setattr(pace, "LONGEST_WAIT_SECONDS", NEVER_SECONDS)
    ran: list[str] = []
    with Rowcall(pooled_url, listen_url=postgres_url) as jobs:

        @jobs.task
        def note(text: str) -> None:
            ran.append(text)

        with jobs.worker():
            for number in range(5):
                note.enqueue(text := f"ours {number}")
                eventually(lambda text=text: ran[-1:] == [text])  # type: ignore[misc]
                ask(pooled_url, "insert into rowcall_job (type, payload) values ('note', '{\"text\": \"plain\"}')")
                eventually(lambda: ran[-1] == "plain")
    assert len(ran) == 10
    assert caplog.records == []


def test_connections_cut_behind_the_pooler(
    site: PostgresSite, jobs: Rowcall, postgres_server_url: str, postgres_url: str
) -> None:
    ran: Counter[int] = Counter()

    @jobs.task
    def count(number: int) -> None:
        ran[number] += 1
        if number % 100 == 0:
            terminate_connections(postgres_server_url, database_of(postgres_url))

    count.enqueue_many([{"number": number} for number in range(500)])
    assert jobs.drain(concurrency=4).succeeded == 500
    assert ran == Counter(range(500))
    assert attempts(postgres_url) == {(1, "succeeded"): 500}

    written = []
    for number in range(20):
        terminate_connections(postgres_server_url, database_of(postgres_url))
        try:
            written.append(jobs.enqueue("other", {"number": number}).id)
        except StoreUnavailable:
            written.append(0)
    found = ask(postgres_url, "select (payload ->> 'number')::int, id from rowcall_job where type = 'other'")
    assert len({number for number, _ in found}) == len(found)
    assert {(number, id) for number, id in enumerate(written) if id} <= set(found)


def test_the_isolation_of_the_database_does_not_matter(site: PostgresSite, postgres_url: str) -> None:
    ask(postgres_url, f"alter database {database_of(postgres_url)} set default_transaction_isolation = 'serializable'")
    jobs = site.jobs
    jobs.migrate()
    with site.worker(), site.worker(), ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: jobs.enqueue("note", {"text": str(number)}), range(200)))
        all_ended(jobs)
    assert attempts(site.url) == {(1, "succeeded"): 200}
    assert len(set(site.lines)) == len(site.lines) == 200
