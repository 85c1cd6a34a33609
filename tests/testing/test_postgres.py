from __future__ import annotations

import psycopg

from rowcall.testing.postgres import PostgresServer


def test_committed_data_outlives_a_crash(private_postgres: PostgresServer) -> None:
    url = private_postgres.create_database()
    with psycopg.connect(url) as connection:
        connection.execute("create table kept (id int)")
    private_postgres.restart("immediate")
    assert private_postgres.url(url.rsplit("/", 1)[1]) == url
    with psycopg.connect(url) as connection:
        assert connection.execute("select count(*) from kept").fetchone() == (0,)


def test_a_database_is_new_and_empty(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("select relname from pg_class where relnamespace = 'public'::regnamespace").fetchall()
    assert rows == []
