"""Two versions of the product on one database: what the later one adds does not disturb the earlier one."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import pytest

from rowcall import Rowcall, SchemaMismatch
from rowcall.store.postgres.schema import NEWEST_VERSION
from tests.store.postgres.databases import migrated
from tests.support import eventually
from tests.upgrades.product import LATER_VERSION, later_product

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
