"""The server of MariaDB or MySQL that tests stand on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pymysql
import pytest

from rowcall.testing import eventually
from rowcall.testing.mysql import MysqlServer
from rowcall.testing.private_server import StopMode
from tests.mysql_server import require_mysql


@pytest.fixture(scope="module")
def server() -> Iterator[MysqlServer]:
    """For tests that leave it running, with the same addresses."""
    require_mysql()
    with MysqlServer(in_memory=True) as server:
        yield server


def ask(server: MysqlServer, database: str, question: str) -> tuple[tuple[object, ...], ...]:
    with closing(server.connect(database)) as connection, connection.cursor() as cursor:
        cursor.execute(question)
        rows: tuple[tuple[object, ...], ...] = cursor.fetchall()
        return rows


def over_tcp(url: str) -> pymysql.Connection:
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname, port=parts.port or 0, user=parts.username, database=parts.path.removeprefix("/")
    )


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_committed_rows_and_addresses_outlive_a_restart(server: MysqlServer, mode: StopMode) -> None:
    url, socket_url, before = server.create_database(mode), server.socket_url(mode), server.pid
    ask(server, mode, "create table kept (number int)")
    ask(server, mode, "insert into kept values (1), (2)")
    logged = server.log.stat().st_size
    with closing(over_tcp(url)) as cut:
        server.restart(mode)
        with pytest.raises(pymysql.OperationalError):
            cut.query("select 1")
    assert server.pid != before
    assert (server.url(mode), server.socket_url(mode)) == (url, socket_url)
    assert ask(server, mode, "select count(*) from kept") == ((2,),)
    assert ("crash recovery" in server.log.read_text()[logged:]) == (mode == "immediate")
    with closing(over_tcp(url)) as connection:
        assert server.terminate_connections(mode) == 1
        with pytest.raises(pymysql.OperationalError):
            connection.query("select 1")
    server.drop_database(mode)


def test_a_server_that_is_stopped_or_died_by_itself_starts_again(server: MysqlServer) -> None:
    server.stop()
    server.stop("immediate")
    assert not server.running
    assert server.pid is None
    server.start()
    pid = server.pid
    server.start()
    assert server.pid == pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not server.running)
    server.start()
    assert ask(server, "mysql", "select 1") == ((1,),)


def test_a_server_that_cannot_start_says_why_and_leaves_nothing() -> None:
    require_mysql()
    server = MysqlServer(settings={"no_such_setting": "1"}, tcp=False)
    with pytest.raises(RuntimeError, match="before its first start"):
        server.url()
    with pytest.raises(RuntimeError, match="unknown variable"):
        server.__enter__()
    assert not server.data.parent.exists()
