"""The queues that connections are lent to: one on each kind of database, and one elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rowcall.testing.postgres_database import create_database, database_of, drop_database
from tests.drivers.caller.callers.kinds import KINDS, MAIN
from tests.drivers.caller.desk import Desk, Lending, desk
from tests.drivers.caller.nursery import Nursery
from tests.drivers.caller.nursery import nursery as open_nursery


@pytest.fixture(scope="session")
def sqlite_desks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, Desk]]:
    folder = tmp_path_factory.mktemp("lent")
    with desk(folder / "app.db") as here, desk(folder / "elsewhere.db") as elsewhere:
        yield here, elsewhere


@pytest.fixture(scope="session")
def postgresql_desks(postgres_server_url: str) -> Iterator[tuple[Desk, Desk]]:
    urls = [create_database(postgres_server_url) for _ in range(2)]
    with desk(urls[0]) as here, desk(urls[1]) as elsewhere:
        yield here, elsewhere
    for url in urls:
        drop_database(postgres_server_url, database_of(url))


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def lending(request: pytest.FixtureRequest) -> Lending:
    """Every kind of connection there is."""
    here, elsewhere = request.getfixturevalue(f"{request.param.database}_desks")
    return Lending(request.param, here, elsewhere)


@pytest.fixture(params=MAIN, ids=lambda kind: kind.name)
def main_lending(request: pytest.FixtureRequest) -> Lending:
    """One of each class of connection on each driver."""
    here, elsewhere = request.getfixturevalue(f"{request.param.database}_desks")
    return Lending(request.param, here, elsewhere)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where children come from, to be killed."""
    with open_nursery() as made:
        yield made
