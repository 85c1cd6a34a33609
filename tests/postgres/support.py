"""A database on a PostgreSQL server, beside the journal and the gates of a place, and worker processes on it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, cast

import psycopg

from rowcall import Rowcall
from rowcall.testing.process import PythonProcess
from tests.worker.support import FINISHED, ROOT, MovedClock, Place

Row = tuple[Any, ...]
ATTEMPTS = "select job_id, attempt, status, worker from rowcall_attempts order by job_id, seq"
OUT_OF_REACH = "the database is out of reach"
THERE_AGAIN = "the database is there again"


class Site(Place):
    """A place whose database is on a server. `options` are those of the queue, here and in every worker process."""

    def __init__(self, folder: Path, url: str, **options: Any) -> None:
        self.folder = folder
        self.url = url
        self._journal = folder / "journal"
        self._options = options
        clock = MovedClock(folder) if options.get("moved_clock") else None
        self.jobs = Rowcall(url, clock=clock, **{name: options[name] for name in options if name != "moved_clock"})

    def start_worker(self, **settings: object) -> PythonProcess:
        """A process that runs `tests.postgres.program`; `env` adds to its environment, the rest is for its worker."""
        env = {**os.environ, **cast(dict[str, str], settings.pop("env", {}))}
        given = json.dumps({"options": self._options, "settings": settings})
        return PythonProcess("-m", "tests.postgres.program", self.url, str(self.folder), given, cwd=str(ROOT), env=env)


def ask(url: str, sql: str, *parameters: object) -> list[Row]:
    """What a client that knows nothing of Rowcall is told."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql.encode(), parameters or None)
        return cursor.fetchall() if cursor.description is not None else []


def unfinished(jobs: Rowcall) -> int:
    return sum(count for status, count in jobs.stats().by_status.items() if status not in FINISHED)


def pid_of(worker: object) -> int:
    """Of the process in a worker's name: `host:pid:part`."""
    return int(str(worker).rsplit(":", 2)[1])


def times_said(process: PythonProcess, text: str) -> int:
    return len(re.findall(re.escape(text), process.output))
