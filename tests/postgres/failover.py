"""Two servers, and the processes that work and enqueue while a standby replaces its primary.

Each job has another text, as ids may be given out again. A producer writes it to its file when the call that
enqueued it has returned, and a handler writes it when it begins, and returns it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg.conninfo import conninfo_to_dict

from rowcall import Context, Rowcall, StoreUnavailable
from rowcall.task import AsyncContextTask, ContextTask
from rowcall.testing import eventually
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of
from rowcall.testing.process import ForkedProcess, PythonProcess
from tests.cli.doctor.standby import promote, standby_of
from tests.postgres.support import BOOKKEEPING, IN_TRANSACTION, ask, unfinished
from tests.worker.support import ROOT, Site, ended

PRODUCE_EVERY_SECONDS, PAUSE_AFTER_ERROR_SECONDS = 0.01, 0.05
LONG_SHARE, LONG_SECONDS = 40, 0.6  # longer than a worker waits until it asks whether an attempt is still its own
PRODUCERS, WORKERS = 2, 2
LOAD = 100
LONGEST_SECONDS = 10.0
SUCCEEDED = "select count(*) from rowcall_job where status = 'succeeded'"
LISTENING = "select count(*) from rowcall_worker where listening"
SESSIONS = "select count(*) from pg_stat_activity where query like 'listen %' or query = 'show transaction_read_only'"
TEXTS = "select payload ->> 'text' from rowcall_job"
ENDED_BY_ANOTHER = """
    select id, status, attempt, lease, error_code, payload::text, result::text from rowcall_job
    where result::jsonb is distinct from payload::jsonb -> 'text'"""
TIMES_SETTLED = "select count(*) from settled group by job_id"
FOLLOWED = "select 1 from pg_stat_replication where state = 'streaming' and sync_state = %s"


class Replicated(Protocol):
    """Two servers, of which the new primary is the one that a promotion makes."""

    url: str
    new: str

    def promote_standby(self) -> None:
        """Return when the standby is a primary."""


class Pair:
    """A primary and a standby that follows it, with the tables of a queue and what the server itself records of it."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary, self.standby = primary, standby
        name = database_of(primary.create_database())
        ports = [conninfo_to_dict(server.url())["port"] for server in (primary, standby)]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.url = f"postgresql://postgres@{hosts}/{name}?target_session_attrs=read-write"
        self.old, self.new = (server.url(name) for server in (primary, standby))
        with Rowcall(self.old) as jobs:
            jobs.migrate()
        ask(self.old, BOOKKEEPING)

    def replicate_synchronously(self) -> None:
        self._set("synchronous_standby_names = '*'")
        eventually(lambda: ask(self.old, FOLLOWED, "sync"), message="a synchronous standby")

    def cut_off_standby(self) -> None:
        """The standby has all that was written until now, and receives nothing more."""
        written = ask(self.old, "select pg_current_wal_lsn()::text")[0]
        has_read = "select 1 where pg_last_wal_replay_lsn() >= %s::pg_lsn"
        eventually(lambda: ask(self.new, has_read, *written), message="the standby has read everything")
        for statement in ("alter system set primary_conninfo = ''", "select pg_reload_conf()"):
            ask(self.new, statement)
        eventually(lambda: not ask(self.old, "select 1 from pg_stat_replication"), message="the end of replication")

    def demote_primary(self) -> None:
        """It still answers, on the connections that exist and on others, and refuses to write.

        A commit that still waited for the standby would wait until its client drops the connection.
        """
        self._set("default_transaction_read_only = on")
        eventually(lambda: not ask(self.old, IN_TRANSACTION), message="the end of all transactions")

    def promote_standby(self) -> None:
        promote(self.standby)

    def _set(self, setting: str) -> None:
        for statement in (f"alter system set {setting}", "select pg_reload_conf()"):
            ask(self.old, statement)


@contextlib.contextmanager
def replicated() -> Iterator[Pair]:
    with PostgresServer(in_memory=True) as primary, standby_of(primary) as standby:
        yield Pair(primary, standby)


class Tasks:
    """The queue of one process: what its handlers begin is a line of the journal."""

    def __init__(self, url: str, folder: Path) -> None:
        self.jobs = Rowcall(url)
        self.site = Site(folder)
        self.carry, self.hold = declared(self.jobs, self.site)


def declared(jobs: Rowcall, site: Site) -> tuple[AsyncContextTask[[str], str], ContextTask[[str], str]]:
    @jobs.task(max_attempts=100)
    async def carry(ctx: Context, text: str) -> str:
        site.trace(text, ctx.job.id, ctx.job.attempt)
        await asyncio.sleep(LONG_SECONDS if hash_of(text) % LONG_SHARE == 0 else 0)
        return text

    @jobs.task
    def hold(ctx: Context, text: str) -> str:
        site.trace("start", text)
        site.wait_until_open(text)
        site.trace("end", text)
        return text

    return carry, hold


