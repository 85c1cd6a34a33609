"""What PostgreSQL says, put into words a tired person can act on; each error is one that a server really raised."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.domain.config import Config, Server, shown
from rowcall.domain.errors import Conflict, DataRefused, RowcallError, SchemaMismatch, StoreUnavailable
from rowcall.drivers.postgres import connection
from rowcall.drivers.postgres.connection import connect
from rowcall.drivers.postgres.errors import explained, is_lost
from rowcall.testing import eventually
from rowcall.testing.postgres import FAST_SETTINGS, PostgresServer
from rowcall.testing.postgres_database import create_database, database_of, drop_database, with_database
from rowcall.testing.private_server import free_port
from tests.connected import Connection, connected

NAME = "postgresql://db-1/shop"
ACCESS = """
host all postgres,no_such_role all trust
host all all all scram-sha-256
"""


@pytest.fixture(scope="module")
def shared_url(postgres_server_url: str) -> Iterator[str]:
    url = create_database(postgres_server_url)
    with connected(url) as connection:
        connection.execute("create table t (a integer primary key check (a > 0), b text)")
        connection.execute("insert into t values (1, 'one'), (2, 'two')")
    yield url
    drop_database(postgres_server_url, database_of(url))


@pytest.fixture
def mine(shared_url: str) -> Iterator[Connection]:
    with connected(shared_url) as connection:
        yield connection


@pytest.fixture
def yours(shared_url: str) -> Iterator[Connection]:
    with connected(shared_url) as connection:
        yield connection


def error_of(call: Callable[[], object]) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        call()
    return caught.value


def raised(mine: Connection, sqlstate: str) -> psycopg.Error:
    """An error with that number, as the server raises it on a rarer day."""
    text = f"do $$ begin raise exception using errcode = '{sqlstate}', message = 'so it goes'; end $$"
    return error_of(lambda: mine.execute(text.encode()))


# --- conflicts ------------------------------------------------------------------------------------


def test_a_serialization_failure(mine: Connection, yours: Connection) -> None:
    mine.execute("begin isolation level repeatable read")
    mine.execute("select * from t")
    yours.execute("update t set b = 'three'")
    error = error_of(lambda: mine.execute("update t set b = 'four'"))
    found = explained(error, NAME)
    assert isinstance(found, Conflict)
    assert "another transaction changed the same rows" in str(found)
    assert "Nothing was written; call again" in str(found)
    assert not is_lost(error)


def test_a_deadlock(mine: Connection, yours: Connection) -> None:
    errors: list[psycopg.Error] = []
    met = threading.Barrier(2, timeout=20)

    def change(connection: Connection, first: int, second: int) -> None:
        connection.execute("set deadlock_timeout = '10ms'")
        try:
            with connection.transaction():
                connection.execute("update t set b = '' where a = %s", [first])
                met.wait()
                connection.execute("update t set b = '' where a = %s", [second])
        except psycopg.Error as error:
            errors.append(error)

    other = threading.Thread(target=change, args=(yours, 2, 1))
    other.start()
    change(mine, 1, 2)
    other.join(20)
    assert len(errors) == 1
    assert isinstance(explained(errors[0], NAME), Conflict)


@pytest.mark.parametrize("statement", [b"lock table t nowait", b"set lock_timeout = 1; lock table t"])
def test_a_lock_that_cannot_be_had(mine: Connection, yours: Connection, statement: bytes) -> None:
    with yours.transaction():
        yours.execute("lock table t")
        error = error_of(lambda: mine.execute(b"begin; " + statement))
    found = explained(error, NAME)
    assert isinstance(found, Conflict)
    assert "could not get a lock in time" in str(found)


# --- the statement, the tables, the rights --------------------------------------------------------


def test_a_statement_that_takes_too_long(mine: Connection) -> None:
    mine.execute("set statement_timeout = 1")
    found = explained(error_of(lambda: mine.execute("select pg_sleep(20)")), NAME)
    assert type(found) is StoreUnavailable
    assert "the server cancelled the statement" in str(found)
    assert "statement_timeout" in found.advice


@pytest.mark.parametrize("statement", ["select * from rowcall_job", "select c from t", "select rowcall_nonsense()"])
def test_what_is_missing(mine: Connection, statement: str) -> None:
    found = explained(error_of(lambda: mine.execute(statement.encode())), NAME)
    assert isinstance(found, SchemaMismatch)
    assert "does not exist" in str(found)
    assert "rowcall migrate" in str(found)


def test_what_this_user_may_not_do(mine: Connection) -> None:
    mine.execute("set role pg_monitor")
    found = explained(error_of(lambda: mine.execute("select * from t")), NAME)
    assert isinstance(found, StoreUnavailable)
    assert "permission denied for table t" in str(found)
    assert "Grant" in found.advice


def test_a_standby(mine: Connection) -> None:
    mine.execute("set default_transaction_read_only = on")
    found = explained(error_of(lambda: mine.execute("insert into t values (3)")), NAME)
    assert isinstance(found, StoreUnavailable)
    assert f"{NAME} is read-only" in str(found)
    assert "Connect to the primary" in str(found)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("insert into t values (-1)", "violates check constraint"),
        ("insert into t values (1)", "duplicate key"),
        ("insert into t values (null)", "violates not-null constraint"),
        ("insert into t values (99999999999)", "integer out of range"),
        ("insert into t values ('x')", "invalid input syntax"),
        ("select '{' :: jsonb", "invalid input syntax for type json"),
    ],
)
def test_values_that_are_refused(mine: Connection, statement: str, said: str) -> None:
    found = explained(error_of(lambda: mine.execute(statement.encode())), NAME)
    assert isinstance(found, DataRefused)
    assert f"{NAME} refuses the values" in str(found)
    assert said in str(found)


@pytest.mark.parametrize("sqlstate", ["53100", "53200"])
def test_a_server_without_room(mine: Connection, sqlstate: str) -> None:
    found = explained(raised(mine, sqlstate), NAME)
    assert isinstance(found, StoreUnavailable)
    assert "free space on the server" in found.advice


@pytest.mark.parametrize("sqlstate", ["28P01", "28000", "3D000"])
def test_a_login_that_is_refused(mine: Connection, sqlstate: str) -> None:
    found = explained(raised(mine, sqlstate), NAME)
    assert isinstance(found, StoreUnavailable)
    assert found.advice == "Check the URL's user, password and database"


def test_too_many_connections(mine: Connection) -> None:
    found = explained(raised(mine, "53300"), NAME)
    assert isinstance(found, StoreUnavailable)
    assert "max_connections" in found.advice


def test_other_trouble_of_the_server(mine: Connection) -> None:
    found = explained(raised(mine, "58030"), NAME)
    assert type(found) is StoreUnavailable
    assert str(found) == f"{NAME}: so it goes"


def test_what_is_not_foreseen_keeps_its_own_words(mine: Connection) -> None:
    found = explained(raised(mine, "P0001"), NAME)
    assert type(found) is RowcallError
    assert str(found) == f"{NAME}: so it goes (P0001)"
    found = explained(error_of(lambda: mine.execute("selekt")), NAME)
    assert type(found) is RowcallError
    assert "(42601)" in str(found)


# --- the connection -------------------------------------------------------------------------------


@pytest.mark.parametrize("sqlstate", ["57P01", "57P02", "57P03", "57P05", "25P03", "25P04"])
def test_errors_that_the_connection_goes_with(mine: Connection, sqlstate: str) -> None:
    error = raised(mine, sqlstate)
    assert is_lost(error)
    found = explained(error, NAME)
    assert type(found) is StoreUnavailable
    assert f"{NAME}: the connection was lost (so it goes)" in str(found)


def test_a_connection_that_is_cut(mine: Connection, yours: Connection) -> None:
    yours.execute("select pg_terminate_backend(%s, 20000)", [mine.info.backend_pid])
    for _ in range(2):
        error = error_of(lambda: mine.execute("select 1"))
        assert is_lost(error)
        assert "the connection was lost" in str(explained(error, NAME))
    assert mine.closed


@pytest.mark.parametrize(
    "setting", ["idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout"]
)
def test_a_connection_that_the_server_ends(mine: Connection, yours: Connection, setting: str) -> None:
    known = mine.execute("select from pg_settings where name = %s", [setting]).fetchall()
    if not known:
        pytest.skip(f"{setting} is of a newer PostgreSQL")
    mine.execute(f"set {setting} = 50".encode())
    if setting != "idle_session_timeout":
        mine.execute("begin")
    pid = mine.info.backend_pid
    eventually(lambda: not yours.execute("select from pg_stat_activity where pid = %s", [pid]).fetchall())
    error = error_of(lambda: mine.execute("select 1"))
    assert is_lost(error)
    assert isinstance(explained(error, NAME), StoreUnavailable)


# --- connecting -----------------------------------------------------------------------------------


def refusal_of(url: str) -> StoreUnavailable:
    with pytest.raises(StoreUnavailable) as caught:
        connect(url, Config(server=Server(url=url)))
    return caught.value


@pytest.fixture(scope="module")
def strict_server() -> Iterator[PostgresServer]:
    """With passwords for everybody but its owner, and few connections."""
    settings = {**FAST_SETTINGS, "max_connections": "5", "superuser_reserved_connections": "2"}
    with PostgresServer(settings=settings, in_memory=True) as server:
        with psycopg.connect(server.url(), autocommit=True) as owner:
            owner.execute("create role ann login password 'right'")
            owner.execute("create role bob login connection limit 0 password 'right'")
            owner.execute("create database small connection limit 0")
        access = server.data / "pg_hba.conf"
        access.write_text(ACCESS + access.read_text())
        server.restart()
        yield server


def url_of(server: PostgresServer, user: str, password: str = "right", database: str = "postgres") -> str:
    return server.url(database).replace("postgres@", f"{user}:{password}@")


def test_no_server_is_there() -> None:
    found = refusal_of(f"postgresql://ann:secret@127.0.0.1:{free_port()}/shop")
    assert "Connection refused" in str(found)
    assert found.advice == "Is the server up, and is the URL right?"
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?sslmod=require", "query parameter). unknown parameter sslmod; did you mean sslmode?"),
        ("?xyzzy=1", "query parameter). unknown parameter xyzzy"),
        (
            "?sslmode=disable&connect_timeout=abc",
            "(bad value for connect_timeout). connect_timeout must be an integer",
        ),
        ("?sslmode", "query parameter). Write it as sslmode=value"),
        ("?options=a=b", "query parameter). Write it as options=value, with %3D for an = in the value"),
        ("?sslmode=maybe", 'invalid sslmode value: "maybe"). Correct that parameter of the URL'),
        ("?port=abc", 'invalid integer value "abc" for connection option "port"). Correct that parameter of the URL'),
    ],
)
def test_a_parameter_of_the_url(query: str, said: str) -> None:
    assert said in str(refusal_of(f"postgresql://ann:secret@127.0.0.1:1/shop{query}"))


def test_a_database_that_is_not_there(postgres_server_url: str) -> None:
    found = refusal_of(with_database(postgres_server_url, "no_such_database"))
    assert 'database "no_such_database" does not exist' in str(found)
    assert "createdb" in found.advice


def test_a_password_that_is_wrong(strict_server: PostgresServer) -> None:
    connect(url_of(strict_server, "ann"), Config(server=Server(url=""))).close()
    found = refusal_of(url_of(strict_server, "ann", "wrong-one"))
    assert 'password authentication failed for user "ann"' in str(found)
    assert "user and password" in found.advice
    assert "wrong-one" not in str(found)


def test_a_password_that_is_missing(strict_server: PostgresServer) -> None:
    found = refusal_of(strict_server.url().replace("postgres@", "ann@"))
    assert "user and password" in found.advice


def test_a_role_that_is_not_there(strict_server: PostgresServer) -> None:
    found = refusal_of(url_of(strict_server, "no_such_role"))
    assert 'role "no_such_role" does not exist' in str(found)
    assert "user and password" in found.advice


def test_no_connection_is_left(strict_server: PostgresServer) -> None:
    url = url_of(strict_server, "ann")
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(closing(psycopg.connect(url)))
        assert "max_connections" in refusal_of(url).advice


@pytest.mark.parametrize(("user", "database"), [("bob", "postgres"), ("ann", "small")])
def test_no_connection_is_left_for_this_user_or_database(
    strict_server: PostgresServer, user: str, database: str
) -> None:
    found = refusal_of(url_of(strict_server, user, database=database))
    assert "too many connections for" in str(found)
    assert "pool_size" in found.advice


def test_a_server_that_is_too_old(shared_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OLDEST_SERVER", 990_000)
    found = refusal_of(shared_url)
    assert "is too old" in str(found)
    assert found.advice == "Upgrade the server"


# --- passwords are hidden ------------------------------------------------------------------------

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://db-1/shop", "postgresql://db-1/shop"),
        ("postgres://ann@db-1:5432/shop", "postgres://ann@db-1:5432/shop"),
        (f"postgresql://ann:{SECRET}@db-1:5432/shop", "postgresql://ann@db-1:5432/shop"),
        (f"postgresql://:{SECRET}@db-1/shop", "postgresql://@db-1/shop"),
        (f"postgresql://ann:{SECRET}@db-1:5432,db-2:5433/shop", "postgresql://ann@db-1:5432,db-2:5433/shop"),
        (f"postgresql://ann:{SECRET}@[::1]:5432/shop", "postgresql://ann@[::1]:5432/shop"),
        (f"postgresql://ann:a@{SECRET}@db-1/shop", "postgresql://ann@db-1/shop"),
        (f"postgresql://ann:a?{SECRET}@db-1/shop", "postgresql://ann@db-1/shop"),
        (f"postgresql://ann:a#{SECRET}@db-1/shop", "postgresql://ann@db-1/shop"),
        (f"postgresql://ann:a/{SECRET}@db-1/shop", "postgresql://ann@db-1/shop"),
        (f"postgresql://ann:a[{SECRET}@db-1/shop", "postgresql://ann@db-1/shop"),
        (f"postgresql:///shop?user=ann&password={SECRET}", "postgresql:///shop?user=ann&password=***"),
        (f"postgresql:///shop?password={SECRET}&host=/tmp", "postgresql:///shop?password=***&host=/tmp"),
        (f"postgresql:///shop?sslpassword={SECRET}&host=/tmp", "postgresql:///shop?sslpassword=***&host=/tmp"),
        (f"postgresql:///shop?PassWord={SECRET}", "postgresql:///shop?PassWord=***"),
        (f"postgresql:///shop?oauth_client_secret={SECRET}", "postgresql:///shop?oauth_client_secret=***"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, expected: str) -> None:
    assert shown(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@127.0.0.1:1/shop",
        f"postgresql://ann@127.0.0.1:1/shop?password={SECRET}",
        f"postgresql://ann@127.0.0.1:1/shop?sslpassword={SECRET}",
        f"postgresql://ann:a?{SECRET}@127.0.0.1:1/shop",
        f"postgresql://ann:a#{SECRET}@127.0.0.1:1/shop",
        f"postgresql://ann:a/?{SECRET}=1@127.0.0.1:1/shop",
        f"postgresql://ann:a/?connect_timeout={SECRET}@127.0.0.1:1/shop?connect_timeout=1",
        f"postgresql://ann:100%{SECRET}@127.0.0.1:1/shop",
        f"postgresql://ann:a {SECRET}@127.0.0.1:1/shop",
        f"postgresql://ann:{SECRET}@127.0.0.1:port/shop",
        f"postgresql://ann:{SECRET}@[::1/shop",
        f"postgresql://ann:{SECRET}@127.0.0.1:1/shop?nonsense=1",
    ],
)
def test_no_error_shows_a_password(url: str) -> None:
    with Rowcall(url) as jobs, pytest.raises(RowcallError) as caught:
        jobs.enqueue("task")
    assert SECRET not in str(caught.value)
    assert SECRET not in queue_of(jobs).database.name
    chained = caught.value.__cause__ if not caught.value.__suppress_context__ else None
    assert SECRET not in str(chained)
