"""What goes wrong in a storm, on each database."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Protocol

import psycopg
import pymysql

from rowcall import Rowcall, StoreUnavailable
from rowcall.testing.mysql import MysqlServer
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of
from rowcall.torture.arena import MysqlArena
from rowcall.torture.proxy import CuttingProxy
from tests.crash.storm.fleet import Fleet
from tests.crash.storm.nursery import Child
from tests.observe.plain_sql import PlainDatabase, PlainMysql, PlainPostgres, PlainSqlite
from tests.postgres.support import ask
from tests.postgres.wire import CLAIM, SETTLE, Wire

PRODUCERS = 10
LONGEST_STOP_SECONDS = 8.0
NOTES_BETWEEN = 50
LONGEST_PAUSE_SECONDS = 1.5
ACTIVITY = """
    select pid, state, wait_event, pg_blocking_pids(pid), clock_timestamp() - xact_start, left(query, 300)
    from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"""
Fault = Callable[[Fleet, random.Random], object]


class Target(Protocol):
    """The database of a storm, and what can go wrong with it."""

    url: str
    faults: dict[Fault, int]

    def next_url(self) -> str:
        """The URL for the next process."""

    def database(self) -> PlainDatabase: ...
    def activity(self) -> str:
        """Describe what the database is doing, for a failure message."""

    def is_free(self) -> bool:
        """Return whether other processes can write while one is stopped."""


class SqliteTarget:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "storm.db"
        self.url = f"sqlite:///{self.file}"
        self.faults: dict[Fault, int] = {self._kill_in_a_transaction: 3, self._checkpoint: 3}

    def next_url(self) -> str:
        return self.url

    def database(self) -> PlainDatabase:
        return PlainSqlite(self.url)

    def activity(self) -> str:
        return f"others can{'' if self.is_free() else 'not'} write"

    def is_free(self) -> bool:
        with contextlib.closing(sqlite3.connect(self.file, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("begin immediate")
            except sqlite3.OperationalError:
                return False
            connection.execute("rollback")
            return True

    def _kill_in_a_transaction(self, fleet: Fleet, chance: random.Random) -> None:
        """With the write gate and the lock of the file in its hands, if it comes to such a moment soon."""
        victim = fleet.pick(chance, "work", "produce", "steer", "claim")
        if victim is None:
            return
        for _ in range(20):
            # not free for as long as it is stopped: it is this one that writes
            if fleet.kill_when(victim, lambda: not any(self.is_free() for _ in range(20))):
                return

    def _checkpoint(self, fleet: Fleet, chance: random.Random) -> None:
        with contextlib.closing(sqlite3.connect(self.file, timeout=0.1)) as connection:
            connection.execute(f"pragma wal_checkpoint({chance.choice(('passive', 'full', 'truncate'))})")


class PostgresTarget:
    """Every second process goes over a wire that may swallow replies."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.url = server.create_database()
        self._wire = Wire(self.url)
        self._urls_given = 0
        self._crashes_left = 1
        self.faults: dict[Fault, int] = {self._cut: 4, self._swallow: 3, self._crash: 1}

    def next_url(self) -> str:
        self._urls_given += 1
        return self._wire.url if self._urls_given % 2 else self.url

    def database(self) -> PlainDatabase:
        return PlainPostgres(self.url)

    def activity(self) -> str:
        return "\n".join(map(str, ask(self.url, ACTIVITY)))

    def is_free(self) -> bool:
        return True  # the locks of one transaction do not block other rows

    def close(self) -> None:
        self._wire.close()

    def _cut(self, fleet: Fleet, chance: random.Random) -> None:
        self._server.terminate_connections(database_of(self.url), at_most=chance.randint(1, 4))

    def _swallow(self, fleet: Fleet, chance: random.Random) -> None:
        """The server commits, and the client never learns it."""
        self._wire.swallow_commit_of(chance.choice((b"insert into", CLAIM, SETTLE)))

    def _crash(self, fleet: Fleet, chance: random.Random) -> None:
        if self._crashes_left:
            self._crashes_left -= 1
            self._server.restart("immediate")