def hash_of(text: str) -> int:
    return int(text.rpartition("-")[2])


class Producer:
    """Enqueues in several ways until it is killed. What fails is not tried again: it was not acknowledged."""

    def __init__(self, url: str, folder: Path, name: str) -> None:
        self._url = url
        self._tasks = Tasks(url, folder)
        self._acknowledged = (folder / f"acknowledged-{name}").open("a", buffering=1)
        self._name = name
        self._count = 0
        self._own: psycopg.Connection | None = None

    def run(self) -> None:
        ways: list[Callable[[], list[str]]] = [self._one, self._many, self._async, self._in_own_transaction]
        pause = threading.Event()
        while True:
            for way in ways:
                try:
                    enqueued = way()
                except (StoreUnavailable, psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction):
                    self._own = None
                    pause.wait(PAUSE_AFTER_ERROR_SECONDS)
                else:
                    self._acknowledged.write("".join(f"{text}\n" for text in enqueued))
                    pause.wait(PRODUCE_EVERY_SECONDS)

    def _text(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def _one(self) -> list[str]:
        text = self._text()
        self._tasks.carry.enqueue(text)
        return [text]

    def _many(self) -> list[str]:
        texts = [self._text() for _ in range(3)]
        self._tasks.carry.enqueue_many([{"text": text} for text in texts])
        return texts

    def _async(self) -> list[str]:
        texts = [self._text() for _ in range(2)]

        async def together() -> None:
            await asyncio.gather(*(self._tasks.carry.aenqueue(text) for text in texts))

        asyncio.run(together())
        return texts

    def _in_own_transaction(self) -> list[str]:
        if self._own is None:
            self._own = psycopg.connect(self._url)
        text = self._text()
        with self._own.transaction():
            self._tasks.carry.using(connection=self._own).enqueue(text)
        return [text]


def start(what: str, pair: Replicated, folder: Path, name: str) -> PythonProcess:
    return ForkedProcess("-m", "tests.postgres.failover", what, pair.url, str(folder), name, cwd=str(ROOT))


def acknowledged(folder: Path) -> set[str]:
    return {text for file in folder.glob("acknowledged-*") for text in file.read_text().splitlines()}


class Load:
    """Producers and workers, from before the promotion until all that they enqueued has ended."""

    def __init__(self, pair: Replicated, folder: Path, stack: ExitStack) -> None:
        self._pair, self._folder = pair, folder
        self.jobs = stack.enter_context(Rowcall(pair.url))
        self._workers = [stack.enter_context(start("work", pair, folder, "default")) for _ in range(WORKERS)]
        self._producers = [stack.enter_context(start("produce", pair, folder, f"p{n}")) for n in range(PRODUCERS)]

    def await_more(self, count: int = LOAD) -> None:
        wanted = len(acknowledged(self._folder)) + count
        eventually(lambda: len(acknowledged(self._folder)) >= wanted, message=f"{wanted} acknowledged jobs")

    def promote(self) -> None:
        """The workers continue without help, and producers too."""
        self._pair.promote_standby()
        promoted_at, before = time.monotonic(), ask(self._pair.new, SUCCEEDED)
        eventually(lambda: ask(self._pair.new, SUCCEEDED) > before, message="a job that ends")
        seconds = time.monotonic() - promoted_at
        print(f"workers continued {seconds:.2f} s after the promotion")
        assert seconds < LONGEST_SECONDS
        self.await_more()

    def end(self) -> None:
        for producer in self._producers:
            producer.close()
        eventually(lambda: unfinished(self.jobs) == 0, within=60, message="the end of all jobs")
        for worker in self._workers:
            assert worker.alive, worker.output

    def check_notifications(self, workers: int) -> None:
        """The workers listen to the new primary, and a job of another process wakes one."""
        eventually(lambda: ask(self._pair.new, LISTENING) == [(workers,)], message="workers that listen")
        eventually(lambda: ask(self._pair.new, SESSIONS) == [(workers,)], message="their sessions")
        enqueued_at = time.monotonic()
        with Rowcall(self._pair.new) as elsewhere:
            assert ended(elsewhere, elsewhere.enqueue("carry", {"text": "after-1"})).status == "succeeded"
        print(f"an idle worker ended a job {(time.monotonic() - enqueued_at) * 1000:.0f} ms after its enqueue began")

    def check_rows(self) -> set[str]:
        """Return the texts of all jobs that are there. Each was settled once, by who ran it."""
        assert set(ask(self._pair.new, TIMES_SETTLED)) == {(1,)}
        others = ask(self._pair.new, ENDED_BY_ANOTHER)
        assert others == [], others
        return {text for (text,) in ask(self._pair.new, TEXTS)}


def main() -> None:
    what, url, folder, name = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    if what == "produce":
        Producer(url, Path(folder), name).run()
    Tasks(url, Path(folder)).jobs.work(concurrency=20, queues=name.split(","), log_jobs="failures")


if __name__ == "__main__":
    main()
