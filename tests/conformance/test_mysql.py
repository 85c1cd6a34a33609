"""The conformance kit on MariaDB or MySQL: the classes of cases that pass so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pymysql
import pytest

from rowcall.drivers.mysql.connection import SQL_MODE, options_of
from rowcall.testing.mysql import MysqlServer
from tests.conformance.cases.claim import TestClaim
from tests.conformance.cases.control import TestRetry
from tests.conformance.cases.enqueue import TestEnqueue
from tests.conformance.cases.fence import TestFence
from tests.conformance.cases.settle import TestSettle
from tests.conformance.cases.stage import TestStage
from tests.conformance.cases.transaction import TestTransaction
from tests.conformance.fixtures import clock, jobs, new_migrated_store, open_queue, store
from tests.conformance.store import Row, Store
from tests.mysql_server import mysql_server

__all__ = [
    "TestClaim",
    "TestEnqueue",
    "TestFence",
    "TestRetry",
    "TestSettle",
    "TestStage",
    "TestTransaction",
    "clock",
    "jobs",
    "mysql_server",
    "new_migrated_store",
    "open_queue",
    "store",
]


class MysqlStore:
    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = pymysql.connect(**options_of(url), sql_mode=SQL_MODE, autocommit=True)

    def execute(self, sql: str) -> list[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def new_store(mysql_server: MysqlServer) -> Iterator[Callable[[], Store]]:
    made: list[MysqlStore] = []

    def make() -> Store:
        made.append(MysqlStore(mysql_server.create_database()))
        return made[-1]

    yield make
    for opened_store in made:
        opened_store.close()
        mysql_server.drop_database(opened_store.url.rpartition("/")[2])
