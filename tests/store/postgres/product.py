"""This product, or the one that comes after it: `python -m tests.store.postgres.product VERSION URL COMMAND`.

The later one is this code with one more migration, which adds and takes nothing away.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterator
from unittest import mock

import psycopg

from rowcall import Context, Rowcall
from rowcall.store.postgres import dialect
from rowcall.store.postgres.schema import MIGRATIONS, NEWEST_VERSION
from rowcall.store.schema import Migration

LATER_VERSION = NEWEST_VERSION + 1
BACKLOG = 200
JOBS_A_ROUND = 6
ADDITIONS = (
    "alter table <job> add column future text",
    "alter table <worker> add column future text",
    "create index <prefix>job_future on <job> (future) where future is not null",
)


@contextlib.contextmanager
def later_product(oldest: int = NEWEST_VERSION) -> Iterator[None]:
    """In here this is a later version, whose tables suit the code of `oldest` and of all that came after it."""
    later = Migration(LATER_VERSION, oldest, "from the future", ADDITIONS)
    with mock.patch.multiple(dialect, MIGRATIONS=(*MIGRATIONS, later), NEWEST_VERSION=LATER_VERSION):
        yield


def work(jobs: Rowcall, url: str, version: str) -> None:
    """Each run leaves a row, outside of the queue's own transactions."""
    journal = psycopg.connect(url, autocommit=True)
    lock = threading.Lock()

    @jobs.task
    def note(ctx: Context) -> None:
        with lock:
            journal.execute("insert into ran values (%s, %s, %s)", [ctx.job.id, version, os.getpid()])

    jobs.work(concurrency=4)


def produce(jobs: Rowcall, url: str, version: str) -> None:
    """Enqueue in every way, no faster than others work, until the table `stop` has a row."""
    pause = threading.Event()

    @jobs.task
    def note() -> None: ...

    with psycopg.connect(url, autocommit=True) as plain:
        while not plain.execute("select from stop").fetchall():
            if jobs.stats().by_status.get("pending", 0) > BACKLOG:
                pause.wait(0.01)
                continue
            note.enqueue()
            note.enqueue_many([{}, {}, {}])
            with plain.transaction():
                note.using(connection=plain).enqueue()
            plain.execute("insert into rowcall_job (type) values ('note')")
            plain.execute("insert into produced values (%s, %s)", [version, os.getpid()])


def main() -> None:
    version, url, command = sys.argv[1:]
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    with later_product() if version == "later" else contextlib.nullcontext(), Rowcall(url) as jobs:
        match command:
            case "migrate":
                print(jobs.migrate(), flush=True)
            case "work":
                work(jobs, url, version)
            case _:
                produce(jobs, url, version)


if __name__ == "__main__":
    main()
