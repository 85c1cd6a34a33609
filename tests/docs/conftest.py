from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

USERS = ("shop_app", "shop_web")


@pytest.fixture(autouse=True)
def undo_logging(same_logging: None) -> None:
    """Some pages create apps of frameworks that set up logging."""


@pytest.fixture
def users(postgres_server_url: str) -> Iterator[dict[str, str]]:
    """A name on the server for each user that pages create; dropped with the database."""
    names = {user: f"{user}_{secrets.token_hex(4)}" for user in USERS}
    yield names
    with psycopg.connect(postgres_server_url, autocommit=True) as connection:
        for name in names.values():
            connection.execute(f"drop role if exists {name}".encode())
