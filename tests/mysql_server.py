"""A server of MariaDB or MySQL for the tests of one process of pytest; they are skipped where none is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rowcall.testing.mysql import INSTALL_ADVICE, MysqlServer, find_server

REQUIRE_MYSQL = "ROWCALL_REQUIRE_MARIADBD"


ALL = os.environ.get("ROWCALL_TEST_MYSQL") == "all"
"""Whether every test that can run there does. Otherwise some do."""


def require_mysql() -> None:
    """Skip the test where no server is installed; fail it where the environment asks for one."""
    if find_server() is None:
        if os.environ.get(REQUIRE_MYSQL) == "1":
            pytest.fail(f"no server of MariaDB or MySQL is installed, and {REQUIRE_MYSQL} asks for it")
        pytest.skip(f"no server of MariaDB or MySQL is installed: {INSTALL_ADVICE}")


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[MysqlServer]:
    require_mysql()
    with MysqlServer(in_memory=True) as server:
        yield server


@pytest.fixture
def mysql_url(mysql_server: MysqlServer) -> Iterator[str]:
    """An empty database."""
    url = mysql_server.create_database()
    yield url
    mysql_server.drop_database(url.rpartition("/")[2])
