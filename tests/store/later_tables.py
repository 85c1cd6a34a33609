"""Made-up migrations that later versions of the product might have: `python -m tests.store.later_tables URL` is killed
in the middle of one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import ModuleType
from unittest import mock

from rowcall import Rowcall
from rowcall.store.migration import Migration
from rowcall.store.sqlite import dialect as sqlite

ADD_COLUMN = "alter table <job> add column future text"
FILL_COLUMN = "update <job> set future = type"
ADD_INDEX = "create index <prefix>job_future on <job> (future)"


@contextlib.contextmanager
def later(database: ModuleType, *steps: tuple[str, ...]) -> Iterator[int]:
    """Add migrations to the product in this block, and return the newest version."""
    first = database.NEWEST_VERSION
    more = tuple(
        Migration(version, version, f"made up {version}", statements)
        for version, statements in enumerate(steps, start=first + 1)
    )
    newest = first + len(steps)
    with mock.patch.multiple(database, MIGRATIONS=(*database.MIGRATIONS, *more), NEWEST_VERSION=newest):
        yield newest


class KilledAfterTheFirst(tuple[str, ...]):
    def __iter__(self) -> Iterator[str]:
        yield self[0]
        os.kill(os.getpid(), signal.SIGKILL)


def main(url: str) -> None:
    database: ModuleType = sqlite
    if url.startswith("postgresql:"):
        from rowcall.store.postgres import dialect as postgres

        database = postgres
    with later(database, KilledAfterTheFirst([ADD_COLUMN, FILL_COLUMN])), Rowcall(url) as jobs:
        jobs.migrate()


if __name__ == "__main__":
    main(sys.argv[1])
