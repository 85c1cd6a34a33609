"""Connections that are refused: each error says why and what to do, and hides the password."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.private_server import free_port
from tests.postgres.support import OUT_OF_REACH, PostgresSite, ask

SECRETS = ["hunter2", "wr0ng", "p@ss:w/rd?#", "p%40ss%3Aw%2Frd%3F%23"]


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    """A server that asks `ann` and `bob` for their passwords."""
    with PostgresServer(in_memory=True) as server:
        ask(server.url(), "create role ann login superuser password 'hunter2'")
        ask(server.url(), "create role bob login superuser password 'p@ss:w/rd?#'")
        rules = server.data / "pg_hba.conf"
        rules.write_text(f"host all ann,bob 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        ask(server.url(), "select pg_reload_conf()")
        yield server


def url_of(server: PostgresServer, user: str, database: str = "postgres", options: str = "") -> str:
    return f"{server.url(database).replace('postgres@', f'{user}@', 1)}{options}"


def refusal_of(url: str, **options: str) -> StoreUnavailable:
    with Rowcall(url, **options) as jobs, pytest.raises(StoreUnavailable) as caught:  # type: ignore[arg-type]
        jobs.enqueue("task")
    return caught.value


def check_no_secret_in(text: str) -> None:
    assert [secret for secret in SECRETS if secret in text] == []


@pytest.mark.parametrize("user", ["ann:hunter2", "bob:p%40ss%3Aw%2Frd%3F%23"])
def test_the_right_password(guarded: PostgresServer, user: str) -> None:
    with Rowcall(url_of(guarded, user), table_prefix=f"{user[:3]}_") as jobs:
        assert jobs.enqueue("task").id == 1
        check_no_secret_in(queue_of(jobs).database.name)


@pytest.mark.parametrize(
    ("user", "options"),
    [
        ("ann:wr0ng", ""),
        ("ann", "?password=wr0ng"),
        ("bob:hunter2", ""),
        ("ann:p%40ss%3Aw%2Frd%3F%23", ""),
        ("ann", ""),
    ],
)
def test_a_wrong_password(guarded: PostgresServer, user: str, options: str) -> None:
    error = refusal_of(url_of(guarded, user, options=options))
    assert "password" in error.problem
    assert error.advice == "Check the URL's user and password, and the server's pg_hba.conf"
    check_no_secret_in(str(error) + repr(error) + "".join(traceback.format_exception(error)))


def test_a_role_that_does_not_exist(guarded: PostgresServer) -> None:
    error = refusal_of(url_of(guarded, "nobody-here:hunter2"))
    assert 'role "nobody-here" does not exist' in error.problem
    assert error.advice == "Check the URL's user and password, and the server's pg_hba.conf"
    check_no_secret_in(str(error))


def test_a_database_that_does_not_exist(guarded: PostgresServer) -> None:
    error = refusal_of(url_of(guarded, "ann:hunter2", "not-there"))
    assert 'database "not-there" does not exist' in error.problem
    assert error.advice == "Create it first (createdb), or check the URL"
    check_no_secret_in(str(error))


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_no_server_at_that_address(host: str) -> None:
    address = f"{host}:{free_port()}"
    error = refusal_of(f"postgresql://ann:hunter2@{address}/shop")
    assert f"postgresql://ann@{address}/shop: cannot connect" in error.problem
    assert error.advice == "Is the server up, and is the URL right?"
    check_no_secret_in(str(error) + repr(error) + "".join(traceback.format_exception(error)))


@pytest.mark.parametrize("options", ["?sslmode=nonsense", "?no_such_option=1", "?connect_timeout=soon"])
def test_options_that_libpq_does_not_take(guarded: PostgresServer, options: str) -> None:
    error = refusal_of(url_of(guarded, "ann:hunter2", options=options))
    assert options[1:].split("=")[0 if "no_such" in options else 1] in error.problem
    check_no_secret_in(str(error) + "".join(traceback.format_exception(error)))


def test_what_shows_the_configuration_shows_no_password(guarded: PostgresServer) -> None:
    url = url_of(guarded, "ann:hunter2", options="?application_name=shop")
    with Rowcall(url, listen_url=url_of(guarded, "bob:p%40ss%3Aw%2Frd%3F%23")) as jobs:
        check_no_secret_in(repr(jobs) + repr(queue_of(jobs).config) + str(queue_of(jobs).config))


@pytest.mark.crash
def test_a_worker_s_log_shows_no_password(guarded: PostgresServer, tmp_path: Path) -> None:
    guarded.create_database("logged")
    site = PostgresSite(tmp_path, url_of(guarded, "ann:hunter2", "logged"))
    with site.jobs as jobs:
        jobs.migrate()
        with site.worker(lease=0.5) as worker:
            guarded.stop("immediate")
            worker.wait_for(OUT_OF_REACH)
            guarded.start()
            worker.wait_for("the database is back")
            check_no_secret_in(worker.output)
