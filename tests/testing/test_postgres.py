"""The servers that tests stand on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg
import pytest

from rowcall.testing import eventually
from rowcall.testing.postgres import DURABLE_SETTINGS, PostgresServer
from rowcall.testing.postgres_database import database_of
from rowcall.testing.private_server import StopMode
from tests.pgbouncer import PgBouncer
from tests.testing.support import ask, port_is_closed, port_of

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
    assert port_is_closed(module_server.url())
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
    assert port_is_closed(url)
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


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


# --- folders -----------------------------------------------------------------------------------


def test_a_folder_is_kept_and_found_again(shared_folder: Path) -> None:
    folder = shared_folder / ("too-long-for-a-socket" * 5)
    with PostgresServer(folder) as server:
        server.create_database("kept")
    with PostgresServer(folder) as server:
        assert ask(server.socket_url("kept"), "select 1") == [(1,)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another user")
def test_a_folder_that_the_server_cannot_enter(shared_folder: Path) -> None:
    closed = shared_folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(PermissionError, match="choose another folder"), PostgresServer(closed / "server"):
        pass


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
