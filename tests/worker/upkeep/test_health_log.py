"""The worker's log says what is wrong with the queue, each thing once an hour."""

from __future__ import annotations

import logging
from pathlib import Path

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.queries.workers import HEARTBEAT_OF_WORKER, Registration
from rowcall.store.recovery import register as plans
from rowcall.testing import FakeClock
from rowcall.worker.upkeep.health_log import log_health

HOUR_SECONDS = 3600


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        str(request.getfixturevalue("postgres_url")) if request.param == "postgresql" else f"sqlite:///{tmp_path}/q.db"
    )


def register(jobs: Rowcall, queues: str) -> None:
    worker = Registration(
        name="w", host="h", pid=1, queues=queues, concurrency=1, version="0", lease_ms=15_000, lock_path=None
    )
    queue_of(jobs).run(Write(lambda: plans.register(queue_of(jobs).dialect, worker)))


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return lines


def test_each_thing_is_said_once_an_hour(url: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    with Rowcall(url, clock=clock) as jobs:
        jobs.enqueue("task", queue="mail")
        register(jobs, "other=3,more")
        connection = queue_of(jobs).database.connect()
        try:
            assert [one.kind for one in log_health(queue_of(jobs), connection)] == ["unserved queue mail"]
            assert said(caplog)[0].startswith("no worker serves mail (1 waiting). Start a worker")
            clock.advance(11 * 60)
            queue_of(jobs).run(Write(lambda: queue_of(jobs).dialect.ask(HEARTBEAT_OF_WORKER, "w")))
            assert [one.kind for one in log_health(queue_of(jobs), connection)] == [
                "unserved queue mail",
                "long wait mail",
            ]
            (line,) = said(caplog)
            assert line.startswith("jobs of mail have been due for 11 min.")
            clock.advance(HOUR_SECONDS)
            log_health(queue_of(jobs), connection)
            assert len(said(caplog)) == 2
        finally:
            connection.close()


def test_a_worker_that_serves_all_or_the_queue_leaves_nothing_to_say(url: str) -> None:
    for queues in ("*", "mail", "mail=2,other"):
        with Rowcall(url, table_prefix=f"q{len(queues)}_", clock=FakeClock()) as jobs:
            jobs.enqueue("task", queue="mail")
            register(jobs, queues)
            connection = queue_of(jobs).database.connect()
            try:
                assert log_health(queue_of(jobs), connection) == []
            finally:
                connection.close()


def test_a_transaction_that_holds_the_horizon_is_named(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowcall.observe.health.LONG_TRANSACTION_SECONDS", 0.0)
    with Rowcall(postgres_url) as jobs, psycopg.connect(postgres_url) as other:
        jobs.migrate()
        pid = other.execute("select pg_backend_pid(), txid_current()").fetchone()
        assert pid is not None
        connection = queue_of(jobs).database.connect()
        try:
            (found,) = [one for one in log_health(queue_of(jobs), connection) if one.kind == "horizon"]
            assert f"process {pid[0]}" in found.what
        finally:
            connection.close()


def test_a_clock_of_another_machine_is_compared(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Rowcall(postgres_url) as jobs:
        jobs.migrate()
        connection = queue_of(jobs).database.connect()
        try:
            assert log_health(queue_of(jobs), connection) == []
            wall = queue_of(jobs).clock.wall
            monkeypatch.setattr(queue_of(jobs).clock, "wall", lambda: wall() + 60)
            (found,) = log_health(queue_of(jobs), connection)
            assert found.kind == "clock"
            assert "1 min behind" in found.what
        finally:
            connection.close()


@pytest.mark.no_tables
def test_the_wal_and_the_disk_of_a_file_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowcall.observe.health.OVERSIZED_WAL_BYTES", 0)
    monkeypatch.setattr("rowcall.observe.health.LITTLE_SPACE_BYTES", 2**62)
    with Rowcall(tmp_path / "q.db") as jobs:
        jobs.migrate()
        connection = queue_of(jobs).database.connect()
        try:
            assert [one.kind for one in log_health(queue_of(jobs), connection)] == ["wal", "disk"]
        finally:
            connection.close()
