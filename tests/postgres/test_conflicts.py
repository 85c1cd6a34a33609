"""Deadlocks, and databases that are stricter than we need: conflicts are nobody's fault, and are tried again."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from rowcall import Job, Rowcall
from rowcall.testing import eventually
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of
from tests.postgres.support import ATTEMPTS, PostgresSite, ask
from tests.worker.support import all_ended, ended

pytestmark = pytest.mark.concurrency

# settling a job waits for two locks, so that a test can let other transactions go first at a known point
LOCKS_ON_THE_WAY = """
create function meet_locks() returns trigger language plpgsql as $body$
begin
  perform pg_advisory_xact_lock(1);
  perform pg_advisory_xact_lock(2);
  return null;
end
$body$;
create trigger meet_locks after update on rowcall_job for each row
when (new.lease > old.lease) execute function meet_locks();
create table mine (number int);
"""
WAITS_AT_FIRST_LOCK = "select from pg_locks where locktype = 'advisory' and objid = 1 and not granted"
PRODUCERS = 4
EACH = 50


@pytest.fixture
def site(url: str, tmp_path: Path) -> Iterator[PostgresSite]:
    """Deadlocks are found within 10 ms, by the session that waits last."""
    site = PostgresSite(tmp_path, url)
    site.jobs.migrate()
    site.jobs.close()
    ask(url, LOCKS_ON_THE_WAY)
    ask(url, f"alter database {database_of(url)} set deadlock_timeout = '10ms'")
    yield site
    site.jobs.close()


@contextlib.contextmanager
def deadlock(server: PostgresServer, url: str, job: Job) -> Iterator[None]:
    """A transaction of the user's holds what the settler of the job needs, and needs what the settler holds."""
    before = deadlocks(server)
    with (
        psycopg.connect(url, autocommit=True) as helper,
        psycopg.connect(url) as user,
        ThreadPoolExecutor(1) as threads,
    ):
        helper.execute("select pg_advisory_lock(1)")
        user.execute("set deadlock_timeout = '60s'")
        user.execute("select pg_advisory_xact_lock(2)")
        user.execute("insert into mine values (1)")
        yield
        eventually(lambda: ask(url, WAITS_AT_FIRST_LOCK), message="the settler with the job's row")
        wants_row = threads.submit(user.execute, "select from rowcall_job where id = %s for update", [job.id])
        eventually(lambda: is_waiting(url, user), message="the user's wait for the row")
        helper.execute("select pg_advisory_unlock(1)")
        wants_row.result(20)
        user.commit()
    # one at least: on a busy machine the settler can be back at the row before the user has noticed that it is free
    assert deadlocks(server) > before


def deadlocks(server: PostgresServer) -> int:
    return server.log.read_text(errors="replace").count("deadlock detected")


def is_waiting(url: str, connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    asked = "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
    return bool(ask(url, asked, connection.info.backend_pid))


@pytest.mark.parametrize("call", ["complete", "fail", "release"])
def test_a_call_by_hand_is_tried_again(site: PostgresSite, jobs: Rowcall, server: PostgresServer, call: str) -> None:
    jobs.enqueue("task", max_attempts=1)
    (job,) = jobs.claim("me")
    settle: dict[str, tuple[Callable[[], None], str]] = {
        "complete": (lambda: jobs.complete(job, "done"), "succeeded"),
        "fail": (lambda: jobs.fail(job, "NOT:GOOD"), "failed"),
        "release": (lambda: asyncio.run(jobs.arelease(job)), "pending"),
    }
    settling, status = settle[call]
    with ThreadPoolExecutor(1) as threads:
        with deadlock(server, site.url, job):
            settled = threads.submit(settling)
        settled.result(20)
    assert jobs.get(job.id).status == status
    assert ask(site.url, "select * from mine") == [(1,)]


def test_a_worker_settles_again_and_says_nothing(
    site: PostgresSite, jobs: Rowcall, server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    @jobs.task
    def note(text: str) -> None:
        ran.append(text)

    job = note.enqueue("once")
    with deadlock(server, site.url, job):
        worker = jobs.worker()
        worker.start()
    assert ended(jobs, job).attempt == 1
    worker.stop()
    assert ran == ["once"]
    assert jobs.get(job.id).status == "succeeded"
    assert caplog.records == []


CONFLICTS = 3
# a sequence is not rolled back: the first few writes fail, and those after them do not
FAILING_AT_FIRST = f"""
create sequence tries;
create function fail_at_first() returns trigger language plpgsql as $body$
begin
  if nextval('tries') <= {CONFLICTS} then
    raise exception 'could not serialize access' using errcode = 'serialization_failure';
  end if;
  return null;
end
$body$;
create trigger fail_at_first after insert or update on rowcall_job
for each statement execute function fail_at_first();
create trigger fail_at_first after insert or update on rowcall_claim
for each statement execute function fail_at_first();
create trigger fail_at_first after insert or update on rowcall_worker
for each statement execute function fail_at_first();
"""


def test_every_write_is_tried_again(url: str) -> None:
    with Rowcall(url) as jobs:

        @jobs.task
        def task(number: int) -> int:
            return number

        async def enqueue_some() -> list[Job]:
            return await asyncio.gather(*(task.aenqueue(number) for number in range(10)))

        by_hand, waiting = task.enqueue_many([{"number": 20}, {"number": 21}])
        ask(url, FAILING_AT_FIRST)
        calls: list[Callable[[], object]] = [
            lambda: task.enqueue(1),
            lambda: task.enqueue_many([{"number": 2}, {"number": 3}]),
            lambda: asyncio.run(enqueue_some()),
            lambda: jobs.heartbeat(jobs.claim("me")[0]),
            lambda: jobs.complete(jobs.get(by_hand.id), 20),
            lambda: jobs.cancel(waiting.id),
            lambda: jobs.retry(waiting.id),
            jobs.drain,
        ]
        for call in calls:
            ask(url, "select setval('tries', 1, false)")
            call()
            assert ask(url, "select last_value > %s from tries", CONFLICTS) == [(True,)]
        finished = Counter((job.status, job.result) for job in jobs.list().jobs)
        assert finished == Counter(("succeeded", number) for number in (20, 21, 1, 2, 3, *range(10)))


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_isolation_of_the_database_does_not_matter(url: str, tmp_path: Path, level: str) -> None:
    ask(url, f"alter database {database_of(url)} set default_transaction_isolation = '{level}'")
    site = PostgresSite(tmp_path, url)
    with site.jobs as jobs, ThreadPoolExecutor(PRODUCERS) as threads:

        def enqueue_some(first: int) -> None:
            for number in range(first, first + EACH):
                jobs.enqueue("anote", {"text": str(number)})

        async def aenqueue_some(first: int) -> None:
            tasks = (jobs.aenqueue("note", {"text": str(number)}) for number in range(first, first + EACH))
            await asyncio.gather(*tasks)

        with site.worker(), site.worker():
            futures = [threads.submit(enqueue_some, number * EACH) for number in range(PRODUCERS)]
            asyncio.run(aenqueue_some(PRODUCERS * EACH))
            for future in futures:
                future.result(20)
            all_ended(jobs)
        tried = ask(url, ATTEMPTS)
        assert Counter((attempt, status) for _, attempt, status, _ in tried) == {
            (1, "succeeded"): (PRODUCERS + 1) * EACH
        }
        assert len(set(site.lines)) == len(site.lines) == (PRODUCERS + 1) * EACH
