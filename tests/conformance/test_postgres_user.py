"""A user of a PostgreSQL server who has exactly the documented privileges."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator

import psycopg
import pytest

from rowcall.store.postgres.dialect import catalogue
from rowcall.store.postgres.privileges import grants
from rowcall.testing.postgres_database import Databases, database_of
from tests.conformance.store import Row
from tests.spare_databases import SpareDatabase, SpareDatabases

OF_THE_OWNER = ("lock_tallies", "lock_ready", "restart_ids")  # to recount, and to empty a queue in a test


class UserStore:
    """A database as the app's user sees it. The outsider is its owner."""

    def __init__(self, owner: SpareDatabase, user: str) -> None:
        self.url = owner.url.replace("postgres@", f"{user}@", 1)
        self.execute: Callable[[str], list[Row]] = owner.execute


@pytest.fixture(scope="session")
def user(databases: Databases, postgres_server_url: str) -> Iterator[str]:
    name = f"rowcall_{secrets.token_hex(4)}"
    with psycopg.connect(postgres_server_url, autocommit=True) as server:
        server.execute(f"create role {name} login".encode())
        yield name
        server.execute(f"drop role {name}".encode())


@pytest.fixture(scope="session")
def databases_for_user(databases: Databases, postgres_template: str, user: str) -> Iterator[SpareDatabases]:
    template = databases.create(template=postgres_template)
    with psycopg.connect(template) as owner:
        owner.execute(";".join(grants(user, "rowcall_")).encode())
    with contextlib.closing(SpareDatabases(databases, database_of(template))) as spare:
        yield spare
    databases.drop(database_of(template))


def test_every_statement_is_allowed(databases_for_user: SpareDatabases, user: str) -> None:
    with databases_for_user.database() as owner, psycopg.connect(UserStore(owner, user).url) as connection:
        for name, text in catalogue("rowcall_").texts().items():
            if name not in (
                *OF_THE_OWNER,
                "lock_savepoint",
                "back_to_lock",
                "release_lock",
            ):  # no privilege is needed for these
                connection.execute(f"prepare one as {text}".encode())
                [(count,)] = connection.execute(
                    "select cardinality(parameter_types) from pg_prepared_statements where name = 'one'"
                )
                nulls = f"({', '.join(['null'] * count)})" if count else ""
                connection.execute(f"explain execute one{nulls}".encode())  # it checks the privileges, and runs nothing
                connection.execute("deallocate one")
