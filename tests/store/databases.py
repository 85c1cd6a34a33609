"""Real databases with the tables of one prefix: empty, or full of all kinds of jobs."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from rowcall import Rowcall, Status

PREFIX = "rowcall_"
MANY = 14_000


@contextlib.contextmanager
def migrated(path: Path, prefix: str = PREFIX) -> Iterator[sqlite3.Connection]:
    """A plain connection, as an app or a shell has it, to a file with our tables."""
    with Rowcall(path, table_prefix=prefix) as jobs:
        jobs.migrate()
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def fill(connection: sqlite3.Connection, count: int = MANY, prefix: str = PREFIX) -> None:
    """Jobs in every state, of several queues, types, priorities and workers, some with tags and some that expire.

    One of seven is running: it has a claim, of a worker or by hand.
    """
    statuses = [Status.PENDING if status is Status.RUNNING else status for status in Status]
    rows = [
        (
            f"type{number % 5}",
            ("default", "mail", "media")[number % 3],
            statuses[number % 7].value,
            number % 11,
            1_900_000_000_000 + number,
            1_900_000_900_000 if number % 4 == 0 else None,
            1_900_000_000_000 if statuses[number % 7] in ("succeeded", "failed") else None,
            f'["tag{number % 6}"]' if number % 2 else None,
        )
        for number in range(count)
    ]
    connection.execute("begin")
    connection.executemany(
        f"insert into {prefix}job (type, queue, status, priority, run_at, expires_at, claimed_at, tags)"
        " values (?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    connection.execute(
        f"""
        insert into {prefix}claim (job_id, lease, holder, worker, attempt, claimed_at, lease_until, lease_ms)
        select id, 1, id % 3, 'worker' || id % 3, 1, 1900000000000,
               case when id % 2 then 1900000000000 end, case when id % 2 then 15000 end
        from {prefix}job where id % 7 = {list(Status).index(Status.RUNNING) + 1}"""
    )
    connection.execute(f"delete from {prefix}ready where id in (select job_id from {prefix}claim)")
    connection.execute("commit")


def parameters_of(sql: str) -> list[None]:
    """As many values as a statement has parameters."""
    return [None] * max((int(number) for number in re.findall(r"\?(\d+)", sql)), default=0)


def query_plan(connection: sqlite3.Connection, sql: str) -> list[str]:
    """The steps of a query, without the words that differ between versions of SQLite."""
    rows = connection.execute(f"explain query plan {sql}", parameters_of(sql))
    return [re.sub(r"^(SCAN|SEARCH) TABLE ", r"\1 ", str(row[3])).replace("COVERING ", "") for row in rows]


def read_from(connection: sqlite3.Connection, sql: str) -> list[str]:
    """The tables and indexes whose columns a query looks at. A row that is only pointed to is not read."""
    roots = {root: str(name) for name, root in connection.execute("select name, rootpage from sqlite_master")}
    program = connection.execute(f"explain {sql}", parameters_of(sql)).fetchall()
    opened = {step[2]: roots.get(step[3], "") for step in program if step[1] == "OpenRead"}
    return sorted({opened[step[2]] for step in program if step[1] == "Column" and step[2] in opened})
