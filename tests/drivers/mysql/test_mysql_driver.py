"""What the driver of MariaDB and MySQL promises, with tables of the test's own."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pymysql
import pytest

from rowcall import Rowcall
from rowcall.domain.config import Config, Server
from rowcall.domain.errors import Conflict, DataRefused, SchemaMismatch, StoreUnavailable
from rowcall.drivers.mysql.connection import MysqlSession, check_version, connect
from rowcall.drivers.mysql.database import MysqlDatabase
from rowcall.drivers.patience import patience
from rowcall.store.statement import Parameter, Plan, Row, Statement, as_json, fetch, plain
from rowcall.testing.mysql import MysqlServer
from rowcall.testing.private_server import free_port

COUNT = "select count(*) from kept"


def config(url: str, *, pool_size: int = 4) -> Config:
    return Config(server=Server(url=url, pool_size=pool_size), busy_timeout_seconds=2.0)


def ask(sql: str, *parameters: Parameter) -> Plan[list[Row]]:
    return fetch(plain(sql, *parameters))


def nothing_to_enqueue(members: object) -> Plan[list[object]]:
    raise AssertionError("no job is enqueued here")


@contextlib.contextmanager
def opened(url: str, *, pool_size: int = 4) -> Iterator[MysqlDatabase]:
    with closing(MysqlDatabase(config(url, pool_size=pool_size), nothing_to_enqueue)) as database:  # type: ignore[arg-type]
        yield database


@pytest.fixture
def database(mysql_url: str) -> Iterator[MysqlDatabase]:
    with opened(mysql_url) as database:
        database.write(lambda: ask("create table kept (id int primary key, name varchar(9) collate utf8mb4_bin)"))
        yield database


def rows_of(database: MysqlDatabase) -> int:
    ((count,),) = database.read(ask(COUNT))
    assert isinstance(count, int)
    return count


def test_settings_are_ours_whatever_the_server_says(mysql_server: MysqlServer, mysql_url: str) -> None:
    ours = "select @@sql_mode, @@time_zone, @@foreign_key_checks, @@group_concat_max_len > 1000000, '\\', 'a' || 'b'"
    isolation = "select variable_value from information_schema.session_variables where variable_name = 'tx_isolation'"
    with closing(mysql_server.connect()) as root, root.cursor() as cursor:
        cursor.execute("select @@global.sql_mode, @@global.time_zone")
        (before,) = cursor.fetchall()
        cursor.execute("set global sql_mode = '', global time_zone = '+05:00', global foreign_key_checks = 0")
        try:
            with opened(mysql_url) as database:
                ((mode, zone, keys, is_long, backslash, joined),) = database.read(ask(ours))
                if mysql_server.is_mariadb:
                    assert database.read(ask(isolation)) == [("READ-COMMITTED",)]
        finally:
            cursor.execute("set global sql_mode = %s, global time_zone = %s, global foreign_key_checks = 1", before)
    assert "STRICT_ALL_TABLES" in str(mode)
    assert (zone, keys, is_long, backslash, joined) == ("+00:00", 1, 1, "\\", "ab")


def test_certificates_are_loaded_once_per_process(mysql_url: str) -> None:
    with closing(connect(mysql_url, Config())) as one, closing(connect(mysql_url, Config())) as other:
        assert one.ctx is other.ctx


def test_values_come_back_as_they_were(database: MysqlDatabase) -> None:
    values = "select $2, $1, $2, $3, $4, '$1 is 5 %', sum(id) + 0.5, sum(id) from kept where id in $5 or name in $6"
    database.write(lambda: ask("insert into kept values (1, 'a '), (2, $1), (3, 'A')", "'\\%s;"))
    (row,) = database.read(ask(values, "é\U0001f600'\\", 2**62, 0.1, None, "[1]", '["\'\\\\%s;", "a"]'))
    assert row == (2**62, "é\U0001f600'\\", 2**62, 0.1, None, "$1 is 5 %", 3.5, 3)
    assert database.read(ask("select id from kept where id in $1", "[]")) == []


def test_a_transaction_is_all_or_nothing(database: MysqlDatabase) -> None:
    def failing() -> Plan[None]:
        yield plain("insert into kept values (1, 'one')")
        raise KeyError("after the first write")

    with pytest.raises(KeyError):
        database.write(failing)
    with pytest.raises(DataRefused, match="Duplicate entry"):
        database.write(lambda: ask("insert into kept values (2, 'a'), (2, 'b')"))
    with pytest.raises(DataRefused, match="Data too long"):
        database.write(lambda: ask("insert into kept values (3, 'longer than nine')"))
    with pytest.raises(SchemaMismatch):
        database.read(ask("select * from missing"))
    assert rows_of(database) == 0


def test_a_deadlock_is_tried_again(database: MysqlDatabase) -> None:
    database.write(lambda: ask("insert into kept values (1, ''), (2, '')"))
    both_have_one = threading.Barrier(2)
    attempts: list[str] = []
    done: list[str] = []

    def writing(name: str, first: int, second: int) -> None:
        def make_plan() -> Plan[None]:
            is_first_try = name not in attempts
            attempts.append(name)
            update = "update kept set name = concat(name, $1) where id = $2"
            yield plain(update, name, first)
            if is_first_try:
                both_have_one.wait(20)
            yield plain(update, name, second)

        database.write(make_plan)
        done.append(name)

    threads = [threading.Thread(target=writing, args=args) for args in (("a", 1, 2), ("b", 2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(done) == ["a", "b"]
    assert len(attempts) > 2
    assert {len(str(name)) for (name,) in database.read(ask("select name from kept"))} == {2}


def test_a_read_that_meets_a_conflict_is_tried_again(database: MysqlDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as with tables that are just being made: a plain read takes no locks of rows."""
    executed, tries = MysqlSession.execute, 0

    def conflicting(session: MysqlSession, statement: Statement[object]) -> list[Row]:
        nonlocal tries
        tries += 1
        if tries == 2:
            raise pymysql.OperationalError(1213, "Deadlock found when trying to get lock")
        return executed(session, statement)

    def both() -> Plan[list[Row]]:
        return [*(yield from ask("select 1")), *(yield from ask("select 2"))]

    monkeypatch.setattr(MysqlSession, "execute", conflicting)
    assert database.read(both()) == [(1,), (2,)]
    assert tries == 3


