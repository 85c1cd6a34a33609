"""Large payloads and results on callers' connections: the row and what it refers to come and go together."""

from __future__ import annotations

import psycopg
import pytest

from rowcall import Context, InvalidArguments
from rowcall.domain.blobs import BLOB_KEY
from tests.connected import connected
from tests.drivers.caller.callers.base import Caller
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.handlers import handler_of
from tests.drivers.caller.queue_site import Case, Site

LARGE = "x" * 300_000
# one of each family; what all kinds have in common is shown by the matrix
FAMILIES = (
    "sqlite3-legacy",
    "sqlite3-none",
    "aiosqlite",
    "psycopg",
    "psycopg-autocommit",
    "psycopg-pipeline",
    "asyncpg",
    "sqlalchemy-psycopg2-scoped-session",
    "sqlalchemy-asyncpg-async-connection",
    "django-postgresql-proxy",
)


@pytest.fixture(params=FAMILIES)
def case(request: pytest.FixtureRequest) -> Case:
    kind = BY_NAME[request.param]
    here, elsewhere = request.getfixturevalue(f"{kind.database}_sites")
    return Case(kind, here, elsewhere)


def references(case: Case) -> list[int]:
    """The jobs of this test that are known to need a blob; pins must never be left."""
    assert case.site.execute("select * from rowcall_blob_pin") == []
    found = case.site.execute(
        "select ref.job_id from rowcall_blob_ref as ref join rowcall_job as job on job.id = ref.job_id"
        f" where job.queue = '{case.queue}' order by 1"
    )
    return [row[0] for row in found]


def test_committed(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        await mine.enqueue(case.send(mine), LARGE)
        await mine.commit()

    case.run(scenario)
    (job,) = case.written
    assert BLOB_KEY in job.payload
    assert case.jobs.get(job.id).payload == {"to": LARGE}
    assert (references(case), case.notes) == ([job.id], 1)


def test_rolled_back(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        await mine.enqueue(case.send(mine), LARGE)
        await mine.rollback()

    case.run(scenario)
    assert (case.written, references(case), case.notes) == ([], [], 0)


@pytest.mark.parametrize("case", ["sqlite3-legacy", "asyncpg"], indirect=True)
def test_a_refused_one_leaves_the_transaction_as_it_was(case: Case) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        with pytest.raises(InvalidArguments, match="payload_limit"):
            await mine.enqueue(case.send(mine), "x" * 70_000_000)
        await mine.enqueue(case.send(mine), LARGE)
        await mine.commit()

    case.run(scenario)
    assert len(case.written) == len(references(case)) == case.notes == 1


def test_a_large_result_completed_in_the_handlers_transaction(case: Case) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        await mine.complete(ctx, LARGE)
        await mine.commit()

    job = handler_of(case, body).enqueue()
    case.jobs.drain(queues=[case.queue])
    assert case.troubles == []
    assert case.jobs.get(job.id).result == LARGE
    assert (references(case), case.notes) == ([job.id], 1)


def test_a_snapshot_that_is_older_than_the_content(postgresql_sites: tuple[Site, Site]) -> None:
    """At REPEATABLE READ, a blob that another transaction put can neither be seen nor be written again."""
    site = postgresql_sites[0]
    other, waiting = LARGE + "2", LARGE + "3"
    with connected(site.database, autocommit=False) as mine, connected(site.database, autocommit=False) as theirs:
        mine.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        mine.execute("select count(*) from rowcall_job")
        site.send.enqueue(other)
        site.send.using(connection=theirs).enqueue(waiting)
        sent = [site.send.using(connection=mine).enqueue(to) for to in (other, waiting)]
        mine.commit()
        theirs.rollback()
    assert [site.jobs.get(job.id).payload["to"] for job in sent] == [other, waiting]
