"""Fixtures for all tests: a real PostgreSQL server, one for the whole run."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rowcall import Rowcall
from rowcall.testing.postgres import CLUSTER, PostgresServer
from rowcall.testing.postgres_database import Databases, database_of
from rowcall.testing.private_server import MEMORY, memory_has_room
from tests.made_files import MadeFiles
from tests.mysql_server import mysql_server, mysql_url
from tests.pgbouncer import PgBouncer, find_pgbouncer
from tests.shared_postgres import SharedPostgres, ask, other_server
from tests.spare_databases import SpareDatabases

__all__ = ["mysql_server", "mysql_url"]

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

SHARED = pytest.StashKey[SharedPostgres]()
TEMPORARY = pytest.StashKey[Path]()
PORT = "rowcall_postgres_port"
TESTS = Path(__file__).parent
ABOUT_CONNECTIONS = ("drivers/postgres", "postgres", "wake")
"""In these folders, tests open and close connections, cut them, and count them."""
ABOUT_FILES = ("bad_input", "drivers/sqlite", "faults", "upgrades")
"""In these folders, tests look at how files come to be."""
GC_THRESHOLD = 10_000
REQUIRE_PGBOUNCER = "ROWCALL_REQUIRE_PGBOUNCER"


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected: none of what is made until then is garbage
    if not hasattr(config, "workerinput"):
        config.stash[SHARED] = SharedPostgres()
        in_memory = memory_has_room()
        if in_memory:
            # processes are killed here, machines are not: no test needs to wait for a disk
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
        config.stash[TEMPORARY] = Path(tempfile.mkdtemp(prefix="rowcall-tests-", dir=MEMORY if in_memory else None))
        use_temporary_folder(config.stash[TEMPORARY])
        os.environ[CLUSTER] = str(config.stash[TEMPORARY] / "cluster")
    else:
        use_temporary_folder(Path(os.environ["TMPDIR"], os.environ["PYTEST_XDIST_WORKER"]))


def use_temporary_folder(folder: Path) -> None:
    """Set the folder for temporary files of this process and its children.

    Each start of a worker checks all liveness files in it: those of other runs would cost more than the start.
    """
    folder.mkdir(exist_ok=True)
    folder.chmod(0o1777)  # a server may run as another user
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of collected tests, and run it less often: it has little to find."""
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput[PORT] = node.config.stash[SHARED].port()


def pytest_unconfigure(config: pytest.Config) -> None:
    if SHARED in config.stash:
        config.stash[SHARED].close()
        shutil.rmtree(config.stash[TEMPORARY], ignore_errors=True)


@pytest.fixture
def same_logging() -> Iterator[None]:
    """For tests of apps and frameworks that set up logging for the whole process: undo that."""
    root, ours = logging.getLogger(), logging.getLogger("rowcall")
    before = [(logger, logger.level, list(logger.handlers), logger.propagate) for logger in (root, ours)]
    yield
    for logger, level, handlers, propagate in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers
        logger.propagate = propagate


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the processes of this run share, and no other run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def postgres_server_url(pytestconfig: pytest.Config) -> str:
    """A server that all tests share; `ROWCALL_TEST_POSTGRES_URL` names another one."""
    if other := other_server():
        return other
    if SHARED in pytestconfig.stash:
        return pytestconfig.stash[SHARED].url()
    return ask(pytestconfig.workerinput[PORT])  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def databases(postgres_server_url: str) -> Iterator[Databases]:
    """Creates and drops databases on the server that all tests share."""
    with closing(Databases(postgres_server_url)) as databases:
        yield databases


@pytest.fixture(scope="session")
def postgres_template(databases: Databases) -> Iterator[str]:
    """The name of a database with the tables in it, to be copied."""
    url = databases.create()
    with Rowcall(url) as jobs:
        jobs.migrate()
    yield database_of(url)
    databases.drop(database_of(url))


@pytest.fixture(scope="session", autouse=True)
def made_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeFiles]:
    """Makes the new SQLite files of this process, except for tests about that, and tests marked `no_tables`."""
    with closing(MadeFiles(tmp_path_factory.mktemp("template"))) as made:
        yield made


@pytest.fixture(autouse=True)
def making_files(request: pytest.FixtureRequest, made_files: MadeFiles) -> None:
    is_about_files = any(request.path.is_relative_to(TESTS / folder) for folder in ABOUT_FILES)
    made_files.is_on = not is_about_files and request.node.get_closest_marker("no_tables") is None


@pytest.fixture(scope="session")
def sqlite_template(made_files: MadeFiles) -> Path:
    """A file with the tables in it, to be copied."""
    return made_files.template


@pytest.fixture(scope="session")
def spare_databases(databases: Databases, postgres_template: str) -> Iterator[SpareDatabases]:
    """Databases with the tables in them, used again by later tests."""
    with closing(SpareDatabases(databases, postgres_template)) as spare:
        yield spare


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, databases: Databases) -> Iterator[str]:
    """A database with the tables in it, as new; an empty one, or a new copy, for tests that are marked so."""
    bare, copy = (request.node.get_closest_marker(name) is not None for name in ("no_tables", "new_database"))
    if not (bare or copy):
        keep = not any(request.path.is_relative_to(TESTS / folder) for folder in ABOUT_CONNECTIONS)
        with request.getfixturevalue("spare_databases").database(keep_connections=keep) as database:
            yield database.url
        return
    url = databases.create(template="template0" if bare else request.getfixturevalue("postgres_template"))
    yield url
    databases.drop(database_of(url))


@pytest.fixture
def private_postgres() -> Iterator[PostgresServer]:
    """A server of the test's own, which it may stop, restart or crash."""
    with PostgresServer(in_memory=True) as server:
        yield server


@pytest.fixture
def pgbouncer(postgres_server_url: str) -> Iterator[PgBouncer]:
    """A pooler in transaction mode, in front of the shared server: `pgbouncer.url(database_of(postgres_url))`."""
    if find_pgbouncer() is None:
        if os.environ.get(REQUIRE_PGBOUNCER) == "1":
            pytest.fail(f"pgbouncer is not installed, and {REQUIRE_PGBOUNCER} asks for it")
        pytest.skip("pgbouncer is not installed (on Debian: apt-get install pgbouncer)")
    with PgBouncer(postgres_server_url) as bouncer:
        yield bouncer
