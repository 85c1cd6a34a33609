"""Follows one part of a page in a separate process, in its current folder: what it sets up cannot be set up twice.

python -m tests.docs.follow transactions                                  # on its file
python -m tests.docs.follow transactions postgresql://… psycopg asyncpg   # on a server, by SQLAlchemy's drivers
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.docs.databases import Drivers, File, OnServer, PageDatabase
from tests.docs.pages import PARTS, ROOT
from tests.docs.running import PageRun
from tests.support import PythonProcess


def follow_in_a_process(part: str, folder: Path, *database: str) -> str:
    """Follow a part, by its name, in an empty folder. Return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    environment.pop("ROWCALL_URL", None)
    arguments = ("-m", "tests.docs.follow", part, *database)
    with PythonProcess(*arguments, env=environment, cwd=str(folder)) as process:
        assert process.wait(within=200) == 0, process.output
        return process.output


def main(part: str, url: str | None = None, *drivers: str) -> None:
    folder = Path.cwd()
    database: PageDatabase = File(folder) if url is None else OnServer(url, url, {}, Drivers(*drivers))
    run = PageRun(folder, database)
    for block in PARTS[part]:
        if block.not_run is None:
            run.follow(block)
    run.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
