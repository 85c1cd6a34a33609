"""Large payloads and results on lent connections: the row and what it refers to come and go together."""

from __future__ import annotations

import psycopg
import pytest

from rowcall import Context, InvalidArguments
from rowcall.domain.blobs import BLOB_KEY
from tests.connected import connected
from tests.drivers.caller.callers.base import Caller
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.desk import Desk, Lending
from tests.drivers.caller.handling import handler_of

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
def lending(request: pytest.FixtureRequest) -> Lending:
    kind = BY_NAME[request.param]
    here, elsewhere = request.getfixturevalue(f"{kind.database}_desks")
    return Lending(kind, here, elsewhere)


def references(lending: Lending) -> list[int]:
    """The jobs of this test that are known to need a blob; pins must never be left."""
    assert lending.desk.execute("select * from rowcall_blob_pin") == []
    found = lending.desk.execute(
        "select ref.job_id from rowcall_blob_ref as ref join rowcall_job as job on job.id = ref.job_id"
        f" where job.queue = '{lending.queue}' order by 1"
    )
    return [row[0] for row in found]


def test_committed(lending: Lending) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        await mine.enqueue(lending.send(mine), LARGE)
        await mine.commit()

    lending.run(scenario)
    (job,) = lending.written
    assert BLOB_KEY in job.payload
    assert lending.jobs.get(job.id).payload == {"to": LARGE}
    assert (references(lending), lending.notes) == ([job.id], 1)


def test_rolled_back(lending: Lending) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        await mine.enqueue(lending.send(mine), LARGE)
        await mine.rollback()

    lending.run(scenario)
    assert (lending.written, references(lending), lending.notes) == ([], [], 0)


@pytest.mark.parametrize("lending", ["sqlite3-legacy", "asyncpg"], indirect=True)
def test_a_refused_one_leaves_the_transaction_as_it_was(lending: Lending) -> None:
    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        with pytest.raises(InvalidArguments, match="payload_limit"):
            await mine.enqueue(lending.send(mine), "x" * 70_000_000)
        await mine.enqueue(lending.send(mine), LARGE)
        await mine.commit()

    lending.run(scenario)
    assert len(lending.written) == len(references(lending)) == lending.notes == 1


def test_a_large_result_completed_in_the_handlers_transaction(lending: Lending) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        await mine.complete(ctx, LARGE)
        await mine.commit()

    job = handler_of(lending, body).enqueue()
    lending.jobs.drain(queues=[lending.queue])
    assert lending.troubles == []
    assert lending.jobs.get(job.id).result == LARGE
    assert (references(lending), lending.notes) == ([job.id], 1)


def test_a_snapshot_that_is_older_than_the_content(postgresql_desks: tuple[Desk, Desk]) -> None:
    """At REPEATABLE READ, what somebody else put meanwhile can neither be seen nor be written again."""
    desk = postgresql_desks[0]
    other, waiting = LARGE + "2", LARGE + "3"
    with connected(desk.place, autocommit=False) as mine, connected(desk.place, autocommit=False) as somebody:
        mine.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        mine.execute("select count(*) from rowcall_job")
        desk.send.enqueue(other)
        desk.send.using(connection=somebody).enqueue(waiting)
        sent = [desk.send.using(connection=mine).enqueue(to) for to in (other, waiting)]
        mine.commit()
        somebody.rollback()
    assert [desk.jobs.get(job.id).payload["to"] for job in sent] == [other, waiting]
