"""Follows one page in a separate process, in its current folder: what the page sets up cannot be set up twice.

python -m tests.docs.follow docs/transactions.md                                  # on its file
python -m tests.docs.follow docs/transactions.md postgresql://… psycopg asyncpg   # on a server, by SQLAlchemy's drivers
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs.databases import Drivers, File, OnServer, PageDatabase
from tests.docs.pages import blocks
from tests.docs.running import PageRun


def main(page: str, url: str | None = None, *drivers: str) -> None:
    folder = Path.cwd()
    database: PageDatabase = File(folder) if url is None else OnServer(url, url, {}, Drivers(*drivers))
    run = PageRun(folder, database)
    for block in blocks(Path(page)):
        if block.not_run is None:
            run.follow(block)
    run.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
