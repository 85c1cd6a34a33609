"""The queues that connections lead to: one on each kind of database, and one elsewhere."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

import pytest

from rowcall.testing.mysql import MysqlServer
from rowcall.testing.postgres_database import create_database, database_of, drop_database
from tests.drivers.caller.callers.base import Kind
from tests.drivers.caller.callers.kinds import CORE, KINDS, MAIN
from tests.drivers.caller.fork_server import ForkServer
from tests.drivers.caller.fork_server import fork_server as open_fork_server
from tests.drivers.caller.queue_site import Case, Site, case_of, site


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run each test on the core kinds of connections and on a share of the others, another share for each test."""
    share = int(os.environ.get("ROWCALL_TEST_KIND_SHARE", "32"))
    config.hook.pytest_deselected(items=[item for item in items if _is_left_out(item, share)])
    items[:] = [item for item in items if not _is_left_out(item, share)]


def _is_left_out(item: pytest.Item, share: int) -> bool:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    kind = next((value for value in params.values() if isinstance(value, Kind)), None)
    return kind is not None and kind not in CORE and zlib.crc32(item.nodeid.encode()) % share != 0


@pytest.fixture(scope="session")
def sqlite_sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Site]]:
    folder = tmp_path_factory.mktemp("caller")
    with site(folder / "app.db") as here, site(folder / "elsewhere.db") as elsewhere:
        yield here, elsewhere


@pytest.fixture(scope="session")
def postgresql_sites(postgres_server_url: str) -> Iterator[tuple[Site, Site]]:
    urls = [create_database(postgres_server_url) for _ in range(2)]
    with site(urls[0]) as here, site(urls[1]) as elsewhere:
        yield here, elsewhere
    for url in urls:
        drop_database(postgres_server_url, database_of(url))


@pytest.fixture(scope="session")
def mysql_sites(mysql_server: MysqlServer) -> Iterator[tuple[Site, Site]]:
    urls = [mysql_server.create_database() for _ in range(2)]
    with site(urls[0]) as here, site(urls[1]) as elsewhere:
        yield here, elsewhere
    for url in urls:
        mysql_server.drop_database(url.rpartition("/")[2])


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def case(request: pytest.FixtureRequest) -> Case:
    """Every kind of connection there is."""
    return case_of(request, request.param)


@pytest.fixture(params=MAIN, ids=lambda kind: kind.name)
def main_case(request: pytest.FixtureRequest) -> Case:
    """One of each class of connection on each driver."""
    return case_of(request, request.param)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Where children come from, to be killed."""
    with open_fork_server() as made:
        yield made
