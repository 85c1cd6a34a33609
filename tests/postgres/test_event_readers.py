"""Readers of events while the server crashes, or a standby takes its place."""

from __future__ import annotations

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.operations import events as reading
from rowcall.testing import eventually
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of
from tests.cli.doctor.standby import SLOT, standby_of

pytestmark = pytest.mark.crash


def test_a_reader_says_that_it_missed_events_by_a_crash(
    server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "ANNOUNCE_AGAIN_SECONDS", 0.0)  # as after a long outage
    with Rowcall(url) as jobs:

        @jobs.task
        def note() -> None: ...

        with jobs.events(kind="SUCCEEDED") as events:
            for _ in range(3):
                job = note.enqueue()
                jobs.drain()
                assert next(events).job_id == job.id
            server.restart("immediate")
            unread = note.enqueue()
            assert jobs.drain().succeeded == 1
            missed = next(events)
            assert (missed.event, missed.job_id) == ("MISSED", None)
            job = note.enqueue()
            jobs.drain()
            assert next(events).job_id == job.id > unread.id


@pytest.mark.slow
def test_a_standby_that_is_promoted_before_its_first_restartpoint(server: PostgresServer) -> None:
    with standby_of(server) as standby:
        name = database_of(server.create_database())
        addresses = [psycopg.conninfo.conninfo_to_dict(one.url()) for one in (server, standby)]
        hosts, ports = (",".join(str(one[part]) for one in addresses) for part in ("host", "port"))
        url = f"postgresql://postgres@/{name}?host={hosts}&port={ports}&target_session_attrs=read-write"
        with Rowcall(url) as jobs:
            jobs.migrate()

            @jobs.task
            def note() -> None: ...

            with jobs.events(kind="SUCCEEDED") as events:
                job = note.enqueue()
                jobs.drain()
                assert next(events).job_id == job.id
                promote(server, standby)
                assert next(events).event == "MISSED"
                job = note.enqueue()
                assert jobs.drain().succeeded == 1
                assert next(events).job_id == job.id
                assert jobs.result(job, timeout=30) is None
        server.start()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("select pg_drop_replication_slot(%s)", [SLOT])
    server.drop_database(name)


def promote(primary: PostgresServer, standby: PostgresServer) -> None:
    """Let the standby read everything, crash the primary, and make the standby a primary."""
    with psycopg.connect(primary.url()) as connection:
        written = connection.execute("select pg_current_wal_lsn()::text").fetchone()
    with psycopg.connect(standby.url(), autocommit=True) as connection:
        has_read = "select 1 where pg_last_wal_replay_lsn() >= %s::pg_lsn"
        eventually(lambda: connection.execute(has_read, written).fetchone(), message="the standby has read everything")
        primary.stop("immediate")
        assert connection.execute("select pg_promote()").fetchone() == (True,)
