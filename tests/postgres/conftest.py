"""Fixtures for bad days: a server that tests may stop, crash and cut, one for each process of the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of
from tests.postgres.support import PostgresSite


@pytest.fixture(scope="session")
def frail_server() -> Iterator[PostgresServer]:
    with PostgresServer(in_memory=True) as server:
        yield server


@pytest.fixture
def server(frail_server: PostgresServer) -> Iterator[PostgresServer]:
    """It runs when the test begins, whatever the one before did to it."""
    frail_server.start()
    yield frail_server
    frail_server.start()


@pytest.fixture
def twin(server: PostgresServer, postgres_url: str) -> Iterator[str]:
    """A database on that server which has the name of the one at `postgres_url`."""
    name = database_of(postgres_url)
    yield server.create_database(name)
    server.start()
    server.drop_database(name)


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    """A new, empty database on that server."""
    url = server.create_database()
    yield url
    server.start()
    server.drop_database(database_of(url))


@pytest.fixture
def site(url: str, tmp_path: Path) -> Iterator[PostgresSite]:
    site = PostgresSite(tmp_path, url)
    site.jobs.migrate()
    yield site
    site.jobs.close()


@pytest.fixture
def jobs(site: PostgresSite) -> Rowcall:
    """A queue of this process, in the site's database."""
    return site.jobs
