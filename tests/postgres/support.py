"""A database on a PostgreSQL server, next to the journal and the gates of a site, and worker processes on it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psycopg

from rowcall import Rowcall
from rowcall.testing.deadline import eventually
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.process import ForkedProcess, PythonProcess
from tests.worker.support import FINISHED, ROOT, MovedClock, Site

Row = tuple[Any, ...]
ATTEMPTS = "select job_id, attempt, status, worker from rowcall_attempts order by job_id, seq"
IN_TRANSACTION = """
    select from pg_stat_activity
    where datname = current_database() and state <> 'idle' and backend_type = 'client backend'
      and pid <> pg_backend_pid()
"""
# written by the server itself, in the transactions that settle: what a worker believes does not count
BOOKKEEPING = """
create table settled (job_id bigint not null, lease bigint not null);
create table taken (job_id bigint not null, lease bigint not null);
create function note_settled() returns trigger language plpgsql as $body$
begin
  insert into settled values (new.id, new.lease);
  return null;
end
$body$;
create function note_taken() returns trigger language plpgsql as $body$
begin
  insert into taken values (old.job_id, old.lease);
  return null;
end
$body$;
create trigger note_settled after update on rowcall_job for each row
when (new.status = 'succeeded' or old.status = 'succeeded') execute function note_settled();
create trigger note_taken after delete on rowcall_claim for each row execute function note_taken();
"""
OUT_OF_REACH = "the database is out of reach"
THERE_AGAIN = "the database is back"


class PostgresSite(Site):
    """A site whose database is on a server. `options` are those of the queue, here and in every worker process."""

    def __init__(self, folder: Path, url: str, **options: Any) -> None:
        self.folder = folder
        self.url = url
        self._journal = folder / "journal"
        self._options = options
        clock = MovedClock(folder) if options.get("moved_clock") else None
        self.jobs = Rowcall(url, clock=clock, **{name: options[name] for name in options if name != "moved_clock"})

    def start_worker(self, **settings: object) -> PythonProcess:
        """A process that runs `tests.postgres.program`.

        `env` adds to its environment, `options` to those of its queue, `url` leads elsewhere; the rest is its worker's.
        """
        env = {**os.environ, **cast(dict[str, str], settings.pop("env", {}))}
        options = {**self._options, **cast(dict[str, object], settings.pop("options", {}))}
        url = str(settings.pop("url", self.url))
        given = json.dumps({"options": options, "settings": settings})
        return ForkedProcess("-m", "tests.postgres.program", url, str(self.folder), given, cwd=str(ROOT), env=env)

    def stop(self, process: PythonProcess) -> None:
        """SIGSTOP, but not inside a transaction: what that has locked stays so until the server ends it."""

        def stopped_in_a_good_moment() -> bool:
            process.send(signal.SIGSTOP)
            eventually(lambda: process.is_stopped)
            if not ask(self.url, IN_TRANSACTION):
                return True
            process.send(signal.SIGCONT)
            return False

        eventually(stopped_in_a_good_moment)


def ask(url: str, sql: str, *parameters: object) -> list[Row]:
    """Run a statement as a client that knows nothing of Rowcall, and return its rows."""
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


@contextlib.contextmanager
def frozen(server: PostgresServer) -> Iterator[None]:
    """Stop all processes of a server. The kernel still accepts connections to it, and acknowledges what is sent."""
    first = server.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)  # no further process is started now
    processes = [first, *_children(first)]
    try:
        for pid in processes[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _children(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found
