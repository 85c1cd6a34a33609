"""Two versions of the product on one database: what the later one adds does not disturb the earlier one."""

from __future__ import annotations

import contextlib
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import pytest

from rowcall import Rowcall, SchemaMismatch
from rowcall.store.postgres.schema import NEWEST_VERSION
from tests.store.postgres.databases import migrated
from tests.store.postgres.product import JOBS_A_ROUND, LATER_VERSION, later_product
from tests.support import ForkedProcess, PythonProcess, eventually

pytestmark = pytest.mark.no_tables

PATIENCE_SECONDS = 60.0
# what two newer steps say is the oldest code that suits them, and whether this code does
SUITED: list[tuple[tuple[int | None, int], bool]] = [
    ((NEWEST_VERSION, NEWEST_VERSION), True),
    ((NEWEST_VERSION, NEWEST_VERSION + 1), False),
    ((NEWEST_VERSION + 1, NEWEST_VERSION), False),
    ((None, NEWEST_VERSION), False),
]
WAITING_FOR_THE_TABLE = "select from pg_locks where not granted and relation = 'rowcall_job'::regclass"


def migrate_as_later_product(url: str, oldest: int = NEWEST_VERSION) -> tuple[int, int]:
    with later_product(oldest), Rowcall(url) as jobs:
        return jobs.migrate()


def has_succeeded(jobs: Rowcall, job_id: int) -> bool:
    return jobs.get(job_id).status == "succeeded"


