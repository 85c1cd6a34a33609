"""What an idle worker costs its server. Its time runs faster here: fewer waits, the same number of statements."""

from __future__ import annotations

import time

import pytest

from rowcall import Rowcall
from rowcall.drivers.postgres.database import PostgresDatabase
from rowcall.testing import eventually
from rowcall.testing.postgres import PostgresServer
from rowcall.worker import pace
from rowcall.worker.pace import DEFAULT_LEASE_SECONDS
from rowcall.worker.pacing import postgres_waiter
from rowcall.worker.upkeep import recovery, unknown_tasks

FASTER = 20.0
LOGGED = "options=-c%20log_statement%3Dall"
HEARTBEATS = 20
EDGES = 3  # of each kind of question, one more may fall into a time than its share


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, names in (
        (recovery, ("RECOVERY_CHECK_SECONDS", "CHECKPOINT_SECONDS")),
        (pace, ("LONGEST_WAIT_SECONDS",)),
        (unknown_tasks, ("UNKNOWN_PAUSE_SECONDS",)),
        (postgres_waiter, ("FIRST_POLL_SECONDS", "LAST_POLL_SECONDS", "FIRST_DEAF_SECONDS", "LAST_DEAF_SECONDS")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name) / FASTER)
    monkeypatch.setattr(PostgresDatabase, "survey_seconds", PostgresDatabase.survey_seconds / FASTER)


def statements_in(log: str) -> list[str]:
    """Begin and commit count too: each is a round trip."""
    return [line for line in log.splitlines() if " statement: " in line or " execute " in line]


@pytest.mark.usefixtures("faster")
@pytest.mark.parametrize("others", [0, 3])
def test_an_idle_worker_asks_at_most_one_question_a_second(private_postgres: PostgresServer, others: int) -> None:
    """Whether or not there are jobs that wait for another worker, or for a queue to be resumed."""
    url = private_postgres.create_database()
    with Rowcall(url) as looking, Rowcall(f"{url}?{LOGGED}") as jobs:

        @jobs.task
        def note() -> None: ...

        for _ in range(others):
            looking.enqueue("nobody_knows_this")
            looking.enqueue("note", queue="paused")
        looking.enqueue("note", delay=3600)

        looking.pause("paused")

        def heartbeats() -> int:
            return sum(worker.heartbeats for worker in looking.workers())

        with jobs.worker(lease=DEFAULT_LEASE_SECONDS / FASTER):
            eventually(lambda: heartbeats() >= 2)
            began, before, first = time.monotonic(), len(private_postgres.log.read_text()), heartbeats()
            eventually(lambda: heartbeats() >= first + HEARTBEATS)
            asked = statements_in(private_postgres.log.read_text()[before:])
            seconds = (time.monotonic() - began) * FASTER
        assert len(asked) >= HEARTBEATS
        assert len(asked) <= seconds + EDGES, asked


def test_an_idle_worker_starts_a_job_in_its_first_round(private_postgres: PostgresServer) -> None:
    url = private_postgres.create_database()
    with Rowcall(url) as looking, Rowcall(f"{url}?{LOGGED}") as jobs:
        asked: list[list[str]] = []

        @jobs.task
        def note(before: int) -> None:
            statements = statements_in(private_postgres.log.read_text()[before:])
            ends = (index for index, line in enumerate(statements) if line.endswith(" commit"))
            asked.append(statements[: next(ends, -1) + 1])  # the worker may already ask for more

        def pick_up() -> None:
            eventually(lambda: looking.stats().by_status["running"] == 0)
            count, before = len(asked), len(private_postgres.log.read_text())
            looking.enqueue("note", {"before": before})
            eventually(lambda: len(asked) > count)

        with jobs.worker() as worker:
            eventually(lambda: [one.name for one in looking.workers()] == [worker.name])
            for _ in range(5):
                pick_up()
        # begin, find work, search, claim, commit; a heartbeat or the round before may come in between
        assert sorted(map(len, asked))[len(asked) // 2] == 5, asked
