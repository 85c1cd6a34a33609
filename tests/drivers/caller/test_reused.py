"""A connection that was used before: it is checked once, and behaves as at first."""

from __future__ import annotations

from typing import Any

import pytest

from rowcall import InvalidOption, Job
from tests.drivers.caller.callers.base import Caller, Kind
from tests.drivers.caller.callers.kinds import BY_NAME, KINDS
from tests.drivers.caller.desk import Desk, Lending

OF_DRIVERS = [kind for kind in KINDS if kind.name.startswith(("psycopg", "asyncpg"))]


def test_each_job_is_as_it_was_said_to_be(lending: Lending) -> None:
    written: list[Job] = []

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        using = lending.desk.send.using
        enqueuers = [
            using(connection=mine.lent),
            using(connection=mine.lent),
            using(connection=mine.lent, queue="other", priority=-3, max_attempts=2),
            using(connection=mine.lent, delay=60),
            using(connection=mine.lent, tags=["a"], timeout=3),
        ]
        written.extend([await mine.enqueue(enqueuer, "ä 'quoted' \\ \U0001f600") for enqueuer in enqueuers])
        await mine.commit()

    lending.run(scenario)
    assert [lending.jobs.get(job.id) for job in written] == written
    assert len({job.id for job in written}) == 5


@pytest.fixture(params=OF_DRIVERS, ids=lambda kind: kind.name)
def of_a_driver(request: pytest.FixtureRequest, postgresql_desks: tuple[Desk, Desk]) -> Lending:
    kind: Kind = request.param
    return Lending(kind, *postgresql_desks)


def test_a_connection_that_was_closed_since(of_a_driver: Lending) -> None:
    lending = of_a_driver

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.enqueue(lending.send(mine), "known")
        await mine.commit()
        lent = mine.lent
        await mine.close()
        send = lending.desk.send.using(connection=lent)
        with pytest.raises(
            InvalidOption,
            match=r"^connection: (is closed$|.*released back to the pool)",
        ):
            await mine.enqueue(send, "refused")
        await mine.open()

    lending.run(scenario)


def test_numbers_that_asyncpg_was_told_to_give_as_text_since(postgresql_desks: tuple[Desk, Desk]) -> None:
    lending = Lending(BY_NAME["asyncpg"], *postgresql_desks)

    async def scenario(mine: Caller) -> None:
        connection: Any = mine.lent
        await mine.begin()
        await mine.enqueue(lending.send(mine), "known")
        await connection.set_type_codec("int8", schema="pg_catalog", encoder=str, decoder=str)
        job = await mine.enqueue(lending.send(mine), "after")
        await mine.commit()
        assert lending.written[1] == job

    lending.run(scenario)
