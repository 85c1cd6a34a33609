"""Databases of every age, to ask the server how it would run a statement there."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.store.postgres.databases import fill, fresh_database, migrated
from tests.store.postgres.explaining import Explainer

STATES = ("new", "empty, analyzed", "few, analyzed", "full", "full, analyzed", "full, vacuumed")
TAGS = """
    insert into rowcall_job_tag (tag, job_id, status) select 'tag' || id % 7, id, status from rowcall_job
    where id % 3 = 0"""


@pytest.fixture(scope="session")
def empty(postgres_server_url: str) -> Iterator[str]:
    with fresh_database(postgres_server_url) as url:
        with migrated(url) as connection:
            for table in ("rowcall_job", "rowcall_ready", "rowcall_claim"):
                connection.execute(f"alter table {table} set (autovacuum_enabled = off)".encode())
        yield url


@pytest.fixture(scope="session")
def full(postgres_server_url: str, empty: str) -> Iterator[str]:
    with fresh_database(postgres_server_url, copy_of=empty) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            fill(connection)
            connection.execute(TAGS)
        yield url


@pytest.fixture(scope="session", params=STATES)  # for all modules: no test writes to it
def url(request: pytest.FixtureRequest, postgres_server_url: str) -> Iterator[str]:
    source = request.getfixturevalue("full" if "full" in request.param else "empty")
    with (
        fresh_database(postgres_server_url, copy_of=source) as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        if "few" in request.param:
            connection.execute("insert into rowcall_job (type) select 'a' from generate_series(1, 3)")
        if "analyzed" in request.param:
            connection.execute("analyze")
        if "vacuumed" in request.param:
            connection.execute("vacuum analyze")
        yield url


@pytest.fixture(scope="session")
def explainer(url: str) -> Iterator[Explainer]:
    explainer = Explainer(url)
    yield explainer
    explainer.close()
