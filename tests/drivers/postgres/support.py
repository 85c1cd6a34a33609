"""What the tests of the PostgreSQL driver share."""

from __future__ import annotations

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.drivers.postgres.database import PostgresDatabase

MANY = 100


def database_of_queue(jobs: Rowcall) -> PostgresDatabase:
    database = queue_of(jobs).database
    assert isinstance(database, PostgresDatabase)
    return database
