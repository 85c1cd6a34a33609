"""Databases on a server that runs already."""

from __future__ import annotations

import psycopg
import pytest

from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import (
    create_database,
    database_of,
    drop_database,
    terminate_connections,
    with_database,
)
from tests.testing.support import ask


@pytest.mark.no_tables
def test_a_database_is_new_and_empty(postgres_url: str) -> None:
    question = "select relname from pg_class where relnamespace = 'public'::regnamespace"
    assert ask(postgres_url, question) == []
    with psycopg.connect(postgres_url) as connection:
        connection.execute("create table mine (id int)")
    assert ask(postgres_url, question) == [("mine",)]


@pytest.mark.parametrize("name", ["plain", 'a "quoted" Näme'])
def test_a_database_is_dropped_despite_connections(module_server: PostgresServer, name: str) -> None:
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


@pytest.mark.new_database
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


def test_a_copy_has_what_the_template_has(module_server: PostgresServer) -> None:
    template = module_server.create_database()
    with psycopg.connect(template) as connection:
        connection.execute("create table kept as select 7 as number")
    copy = create_database(module_server.url(), template=database_of(template))
    drop_database(module_server.url(), database_of(template))
    assert ask(copy, "select number from kept") == [(7,)]
