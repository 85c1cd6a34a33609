"""Connections and sessions of SQLAlchemy: unknown drivers, and transactions that are over."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from rowcall import InvalidOption
from tests.drivers.caller.callers.base import Caller
from tests.drivers.caller.callers.kinds import BY_NAME
from tests.drivers.caller.callers.sqlalchemy_callers import url_for
from tests.drivers.caller.queue_site import Case, Site
from tests.drivers.caller.test_kinds import refusal


class OtherDriver(SQLiteDialect_pysqlite):
    driver = "other"
    supports_statement_cache = True


class OtherDatabase(SQLiteDialect_pysqlite):
    name = "otherdb"
    supports_statement_cache = True


registry.register("sqlite.other", __name__, "OtherDriver")
registry.register("otherdb.other", __name__, "OtherDatabase")


@pytest.mark.parametrize("dialect", ["sqlite+other", "otherdb+other"])
def test_unknown_drivers_of_sqlalchemy(sqlite_sites: tuple[Site, Site], dialect: str) -> None:
    site = sqlite_sites[0]
    engine = sqlalchemy.create_engine(sqlalchemy.URL.create(dialect, database=site.database))
    with engine.connect() as connection, orm.Session(engine) as session:
        for given in (connection, session):
            assert dialect.partition("+")[0] in refusal(site, given, sync_only=True)
        assert connection.exec_driver_sql("select 1").all() == [(1,)]
    engine.dispose()


def test_a_driver_connection_out_of_sqlalchemys_pool(postgresql_sites: tuple[Site, Site]) -> None:
    """It is in no transaction of SQLAlchemy's."""
    site = postgresql_sites[0]
    engine = sqlalchemy.create_engine(url_for(site.database, "psycopg"))
    with closing(engine.raw_connection()) as raw:
        assert "SQLAlchemy's Connection" in refusal(site, raw)
    engine.dispose()


def test_a_transaction_of_sqlalchemy_that_is_over(postgresql_sites: tuple[Site, Site]) -> None:
    site = postgresql_sites[0]
    engine = sqlalchemy.create_engine(url_for(site.database, "psycopg"))
    with engine.connect() as connection, connection.begin() as transaction:
        transaction.rollback()
        with pytest.raises(InvalidOption, match="closed transaction"):
            site.send.using(connection=connection).enqueue("a")
    engine.dispose()


def test_a_session_that_must_be_rolled_back_first(sqlite_sites: tuple[Site, Site]) -> None:
    site = sqlite_sites[0]
    engine = sqlalchemy.create_engine(url_for(site.database, "pysqlite"))
    base = orm.declarative_base()

    class Mine(base):  # type: ignore[misc, valid-type]
        __tablename__ = "mine"
        id = sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)
        nothing = sqlalchemy.Column(sqlalchemy.Text)

    with orm.Session(engine) as session:
        session.begin()
        session.add(Mine(id=1, nothing="there is no such column"))
        with pytest.raises(sqlalchemy.exc.OperationalError):
            session.flush()
        with pytest.raises(InvalidOption, match="rolled back"):
            site.send.using(connection=session).enqueue("a")
    engine.dispose()


def test_within_run_sync(postgresql_sites: tuple[Site, Site]) -> None:
    """Sync code of SQLAlchemy's that runs on an async connection calls the sync method."""
    case = Case(BY_NAME["sqlalchemy-asyncpg-async-session"], *postgresql_sites)

    async def scenario(mine: Caller) -> None:
        session: Any = mine.connection
        job = await session.run_sync(
            lambda inner: case.site.send.using(connection=inner, queue=case.queue).enqueue("a")
        )
        with pytest.raises(InvalidOption, match=r"connection:? "):
            case.site.send.using(connection=session.sync_session).enqueue("a")
        assert case.written == []
        await mine.commit()
        assert case.written == [job]

    case.run(scenario)