class MysqlTarget:
    """Every second process goes over a proxy that cuts connections, and loses replies."""

    def __init__(self, server: MysqlServer) -> None:
        self._server = server
        self.url = server.create_database()
        arena = MysqlArena(self.url, "storm", "")
        self._proxy = CuttingProxy(arena.addresses(), arena.url_at)
        self._urls_given = 0
        self._crashes_left = 1
        self.faults: dict[Fault, int] = {self._cut: 4, self._lose_replies: 3, self._crash: 1}

    def next_url(self) -> str:
        self._urls_given += 1
        return self._proxy.url if self._urls_given % 2 else self.url

    def database(self) -> PlainDatabase:
        return PlainMysql(self.url)

    def activity(self) -> str:
        with closing(self.database()) as database:
            return "\n".join(map(str, database.ask("show full processlist")))

    def is_free(self) -> bool:
        return True

    def close(self) -> None:
        self._proxy.close()

    def _cut(self, fleet: Fleet, chance: random.Random) -> None:
        self._proxy.cut(chance, chance.randint(1, 4))

    def _lose_replies(self, fleet: Fleet, chance: random.Random) -> None:
        """The server does what it was asked, and the client never learns it."""
        self._proxy.lose_replies(chance, 2)

    def _crash(self, fleet: Fleet, chance: random.Random) -> None:
        if self._crashes_left:
            self._crashes_left -= 1
            self._server.restart("immediate")


class Faults:
    """One after another."""

    def __init__(self, target: Target, fleet: Fleet, seed: int) -> None:
        self._target = target
        self._fleet = fleet
        self._chance = random.Random(seed)
        self._stopped_at: dict[int, float] = {}
        self.happened: Counter[str] = Counter()
        self._all: dict[Fault, int] = {
            self._kill_worker: 6,
            self._stop_worker: 4,
            self._end_worker: 2,
            self._kill_another: 3,
            **target.faults,
        }

    def run(self, count: int) -> None:
        self._fleet.fill_up(PRODUCERS)
        self._fleet.wait_until_ready()
        with Rowcall(self._target.url) as jobs:
            for _ in range(count):
                self._fleet.fill_up(PRODUCERS)
                self._let_them_work(round(NOTES_BETWEEN * self._chance.uniform(0.2, 1.8)))
                fault = self._chance.choices(list(self._all), list(self._all.values()))[0]
                with contextlib.suppress(sqlite3.OperationalError, psycopg.OperationalError, pymysql.OperationalError):
                    fault(self._fleet, self._chance)
                    self.happened[getattr(fault, "__name__", "")] += 1
                self._resume(jobs)

    def _let_them_work(self, notes: int) -> None:
        """So that faults meet jobs that run, on a slow machine too; but not for long, if one keeps all from working."""
        pause, enough = threading.Event(), self._fleet.notes_written + notes
        over_at = time.monotonic() + LONGEST_PAUSE_SECONDS
        while self._fleet.notes_written < enough and time.monotonic() < over_at:
            pause.wait(0.01)

    def _kill_worker(self, fleet: Fleet, chance: random.Random) -> None:
        if not fleet.stopped:  # one worker must stay alive to see that another is silent
            self._kill(fleet.pick(chance, "work"))

    def _kill_another(self, fleet: Fleet, chance: random.Random) -> None:
        self._kill(fleet.pick(chance, "produce", "steer", "claim"))

    def _kill(self, victim: Child | None) -> None:
        if victim is not None:
            self._fleet.kill(victim)

    def _end_worker(self, fleet: Fleet, chance: random.Random) -> None:
        worker = fleet.pick(chance, "work")
        if worker is not None:
            fleet.ask_to_end(worker)

    def _stop_worker(self, fleet: Fleet, chance: random.Random) -> None:
        worker = None if fleet.stopped else fleet.pick(chance, "work")
        if worker is not None and any(fleet.stop(worker, self._target.is_free) for _ in range(20)):
            self._stopped_at[worker.pid] = time.monotonic()

    def _resume(self, jobs: Rowcall) -> None:
        """Workers declared lost in between, and workers that none could declare lost for long."""
        if not self._fleet.stopped:
            return
        try:
            known = {worker.pid for worker in jobs.workers()}
        except StoreUnavailable:
            return
        for process in self._fleet.stopped:
            stopped_for = time.monotonic() - self._stopped_at[process.pid]
            if process.pid not in known or stopped_for > LONGEST_STOP_SECONDS:
                self.happened["stopped past its lease"] += process.pid not in known
                self._fleet.resume(process)
