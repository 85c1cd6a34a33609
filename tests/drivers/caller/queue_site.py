"""A queue in a database where its users have their own table."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from rowcall import Job, Rowcall
from rowcall.drivers.mysql.connection import options_of
from rowcall.task import Enqueuer
from tests.drivers.caller.callers.base import Caller, Kind
from tests.drivers.caller.callers.mysql_callers import HAS_MYSQLCLIENT

REQUIRE_MYSQLCLIENT = "ROWCALL_REQUIRE_MYSQLCLIENT"
OWN_TABLE = "create table mine (id integer, note text)"
_numbers = itertools.count(1)


class Site:
    """One for many tests: each has its own queue, and a note of that name."""

    def __init__(self, database: str, jobs: Rowcall) -> None:
        self.database = database
        self.jobs = jobs
        self._kind = database.partition("://")[0] if "://" in database else "sqlite"
        self.url = f"sqlite:///{database}" if self._kind == "sqlite" else database
        self._plain: Any = None
        if self._kind == "postgresql":
            self._plain = psycopg.connect(database, autocommit=True)
        elif self._kind == "mysql":
            self._plain = pymysql.connect(**options_of(database), autocommit=True)

        @jobs.task
        def send(to: str) -> None: ...

        self.send = send

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """On another connection, and committed at once."""
        if self._plain is None:
            with closing(sqlite3.connect(self.database, isolation_level=None)) as connection:
                return connection.execute(sql).fetchall()
        with self._plain.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    def close(self) -> None:
        if self._plain is not None:
            self._plain.close()

    def wait_for_writers(self) -> None:
        """Until every transaction that has written jobs is over: a server notices late that its client is dead."""
        if self._kind == "postgresql":
            self.execute("begin; lock table rowcall_job in exclusive mode; commit")
        elif self._kind == "mysql":
            self.execute("lock tables rowcall_job write")
            self.execute("unlock tables")


@contextlib.contextmanager
def site(database: str | Path) -> Iterator[Site]:
    with Rowcall(database, busy_timeout=5) as jobs:
        jobs.migrate()
        with closing(Site(str(database), jobs)) as made:
            made.execute(OWN_TABLE)
            yield made


class Case:
    """One test with one kind of connection."""

    def __init__(self, kind: Kind, site: Site, elsewhere: Site) -> None:
        self.kind = kind
        self.site = site
        self.elsewhere = elsewhere
        self.jobs = site.jobs
        self.queue = f"q{next(_numbers)}"
        self.troubles: list[BaseException] = []

    def run(self, scenario: Callable[[Caller], Coroutine[Any, Any, None]]) -> None:
        async def with_a_caller() -> None:
            async with self.kind.opened(self.site.database) as mine:
                await scenario(mine)

        self.kind.run(with_a_caller())

    def send(self, mine: Caller, **options: Any) -> Enqueuer[[str], Any]:
        return self.site.send.using(connection=mine.connection, queue=self.queue, **options)

    @property
    def note(self) -> str:
        """A write of the caller's own."""
        return f"insert into mine (id, note) values (1, '{self.queue}')"

    @property
    def written(self) -> list[Job]:
        """The committed jobs of this test, oldest first."""
        return self.jobs.list(queue=self.queue, limit=1000).jobs[::-1]

    @property
    def sent_to(self) -> list[object]:
        return [job.payload["to"] for job in self.written]

    @property
    def notes(self) -> int:
        return len(self.site.execute(f"select 1 from mine where note = '{self.queue}'"))


async def act(case: Case, mine: Caller, name: str, *args: object, **options: object) -> Any:
    """Call a method of the queue on the caller's connection."""
    call = getattr(case.jobs, f"a{name}" if mine.is_async else name)
    made = call(*args, connection=mine.connection, **options)
    return await made if mine.is_async else made


def case_of(request: pytest.FixtureRequest, kind: Kind) -> Case:
    """Skip the test where the driver is not installed; fail it where the environment asks for it."""
    if kind.needs_mysqlclient and not HAS_MYSQLCLIENT:
        if os.environ.get(REQUIRE_MYSQLCLIENT) == "1":
            pytest.fail(f"mysqlclient is not installed, and {REQUIRE_MYSQLCLIENT} asks for it")
        pytest.skip("mysqlclient is not installed (it needs a compiler)")
    here, elsewhere = request.getfixturevalue(f"{kind.database}_sites")
    return Case(kind, here, elsewhere)
