"""The conformance kit on MariaDB or MySQL: a ring of it, or with `ROWCALL_TEST_MYSQL=all` all of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest

from rowcall.testing.mysql import MysqlServer
from tests.conformance.store import Store
from tests.conformance.suite import *  # noqa: F403
from tests.spare_mysql import MysqlStore, SpareMysqlDatabases

ALL = "ROWCALL_TEST_MYSQL"
RING = {
    "TestClaim",
    "TestEnds",
    "TestFence",
    "TestLimits",
    "TestSettle",
    "TestStage",
    "TestStepFence",
    "TestTransaction",
}

if os.environ.get(ALL) != "all":
    for name in [name for name in globals() if name.startswith("Test") and name not in RING]:
        del globals()[name]

NewStore = Callable[[], Store]


@pytest.fixture
def new_store(mysql_server: MysqlServer) -> Iterator[NewStore]:
    made: list[MysqlStore] = []

    def make() -> Store:
        made.append(MysqlStore(mysql_server.create_database()))
        return made[-1]

    yield make
    for store in made:
        store.close()
        mysql_server.drop_database(store.name)


@pytest.fixture(scope="session")
def spare_mysql(mysql_server: MysqlServer) -> Iterator[SpareMysqlDatabases]:
    with contextlib.closing(SpareMysqlDatabases(mysql_server)) as spare:
        yield spare


@pytest.fixture  # type: ignore[no-redef]
def new_migrated_store(spare_mysql: SpareMysqlDatabases) -> Iterator[NewStore]:
    with contextlib.ExitStack() as opened:
        yield lambda: opened.enter_context(spare_mysql.database())
