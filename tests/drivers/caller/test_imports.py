"""No framework is imported unless the caller passed one of its objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rowcall.testing.process import PythonProcess

FRAMEWORKS = (
    *("sqlalchemy", "sqlmodel", "django", "asyncpg", "aiosqlite", "psycopg", "psycopg_pool", "psycopg2"),
    *("pymysql", "MySQLdb", "aiomysql", "asyncmy"),
)

PROGRAM = """
import asyncio, sys
from rowcall import Context, Rowcall
jobs = Rowcall(sys.argv[1])
database = sys.argv[1].removeprefix("sqlite:///")

@jobs.task
def work(ctx: Context) -> None: ...

def pass_in(connection):
    work.using(connection=connection).enqueue()
    work.using(connection=connection).enqueue_many([{}])

async def apass_in(connection):
    await work.using(connection=connection).aenqueue()
    await work.using(connection=connection).aenqueue_many([{}])

%s
work.enqueue()
asyncio.run(work.aenqueue())
assert jobs.stats().total == %d, jobs.stats()
print(jobs.drain())
print("imported:", *sorted(set(sys.modules) & set(%r)))
jobs.close()
"""

ALONE = ""
SQLITE3 = """
import sqlite3
connection = sqlite3.connect(database)
pass_in(connection)
connection.commit()
"""
AIOSQLITE = """
import aiosqlite
async def main():
    async with aiosqlite.connect(database) as connection:
        await apass_in(connection)
        await connection.commit()
asyncio.run(main())
"""
PSYCOPG = """
import psycopg
with psycopg.connect(database) as connection:
    pass_in(connection)
"""
ASYNCPG = """
import asyncpg
async def main():
    connection = await asyncpg.connect(database)
    await apass_in(connection)
    await connection.close()
asyncio.run(main())
"""
SQLALCHEMY = """
import sqlalchemy
engine = sqlalchemy.create_engine(sys.argv[1].replace("postgresql:", "postgresql+psycopg2:"))
with engine.begin() as connection:
    pass_in(connection)
"""
SQLALCHEMY_ASYNC = """
from sqlalchemy.ext.asyncio import create_async_engine
engine = create_async_engine(sys.argv[1].replace("sqlite:", "sqlite+aiosqlite:"))
async def main():
    async with engine.begin() as connection:
        await apass_in(connection)
    await engine.dispose()
asyncio.run(main())
"""
DJANGO = """
import django
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": database}})
django.setup()
from django.db import connection
pass_in(connection)
pass_in("default")
"""
ON_SQLITE: Mapping[str, tuple[str, int, set[str]]] = {
    "alone": (ALONE, 0, set()),
    "sqlite3": (SQLITE3, 2, set()),
    "aiosqlite": (AIOSQLITE, 2, {"aiosqlite"}),
    "sqlalchemy": (SQLALCHEMY, 2, {"sqlalchemy"}),
    "sqlalchemy-async": (SQLALCHEMY_ASYNC, 2, {"sqlalchemy", "aiosqlite"}),
    "django": (DJANGO, 4, {"django"}),
}
OWN = {"psycopg", "psycopg_pool"}
ON_POSTGRESQL: Mapping[str, tuple[str, int, set[str]]] = {
    "alone": (ALONE, 0, OWN),
    "psycopg": (PSYCOPG, 2, OWN),
    "asyncpg": (ASYNCPG, 2, OWN | {"asyncpg"}),
    "sqlalchemy": (SQLALCHEMY, 2, OWN | {"sqlalchemy", "psycopg2"}),
}


def imported_by(url: str, pass_in: str, jobs: int) -> set[str]:
    with PythonProcess("-c", PROGRAM % (pass_in, jobs + 2, FRAMEWORKS), url) as process:
        assert process.wait() == 0, process.output
        said = process.output.splitlines()[-1]
    assert said.startswith("imported:"), said
    return set(said.split()[1:])


@pytest.mark.parametrize("kind", ON_SQLITE)
def test_on_sqlite(tmp_path: Path, kind: str) -> None:
    program, jobs, expected = ON_SQLITE[kind]
    assert imported_by(f"sqlite:///{tmp_path}/app.db", program, jobs) == expected


@pytest.mark.parametrize("kind", ON_POSTGRESQL)
def test_on_postgresql(postgres_url: str, kind: str) -> None:
    program, jobs, expected = ON_POSTGRESQL[kind]
    assert imported_by(postgres_url, program, jobs) == expected


def test_a_refused_object_imports_nothing(tmp_path: Path) -> None:
    """Not even one that has the name of a framework's."""
    program = """
from rowcall import InvalidOption
class AsyncSession: ...
class Session: ...
for wrong in (AsyncSession(), Session(), object(), "default"):
    for use in (pass_in, lambda one: asyncio.run(apass_in(one))):
        try:
            use(wrong)
        except InvalidOption:
            pass
        else:
            raise AssertionError(wrong)
"""
    assert imported_by(f"sqlite:///{tmp_path}/app.db", program, 0) == set()
