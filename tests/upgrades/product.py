"""This product, or the one that comes after it: `python -m tests.upgrades.product VERSION URL COMMAND NOTES [SHARE]`.

The later one is this code with one more migration, and its tables suit the earlier one. Those of the breaking one
and of the renaming one do not.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest import mock

import psycopg

from rowcall import Context, Rowcall
from rowcall.store.migration import Migration
from rowcall.store.postgres import dialect as postgres
from rowcall.store.postgres.schema import NEWEST_VERSION
from rowcall.store.sqlite import dialect as sqlite
from tests.conformance.notes import Notes
from tests.faults.injection import Fault, Injector, injected

LATER_VERSION = NEWEST_VERSION + 1
BACKLOG = 200
JOBS_A_ROUND = 6
ADDITIONS = (
    "alter table <job> add column future text",
    "alter table <worker> add column future text",
    "update <job> set future = type",
    "create index <prefix>job_future on <job> (future) where future is not null",
    "create table <prefix>future (job_id bigint primary key references <job> (id) on delete cascade, note text)",
    "insert into <prefix>future (job_id, note) select id, type from <job> where status = 'scheduled'",
)

SCHEMA = {
    "sqlite": "select type, name, sql from sqlite_master order by 1, 2",
    "postgresql": """
        select relname::text, relkind::text, attname::text, atttypid::regtype::text from pg_class
        left join pg_attribute on attrelid = pg_class.oid and not attisdropped
        where relnamespace = 'public'::regnamespace
        union all select proname::text, 'function', md5(prosrc), '' from pg_proc
        where pronamespace = 'public'::regnamespace order by 1, 2, 3, 4""",
}


@contextlib.contextmanager
def later_product(oldest: int = NEWEST_VERSION, statements: tuple[str, ...] = ADDITIONS) -> Iterator[None]:
    """In here this is a later version, whose tables suit the code of `oldest` and of all that came after it."""
    later = Migration(LATER_VERSION, oldest, "from the future", statements)
    with contextlib.ExitStack() as stack:
        for dialect in (sqlite, postgres):
            patched = mock.patch.multiple(
                dialect, MIGRATIONS=(*dialect.MIGRATIONS, later), NEWEST_VERSION=LATER_VERSION
            )
            stack.enter_context(patched)
        yield


@contextlib.contextmanager
def _renaming_product() -> Iterator[None]:
    """In here triggers are left as they are: those of today would name a table that is gone."""
    with contextlib.ExitStack() as stack:
        for dialect in (sqlite, postgres):
            stack.enter_context(mock.patch.object(dialect.schema, "CODE", ()))
        stack.enter_context(later_product(LATER_VERSION, ("alter table <claim> rename to <prefix>held",)))
        yield


def migrate_and_die(url: str, number: int) -> int:
    """Migrate in a child that dies after a statement, as SIGKILL ends it, and return its wait status."""
    child = os.fork()
    if not child:
        injector, code = Injector(), 1
        try:
            with injected(injector):
                jobs = Rowcall(url)
                injector.arm(number, Fault.DIES_AFTER)
                jobs.migrate()
                code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def kill_at_each_statement(url: str, share: int) -> int:
    """Let migrations die after each statement, or one of `share`. Return how many there are: the last is the commit."""
    before, number = _schema(url), 1
    while True:
        status = migrate_and_die(url, number)
        if _schema(url) != before:
            return number
        assert os.WIFSIGNALED(status), f"nothing was done, with {number} statements"
        assert os.WTERMSIG(status) == signal.SIGKILL
        number += share


def _schema(url: str) -> list[tuple[object, ...]]:
    with closing(_plain(url)) as plain:
        if isinstance(plain, sqlite3.Connection):
            return plain.execute(SCHEMA["sqlite"]).fetchall()
        return plain.execute(SCHEMA["postgresql"]).fetchall()


def work(jobs: Rowcall, notes: Notes, version: str) -> None:
    @jobs.task
    def note(ctx: Context) -> None:
        notes.write(f"ran:{version}", ctx.job.id, ctx.job.attempt)

    jobs.work(concurrency=4, lease=3)


def produce(jobs: Rowcall, url: str, notes: Notes, version: str) -> None:
    """Enqueue in every way, no faster than others work, until there is a note to stop."""
    pause = threading.Event()

    @jobs.task
    def note() -> None: ...

    with closing(_plain(url)) as plain:
        while not notes.read("stop"):
            if jobs.stats().by_status.get("pending", 0) > BACKLOG:
                pause.wait(0.01)
                continue
            note.enqueue()
            note.enqueue_many([{}, {}, {}])
            plain.execute("begin" if isinstance(plain, psycopg.Connection) else "begin immediate")
            note.using(connection=plain).enqueue()
            plain.execute("commit")
            plain.execute("insert into rowcall_job (type) values ('note')")
            notes.write(f"produced:{version}")
            pause.wait(0.01)  # a writer that never pauses leaves no room for others on SQLite


def _plain(url: str) -> sqlite3.Connection | psycopg.Connection:
    if url.startswith("postgresql"):
        return psycopg.connect(url, autocommit=True)
    return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)


def main() -> None:
    version, url, command, path, *rest = sys.argv[1:]
    notes = Notes(Path(path))
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    versions: dict[str, contextlib.AbstractContextManager[None]] = {
        "earlier": contextlib.nullcontext(),
        "later": later_product(),
        "breaking": later_product(LATER_VERSION),
        "renaming": _renaming_product(),
    }
    with versions[version], Rowcall(url) as jobs:
        match command:
            case "migrate":
                print(jobs.migrate(), flush=True)
            case "kill":
                print(kill_at_each_statement(url, int(rest[0])), flush=True)
            case "work":
                work(jobs, notes, version)
            case _:
                produce(jobs, url, notes, version)


if __name__ == "__main__":
    main()