def test_a_wait_for_a_lock_is_a_conflict(database: MysqlDatabase) -> None:
    database.write(lambda: ask("insert into kept values (1, '')"))
    held = database.begin()
    held.run(ask("select * from kept for update"))
    hurried = database.connect()
    with closing(hurried), patience(20), pytest.raises(Conflict):
        hurried.write(ask("delete from kept"))
    held.roll_back()


def killing(server: MysqlServer, database: MysqlDatabase, kills: list[None]) -> Callable[[], Plan[None]]:
    def make_plan() -> Plan[None]:
        yield plain("insert into kept values (1, 'once')")
        if kills:
            kills.pop()
            server.terminate_connections(server_name(database))
        yield plain("insert into kept values (2, 'once')")

    return make_plan


def server_name(database: MysqlDatabase) -> str:
    return database._server.url.rpartition("/")[2]


def test_a_connection_that_is_lost_before_the_commit_is_replaced(
    mysql_server: MysqlServer, database: MysqlDatabase
) -> None:
    database.write(killing(mysql_server, database, [None, None]))
    assert rows_of(database) == 2
    mysql_server.terminate_connections(server_name(database))
    assert rows_of(database) == 2  # idle connections, too


def test_whether_a_commit_was_lost_is_not_guessed(mysql_server: MysqlServer, database: MysqlDatabase) -> None:
    block = database.begin()
    block.run(ask("insert into kept values (1, 'one')"))
    mysql_server.terminate_connections(server_name(database))
    with pytest.raises(StoreUnavailable, match="unknown whether"):
        block.commit()
    assert rows_of(database) == 0


def test_a_snapshot_and_a_time_limit(database: MysqlDatabase) -> None:
    def twice() -> Plan[list[Row]]:
        before = yield from ask(COUNT)
        database.write(lambda: ask("insert into kept values (1, 'one')"))
        return before + (yield from ask(COUNT))

    assert database.read(twice(), snapshot=True) == [(0,), (0,)]
    assert rows_of(database) == 1
    with pytest.raises(StoreUnavailable, match="cancelled the statement"):
        database.read(ask("select count(*) from kept where sleep(60) = 0"), seconds=0.2)
    assert rows_of(database) == 1


