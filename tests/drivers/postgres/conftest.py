from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from rowcall import Rowcall
from tests.connected import Connection, connected, database_with_tables, empty
from tests.drivers.postgres.support import MANY


@pytest.fixture(scope="module")
def shared_url(postgres_server_url: str) -> Iterator[str]:
    with database_with_tables(postgres_server_url) as url:
        yield url


@pytest.fixture
def url(shared_url: str) -> str:
    empty(shared_url)
    return shared_url


@pytest.fixture
def jobs(url: str) -> Iterator[Rowcall]:
    with Rowcall(url) as jobs:
        yield jobs


@pytest.fixture
def mine(url: str) -> Iterator[Connection]:
    with connected(url) as connection:
        yield connection


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(MANY) as executor:
        yield executor
