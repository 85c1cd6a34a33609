"""A connection that was used before: it is checked once, and behaves as at first."""

from __future__ import annotations

import pytest

from rowcall import InvalidOption, Job
from tests.drivers.caller.callers.base import Caller, Kind
from tests.drivers.caller.callers.kinds import KINDS
from tests.drivers.caller.queue_site import Case, Site

OF_DRIVERS = [kind for kind in KINDS if kind.name.startswith(("psycopg", "asyncpg"))]


def test_each_job_is_as_it_was_said_to_be(case: Case) -> None:
    written: list[Job] = []

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        using = case.site.send.using
        enqueuers = [
            using(connection=mine.connection),
            using(connection=mine.connection),
            using(connection=mine.connection, queue="other", priority=-3, max_attempts=2),
            using(connection=mine.connection, delay=60),
            using(connection=mine.connection, tags=["a"], timeout=3),
        ]
        written.extend([await mine.enqueue(enqueuer, "ä 'quoted' \\ \U0001f600") for enqueuer in enqueuers])
        await mine.commit()

    case.run(scenario)
    assert [case.jobs.get(job.id) for job in written] == written
    assert len({job.id for job in written}) == 5


@pytest.fixture(params=OF_DRIVERS, ids=lambda kind: kind.name)
def of_a_driver(request: pytest.FixtureRequest, postgresql_sites: tuple[Site, Site]) -> Case:
    kind: Kind = request.param
    return Case(kind, *postgresql_sites)


def test_a_connection_that_was_closed_since(of_a_driver: Case) -> None:
    case = of_a_driver

    async def scenario(mine: Caller) -> None:
        await mine.begin()
        await mine.enqueue(case.send(mine), "known")
        await mine.commit()
        connection = mine.connection
        await mine.close()
        send = case.site.send.using(connection=connection)
        with pytest.raises(
            InvalidOption,
            match=r"^connection:? (is closed$|.*released back to the pool)",
        ):
            await mine.enqueue(send, "refused")
        await mine.open()

    case.run(scenario)