def test_a_running_statement_is_interrupted(database: MysqlDatabase) -> None:
    block = database.begin()
    waiting = ask("select sleep(60) from (select 1) as once")
    interrupting = threading.Timer(0.2, lambda: block.interrupt(waiting))
    interrupting.start()
    rows: list[Row] = []
    with contextlib.suppress(StoreUnavailable):  # or `sleep` returns 1
        rows = block.run(waiting)
    interrupting.join()
    block.roll_back()
    assert rows in ([], [(1,)])


def test_a_caller_that_gets_no_connection_learns_why(mysql_url: str) -> None:
    with opened(mysql_url, pool_size=1) as database:
        block = database.begin()
        with pytest.raises(StoreUnavailable, match=r"all 1 connections .* busy for 2 s"):
            database.begin()
        block.roll_back()
        database.begin().roll_back()


def test_a_forked_child_has_its_own_connections(database: MysqlDatabase) -> None:
    database.write(lambda: ask("insert into kept values (1, 'parent')"))
    child = os.fork()
    if child == 0:
        database.write(lambda: ask("insert into kept values (2, 'child')"))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert rows_of(database) == 2


def test_a_server_that_cannot_be_used(mysql_server: MysqlServer, mysql_url: str) -> None:
    secret = "hunter2"
    wrong = {
        mysql_url.replace("root@", f"stranger:{secret}@"): "Check the URL's user",
        mysql_url + "-missing": "Check the URL's user, password and database",
        f"mysql://root:{secret}@127.0.0.1:{free_port()}/x": "Is the server up",
        f"{mysql_url}?ssl=1": "unknown parameter ssl",
        f"{mysql_url}?ssl_ca=missing.pem": "cannot load the certificates",
        "mysql://root@127.0.0.1:port/x": "cannot be parsed",
    }
    for url, expected in wrong.items():
        with pytest.raises(StoreUnavailable) as raised:
            connect(url, config(url))
        assert expected in str(raised.value)
        assert secret not in str(raised.value)
    over_socket = mysql_server.socket_url(mysql_url.rpartition("/")[2])
    connect(over_socket, config(over_socket)).close()


def test_a_password_that_needs_another_library(
    mysql_server: MysqlServer, mysql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mysql_server.is_mariadb:
        pytest.skip("MariaDB checks passwords in another way")
    with closing(mysql_server.connect()) as root, root.cursor() as cursor:
        cursor.execute("create user ann identified by 'hunter2'")
    url = mysql_url.replace("root@", "ann:hunter2@")
    try:
        monkeypatch.setattr("pymysql._auth._have_cryptography", False)
        monkeypatch.setattr("pymysql.connections.SSL_ENABLED", False)
        with pytest.raises(StoreUnavailable, match="or connect over TLS"):
            connect(url, config(url))
    finally:
        with closing(mysql_server.connect()) as root, root.cursor() as cursor:
            cursor.execute("drop user ann")


def test_ids_of_bulks_that_are_written_at_once(mysql_url: str) -> None:
    """On MySQL, their numbers are mixed, and a trigger notes which ones are whose."""
    with Rowcall(mysql_url) as jobs:
        jobs.migrate()

        @jobs.task
        def work(bulk: int, place: int) -> None: ...

        def enqueue(bulk: int) -> list[tuple[int, str]]:
            payloads = [{"bulk": bulk, "place": place} for place in range(300)]
            ids = [job.id for job in work.enqueue_many(payloads)]
            return [(job_id, as_json(payload)) for job_id, payload in zip(ids, payloads, strict=True)]

        with ThreadPoolExecutor(3) as threads:
            told = [row for rows in threads.map(enqueue, range(9)) for row in rows]
    with closing(connect(mysql_url, config(mysql_url))) as raw, raw.cursor() as cursor:
        cursor.execute("select id, payload from rowcall_job order by id")
        assert list(cursor.fetchall()) == sorted(told)


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("8.0.16", "MySQL 8.0.16 is too old; 8.0.17 or newer is required"),
        ("10.5.29-MariaDB", "MariaDB 10.5.29 is too old; 10.6 or newer is required"),
    ],
)
def test_a_server_that_lacks_what_statements_need_is_refused(version: str, problem: str) -> None:
    with pytest.raises(StoreUnavailable, match=problem):
        check_version(version)
    for fits in ("11.4.2-MariaDB-log", "8.0.17", "9.7.4-2"):
        check_version(fits)