def test_newer_tables_that_suit_this_code_are_used(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        before = jobs.enqueue("note")
    assert migrate_as_later_product(postgres_url) == (NEWEST_VERSION, LATER_VERSION)
    with Rowcall(postgres_url) as jobs:

        @jobs.task
        def note() -> str:
            return "done"

        assert jobs.migrate() == (LATER_VERSION, LATER_VERSION)
        after = note.enqueue()
        by_hand = jobs.dequeue("me")
        assert by_hand is not None
        assert by_hand.id == before.id
        jobs.release(by_hand)
        assert jobs.drain().succeeded == 2
        assert [job.result for job in jobs.list().jobs] == ["done", "done"]
        assert [event.event for event in jobs.timeline(after.id)] == ["ENQUEUED", "CLAIMED", "STARTED", "SUCCEEDED"]


def test_newer_tables_that_this_code_would_not_understand_are_refused_and_left_alone(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        jobs.enqueue("note")
    migrate_as_later_product(postgres_url, LATER_VERSION)
    with Rowcall(postgres_url) as jobs:
        for use in (lambda: jobs.enqueue("note"), jobs.list, jobs.migrate, jobs.drain):
            with pytest.raises(SchemaMismatch, match="a newer Rowcall made them; install that version here") as caught:
                use()
            assert (caught.value.found, caught.value.wanted) == (LATER_VERSION, NEWEST_VERSION)
    with psycopg.connect(postgres_url) as plain:
        assert plain.execute("select count(*) from rowcall_job").fetchone() == (1,)


@pytest.mark.parametrize(("oldest", "suits"), SUITED)
def test_every_newer_step_must_suit(postgres_url: str, oldest: tuple[int | None, int], suits: bool) -> None:
    """A migration that does not name the oldest code that it allows suits no older code."""
    with migrated(postgres_url) as plain:
        for version, suited in enumerate(oldest, start=NEWEST_VERSION + 1):
            plain.execute("insert into rowcall_migration values (%s, 'later', now(), %s)", [version, suited])
    with Rowcall(postgres_url) as jobs, contextlib.nullcontext() if suits else pytest.raises(SchemaMismatch):
        jobs.enqueue("note")


def test_a_worker_that_runs_is_not_disturbed(postgres_url: str) -> None:
    """Its statements were prepared on the tables as they were."""
    with Rowcall(postgres_url) as jobs:

        @jobs.task
        def note() -> None: ...

        @jobs.task(max_attempts=2)
        def fail() -> None:
            raise ValueError

        def work_a_little() -> None:
            for _ in range(10):
                fail.enqueue()
                job_id = note.enqueue().id
                eventually(partial(has_succeeded, jobs, job_id))

        with jobs.worker(concurrency=2):
            work_a_little()
            migrate_as_later_product(postgres_url)
            work_a_little()
        assert jobs.stats().by_status["succeeded"] == 20


class Deploy:
    """Processes of both versions, and what they have done so far."""

    def __init__(self, url: str, plain: psycopg.Connection, running: contextlib.ExitStack) -> None:
        self._url = url
        self._plain = plain
        self._running = running
        self.processes: list[PythonProcess] = []
        plain.execute(
            "create table ran (job_id bigint, version text, pid int); create table stop ();"
            " create table produced (version text, pid int)"
        )

    def start(self, version: str, command: str) -> PythonProcess:
        process = ForkedProcess("-m", "tests.store.postgres.product", version, self._url, command)
        self.processes.append(self._running.enter_context(process))
        return process

    def stop_producing(self) -> None:
        self._plain.execute("insert into stop default values")

    def count(self, query: str, *parameters: object) -> int:
        for process in self.processes:
            assert process.returncode in (None, 0), process.output
        row = self._plain.execute(query.encode(), parameters).fetchone()
        assert row is not None
        return int(row[0])

    def wait_for_more(self, table: str, process: PythonProcess, more: int = 10) -> None:
        query = f"select count(*) from {table} where pid = %s"
        wanted = self.count(query, process.pid) + more
        eventually(lambda: self.count(query, process.pid) >= wanted, within=PATIENCE_SECONDS)


@pytest.mark.concurrency
@pytest.mark.slow
def test_a_deploy_under_load(postgres_url: str) -> None:
    with migrated(postgres_url) as plain, contextlib.ExitStack() as running:
        deploy = Deploy(postgres_url, plain, running)
        workers = [deploy.start("earlier", "work")]
        producers = [deploy.start("earlier", "produce")]
        deploy.wait_for_more("ran", workers[0])
        migrations = [deploy.start("later", "migrate") for _ in range(2)]
        workers.append(deploy.start("later", "work"))
        producers.append(deploy.start("later", "produce"))
        for worker in workers:
            deploy.wait_for_more("ran", worker)
        assert deploy.count("select max(version) from rowcall_migration") == LATER_VERSION
        workers.append(deploy.start("earlier", "work"))
        producers.append(deploy.start("earlier", "produce"))
        for process in producers:
            deploy.wait_for_more("produced", process, 3)
        for worker in workers:
            deploy.wait_for_more("ran", worker)
        deploy.stop_producing()
        assert [process.wait() for process in (*producers, *migrations)] == [0] * 5
        unfinished = "select count(*) from rowcall_job where status <> 'succeeded'"
        eventually(lambda: deploy.count(unfinished) == 0, within=PATIENCE_SECONDS)
        assert [process.output for process in (*workers, *producers)] == [""] * 6
        assert all(f"{LATER_VERSION})" in process.output for process in migrations)
        for worker in workers:
            worker.send(signal.SIGTERM)
        assert [worker.wait() for worker in workers] == [0] * 3

        made = deploy.count("select count(*) * %s from produced", JOBS_A_ROUND)
        assert deploy.count("select count(*) from rowcall_job") == made
        assert deploy.count("select count(*) from ran") == made
        assert deploy.count("select count(distinct job_id) from ran") == made
        assert deploy.count("select count(*) from rowcall_job where attempt <> 1") == 0


@pytest.mark.concurrency
def test_a_migration_that_has_to_wait_lets_the_others_continue(postgres_url: str) -> None:
    """Every lock request queues behind the migration, which waits for another client's long transaction."""
    with (
        migrated(postgres_url) as plain,
        psycopg.connect(postgres_url) as reader,
        ThreadPoolExecutor(2) as threads,
        Rowcall(postgres_url) as jobs,
    ):
        jobs.enqueue("note")
        reader.execute("select count(*) from rowcall_job")
        try:
            migrating = threads.submit(migrate_as_later_product, postgres_url)
            eventually(lambda: plain.execute(WAITING_FOR_THE_TABLE).fetchall())
            for _ in range(3):
                threads.submit(jobs.enqueue, "note").result(timeout=30)
        finally:
            reader.rollback()
        assert migrating.result(timeout=60) == (NEWEST_VERSION, LATER_VERSION)
