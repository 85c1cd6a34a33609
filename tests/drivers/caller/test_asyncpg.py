"""Connections of asyncpg, behind a pooler and with other codecs."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from rowcall.testing.postgres_database import database_of
from tests.drivers.caller.callers.base import Caller
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.queue_site import Case, Site
from tests.pgbouncer import PgBouncer


def test_asyncpg_behind_a_pooler(postgresql_sites: tuple[Site, Site], pgbouncer: PgBouncer) -> None:
    case = Case(BY_NAME["asyncpg"], *postgresql_sites)

    async def scenario() -> None:
        database = pgbouncer.url(database_of(case.site.database))
        connection = await asyncpg.connect(database, statement_cache_size=0)
        for number in range(8):
            transaction = connection.transaction()
            await transaction.start()
            await case.site.send.using(connection=connection, queue=case.queue).aenqueue(str(number))
            await (transaction.commit() if number % 2 else transaction.rollback())
        await connection.close()

    asyncio.run(scenario())
    assert case.sent_to == ["1", "3", "5", "7"]


def test_numbers_that_asyncpg_returns_as_text_since(postgresql_sites: tuple[Site, Site]) -> None:
    case = Case(BY_NAME["asyncpg"], *postgresql_sites)

    async def scenario(mine: Caller) -> None:
        connection: Any = mine.connection
        await mine.begin()
        await mine.enqueue(case.send(mine), "known")
        await connection.set_type_codec("int8", schema="pg_catalog", encoder=str, decoder=str)
        job = await mine.enqueue(case.send(mine), "after")
        await mine.commit()
        assert case.written[1] == job

    case.run(scenario)
