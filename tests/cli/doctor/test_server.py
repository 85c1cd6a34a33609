"""What the doctor says of a PostgreSQL server."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from rowcall import Rowcall
from rowcall.base.clock import SystemClock
from rowcall.cli.doctor import queue_checks, server, server_queries
from rowcall.store.postgres.words import render
from rowcall.testing import eventually
from rowcall.testing.postgres import DURABLE_SETTINGS, PostgresServer
from rowcall.testing.postgres_database import create_database, database_of, drop_database, with_database
from tests.cli.conftest import APP, Examine, Run
from tests.cli.doctor.standby import standby_of
from tests.pgbouncer import PgBouncer
from tests.postgres.wire import Wire

CHECKS = [
    *("connection", "server", "writable", "clock", "durability", "connections", "pooler", "listen", "horizon"),
    *("tables", "locks", "privileges", "autovacuum", "dead rows", "waiting", "attention"),
]


@pytest.fixture(scope="module")
def durable_server() -> Iterator[PostgresServer]:
    """Set as PostgreSQL sets itself."""
    with PostgresServer(in_memory=True, settings=DURABLE_SETTINGS) as server:
        yield server


@pytest.fixture
def durable_url(durable_server: PostgresServer) -> Iterator[str]:
    url = durable_server.create_database()
    with Rowcall(url) as jobs:
        jobs.migrate()
    yield url
    durable_server.drop_database(database_of(url))


def write_app(folder: Path, url: str, options: str) -> None:
    (folder / "app.py").write_text(APP.replace('"sqlite:///queue.db"', f'"{url}", {options}'))


def change(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_a_healthy_server_is_said_to_be_well(run: Run, durable_url: str, examine: Examine) -> None:
    found = examine("--url", durable_url)
    assert found.exit_code == 0
    assert list(found.level) == CHECKS
    assert set(found.level.values()) == {"ok"}
    assert run("doctor", "--url", durable_url).stdout.endswith("no problems\n")


def test_each_question_can_be_asked(server_queue: Rowcall, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        texts = {**vars(server_queries), **vars(queue_checks)}
        queries = {name: text for name, text in texts.items() if name.isupper() and "select " in str(text)}
        assert len(queries) > 20
        for name, question in queries.items():
            connection.execute(f"prepare {name.lower()} as {render(question, 'rowcall_')}".encode())


def test_a_server_that_is_too_old(examine: Examine, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "OLDEST_SERVER", 9990000)
    found = examine("--url", postgres_url)
    assert (found.exit_code, list(found.level)) == (1, ["connection", "server"])
    assert found.advice["server"] == "Upgrade the server"


@pytest.mark.new_database
def test_a_database_that_is_read_only(examine: Examine, server_queue: Rowcall, postgres_url: str) -> None:
    change(postgres_url, f"alter database {database_of(postgres_url)} set default_transaction_read_only = on")
    found = examine()
    assert (found.exit_code, found.level["writable"]) == (1, "problem")


@pytest.mark.slow
def test_a_standby(run: Run, examine: Examine, durable_server: PostgresServer, durable_url: str) -> None:
    with standby_of(durable_server) as standby:
        found = examine("--url", standby.url(database_of(durable_url)))
        assert (found.exit_code, found.level["writable"]) == (1, "problem")
        assert "standby" in found.what["writable"]
        assert "target_session_attrs=read-write leads to the primary" in found.advice["writable"]
        assert "listen" not in found.level
        assert found.level["tables"] == "ok"
        found = examine("--url", f"{standby.url(database_of(durable_url))}?target_session_attrs=read-write")
        assert (found.exit_code, list(found.level)) == (1, ["connection"])
        assert "promote a standby" in found.advice["connection"]
        assert run("stats", "--url", standby.url(database_of(durable_url))).exit_code == 0
    change(durable_server.url(), "select pg_drop_replication_slot('following')")


@pytest.mark.parametrize(
    ("wanted", "level", "said"),
    [
        ("", "warn", "the URL names 2 hosts without target_session_attrs=read-write, so it may lead to a standby"),
        ("?target_session_attrs=any", "warn", "without target_session_attrs=read-write"),
        ("?target_session_attrs=read-write", "ok", "2, of which it connects to the primary"),
        ("?target_session_attrs=primary", "ok", "wait for no standby: a failover may lose the last ones"),
    ],
)
def test_several_hosts(
    examine: Examine, server_queue: Rowcall, postgres_url: str, wanted: str, level: str, said: str
) -> None:
    found = examine("--url", f"{several(postgres_url)}{wanted}")
    assert (found.exit_code, found.level["hosts"]) == (0, level)
    assert said in found.what["hosts"]
    assert level == "ok" or found.advice["hosts"] == "Add target_session_attrs=read-write to the URL"


def test_several_hosts_for_listening(examine: Examine, server_queue: Rowcall, postgres_url: str, folder: Path) -> None:
    write_app(folder, postgres_url, f"listen_url='{several(postgres_url)}'")
    found = examine()
    assert found.level["hosts"] == "warn"
    assert found.advice["hosts"] == "Add target_session_attrs=read-write to listen_url"


def several(url: str) -> str:
    """Name the same server twice."""
    host, port, name = (conninfo_to_dict(url)[part] for part in ("host", "port", "dbname"))
    return f"postgresql://postgres@{host}:{port},{host}:{port}/{name}"


@pytest.mark.parametrize(("shift", "said"), [(1800, "30 min behind"), (-11_000, "3 h 3 min ahead of")])
def test_clocks_that_differ(
    examine: Examine, server_queue: Rowcall, monkeypatch: pytest.MonkeyPatch, shift: int, said: str
) -> None:
    real = time.time
    monkeypatch.setattr(SystemClock, "wall", staticmethod(lambda: real() + shift))
    found = examine()
    assert (found.exit_code, found.level["clock"]) == (0, "warn")
    assert found.what["clock"] == f"the server's clock is {said} this machine's"


def test_commits_that_do_not_wait_for_the_disk(examine: Examine, durable_url: str, folder: Path) -> None:
    assert "synchronous_commit is on" in examine("--url", durable_url).what["durability"]
    change(durable_url, f"alter database {database_of(durable_url)} set synchronous_commit = off")
    assert "synchronous_commit is off" in examine("--url", durable_url).what["durability"]
    write_app(folder, durable_url, "durability='normal'")
    assert examine().level["durability"] == "ok"


def test_a_server_that_trusts_in_luck(examine: Examine, private_postgres: PostgresServer) -> None:
    found = examine("--url", private_postgres.url())
    assert found.level["durability"] == "warn"
    assert found.what["durability"].startswith("fsync and full_page_writes are off")


def test_a_database_without_all_letters(examine: Examine, postgres_server_url: str) -> None:
    name = "rowcall_doctor_ascii"
    drop_database(postgres_server_url, name)
    change(postgres_server_url, f"create database {name} template template0 encoding 'SQL_ASCII' locale 'C'")
    assert examine("--url", with_database(postgres_server_url, name)).level["encoding"] == "warn"
    drop_database(postgres_server_url, name)


@pytest.mark.new_database
def test_connections_that_run_out(examine: Examine, server_queue: Rowcall, postgres_url: str) -> None:
    server_queue.stats()
    assert re.fullmatch(r"\d+ of \d+ in use, [1-9]\d* of them by Rowcall", examine().what["connections"])
    change(postgres_url, f"alter database {database_of(postgres_url)} connection limit 2")
    # the connection that changed it may not be gone yet
    said = "2 of the 2 connections that the database allows are in use"
    eventually(lambda: examine().what["connections"] == said)
    found = examine()
    assert found.level["connections"] == "warn"
    assert "pool_size" in found.advice["connections"]


def test_a_pooler_in_between(
    examine: Examine, server_queue: Rowcall, folder: Path, postgres_url: str, pgbouncer: PgBouncer
) -> None:
    pooled = pgbouncer.url(database_of(postgres_url))
    found = examine("--url", pooled)
    assert (found.exit_code, found.level["pooler"]) == (0, "warn")
    assert "listen_url" in found.advice["pooler"]
    assert "listen" not in found.level
    assert found.level["tables"] == "ok"


@pytest.mark.parametrize(
    ("leads_to", "level", "said"),
    [("server", "ok", "notifications arrive"), ("pooler", "warn", "leads to a pooler too")],
)
def test_a_way_past_the_pooler(
    examine: Examine,
    server_queue: Rowcall,
    folder: Path,
    postgres_url: str,
    pgbouncer: PgBouncer,
    leads_to: str,
    level: str,
    said: str,
) -> None:
    pooled = pgbouncer.url(database_of(postgres_url))
    write_app(folder, pooled, f"listen_url='{postgres_url if leads_to == 'server' else pooled}'")
    found = examine()
    assert found.level["pooler"] == "ok"
    assert found.level["listen"] == level
    assert said in found.what["listen"]


def test_hints_that_do_not_arrive(
    examine: Examine,
    server_queue: Rowcall,
    folder: Path,
    postgres_url: str,
    postgres_server_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "NOTIFICATION_SECONDS", 0.1)
    elsewhere = create_database(postgres_server_url)
    write_app(folder, postgres_url, f"listen_url='{elsewhere}'")
    found = examine()
    assert found.level["listen"] == "warn"
    assert "the same database" in found.advice["listen"]
    drop_database(postgres_server_url, database_of(elsewhere))
    found = examine()
    assert found.level["listen"] == "warn"
    assert "cannot connect" in found.what["listen"]
    assert found.exit_code == 0


def test_notifications_that_are_dropped_on_the_way(
    examine: Examine, server_queue: Rowcall, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "NOTIFICATION_SECONDS", 0.1)
    with Wire(postgres_url) as wire:
        wire.swallows_notifications = True
        found = examine("--url", wire.url)
    assert wire.swallowed_notifications
    assert found.level["listen"] == "warn"
    assert "did not arrive" in found.what["listen"]
    assert "up to five seconds" in found.advice["listen"]


def test_a_queue_of_notifications_that_fills(
    examine: Examine, server_queue: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "notifications" not in examine().level
    monkeypatch.setattr(server, "FULL_NOTIFICATION_QUEUE", -1.0)
    assert examine().level["notifications"] == "warn"
