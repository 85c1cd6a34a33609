"""docs/transactions.md, run on a file and on a server, with each of SQLAlchemy's drivers."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal

import aiosqlite
import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine

from rowcall import Rowcall
from tests.docs.follow import follow_in_a_process

pytestmark = pytest.mark.no_tables

ANYWHERE = {"gil", "hal", "ivy", "jan", "kim", "lea", "liz", "mia", "ned", "pia", "rob", "sue"}

Follow = Callable[..., str]


@pytest.fixture
def follow(tmp_path: Path) -> Follow:
    return partial(follow_in_a_process, "transactions", tmp_path)


def names(addresses: list[str]) -> list[str]:
    return sorted(address.removesuffix("@example.com") for address in addresses)


def welcomed(url: Path | str) -> list[str]:
    """Return the addresses of all jobs."""
    with Rowcall(url) as jobs:
        return names([str(job.payload["address"]) for job in jobs.list(type="welcome", limit=100).jobs])


def assert_refusals(printed: str) -> None:
    assert "neither the user nor the job" in printed
    assert "Engine only makes connections: pass one of them" in printed
    assert "welcome: argument 'address': expected `str`, got `null`" in printed


def test_on_a_file(follow: Follow, tmp_path: Path) -> None:
    printed = follow()
    assert_refusals(printed)
    assert "BEGIN IMMEDIATE" in printed
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        users = names([row[0] for row in connection.execute("select address from users")])
    assert users == sorted(ANYWHERE | {"ann", "bob", "quin"})
    assert welcomed(tmp_path / "app.db") == sorted([*users, "other"])


@pytest.mark.parametrize("drivers", [("psycopg", "asyncpg"), ("psycopg2", "psycopg")], ids="-".join)
def test_on_a_server(drivers: tuple[str, str], follow: Follow, postgres_url: str) -> None:
    assert_refusals(follow(postgres_url, *drivers))
    with psycopg.connect(postgres_url) as connection:
        users = names([row[0] for row in connection.execute("select address from users")])
    assert users == sorted(ANYWHERE | {"cas", "dan", "eve", "fay"})
    assert welcomed(postgres_url) == users


def enqueue_on_sqlite3(jobs: Rowcall, url: str, isolation_level: Literal["DEFERRED"] | None = "DEFERRED") -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=isolation_level)) as connection:
        jobs.enqueue("welcome", connection=connection)


def enqueue_on_aiosqlite(jobs: Rowcall, url: str) -> None:
    async def enqueue() -> None:
        async with aiosqlite.connect(url.removeprefix("sqlite:///")) as connection:
            await jobs.aenqueue("welcome", connection=connection)

    asyncio.run(enqueue())


def enqueue_on_psycopg(jobs: Rowcall, url: str, autocommit: bool = False) -> None:
    with closing(psycopg.connect(url, autocommit=autocommit)) as connection:
        jobs.enqueue("welcome", connection=connection)


def enqueue_on_asyncpg(jobs: Rowcall, url: str) -> None:
    async def enqueue() -> None:
        connection = await asyncpg.connect(url)
        await jobs.aenqueue("welcome", connection=connection)
        await connection.close()

    asyncio.run(enqueue())


def enqueue_on_sqlalchemy(jobs: Rowcall, url: str, **options: str) -> None:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"), **options)
    with engine.connect() as connection:
        jobs.enqueue("welcome", connection=connection)
    engine.dispose()


@pytest.mark.parametrize(
    ("enqueue", "options", "at_once"),
    [
        (enqueue_on_sqlite3, {}, False),
        (enqueue_on_aiosqlite, {}, False),
        (enqueue_on_sqlalchemy, {}, False),
        (enqueue_on_sqlite3, {"isolation_level": None}, True),
        (enqueue_on_sqlalchemy, {"isolation_level": "AUTOCOMMIT"}, True),
    ],
)
def test_no_transaction_open_on_a_file(
    enqueue: Callable[..., None], options: dict[str, object], at_once: bool, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    with Rowcall(url) as jobs:
        jobs.migrate()
        enqueue(jobs, url, **options)
        assert jobs.stats().total == at_once


@pytest.mark.parametrize(
    ("enqueue", "options", "at_once"),
    [
        (enqueue_on_psycopg, {}, False),
        (enqueue_on_sqlalchemy, {}, False),
        (enqueue_on_psycopg, {"autocommit": True}, True),
        (enqueue_on_sqlalchemy, {"isolation_level": "AUTOCOMMIT"}, True),
        (enqueue_on_asyncpg, {}, True),
    ],
)
def test_no_transaction_open_on_a_server(
    enqueue: Callable[..., None], options: dict[str, object], at_once: bool, postgres_url: str
) -> None:
    with Rowcall(postgres_url) as jobs:
        jobs.migrate()
        enqueue(jobs, postgres_url, **options)
        assert jobs.stats().total == at_once
