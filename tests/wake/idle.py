"""A worker of this process that has nothing to do, and will not poll for hours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from rowcall.wake.waiter_and_file_watch import Wakeup
from rowcall.worker import pace
from rowcall.worker.pacing import postgres_waiter
from rowcall.worker.pacing.postgres_waiter import PostgresWaiter
from rowcall.worker.worker import Worker
from tests.connected import Connection, connected

HOURS = 10_000.0
CHANNEL = "rowcall_job"
PLAIN_SQL = b"insert into rowcall_job (type, payload) values ('note', '{\"text\": \"x\"}')"


class Idle:
    """What ended the waits of the worker's loop, and whether it waits now with nothing left to learn."""

    def __init__(self, jobs: Rowcall, url: str) -> None:
        self.jobs = jobs
        self.url = url
        self.wakeups: list[Wakeup] = []
        self.waits = False
        self.in_doubt: set[str] = set()
        self.ran: list[str] = []

        @jobs.task
        def note(text: str) -> None:
            self.ran.append(text)

        self.note = note

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is found by looking now and then; what ends a wait is kept."""
        for poll in ("FIRST_POLL_SECONDS", "LAST_POLL_SECONDS", "FIRST_DEAF_SECONDS", "LAST_DEAF_SECONDS"):
            monkeypatch.setattr(postgres_waiter, poll, HOURS)
        monkeypatch.setattr(pace, "LONGEST_WAIT_SECONDS", HOURS)
        wait = PostgresWaiter.wait

        def watched(waiter: PostgresWaiter, seconds: float) -> Wakeup:
            self.in_doubt = set(waiter._in_doubt)
            self.waits = not self.in_doubt
            wakeups = wait(waiter, seconds)
            self.waits = False
            self.wakeups.append(wakeups)
            return wakeups

        monkeypatch.setattr(PostgresWaiter, "wait", watched)

    @contextlib.contextmanager
    def worker(self, *, concurrency: int = 10, lease: float = 600, queues: list[str] | None = None) -> Iterator[Worker]:
        with self.jobs.worker(concurrency=concurrency, lease=lease, queues=queues) as worker:
            yield worker

    def settle(self) -> None:
        """Wait until the worker waits, and others know it."""
        eventually(lambda: self.waits and self.listening == [True], message="a worker that waits")
        self.wakeups.clear()

    def settle_in_doubt(self, transactions: int = 1) -> None:
        """Wait until the worker waits for these to end, and has asked for them once."""
        eventually(
            lambda: len(self.in_doubt) == transactions and self.wakeups[-1:] == [Wakeup.NOTHING],
            message="a worker in doubt",
        )
        self.wakeups.clear()

    @property
    def listening(self) -> list[object]:
        """Return, for each worker, whether its row says that it listens."""
        with connected(self.url) as connection:
            return [row[0] for row in connection.execute("select listening from rowcall_worker").fetchall()]

    def has_run(self, *texts: str) -> None:
        """The worker was notified of these, and did not find them by a poll."""
        eventually(lambda: self.ran == list(texts), message=f"{texts} of {self.ran}, after {self.wakeups}")
        eventually(lambda: Wakeup.NOTIFIED in self.wakeups, message=f"a notification after {self.wakeups}")
        assert not {Wakeup.CHANGED, Wakeup.TIMEOUT} & set(self.wakeups)


class Ear:
    """Hears all that is said on a channel, in order."""

    def __init__(self, connection: Connection, channel: str) -> None:
        self._connection = connection
        self._channel = channel
        self._heard: list[psycopg.Notify] = []
        connection.add_notify_handler(self._heard.append)
        connection.execute(f'listen "{channel}"'.encode())

    def heard(self) -> list[int]:
        """Who has said something by commits until now: the numbers of their processes."""
        mine = self._connection.info.backend_pid
        self._connection.execute("select pg_notify(%s, '')", [self._channel])
        eventually(lambda: self._listen() and any(word.pid == mine for word in self._heard))
        heard = [word.pid for word in self._heard if word.pid != mine]
        self._heard.clear()
        return heard

    def _listen(self) -> bool:
        self._connection.execute("select 1")  # what was said comes with the answer to anything
        return True


@contextlib.contextmanager
def ear(url: str, channel: str = CHANNEL) -> Iterator[Ear]:
    with connected(url) as connection:
        yield Ear(connection, channel)
