"""What a process does when another server is the primary now, and when that one lacks the last commits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from psycopg.conninfo import conninfo_to_dict

from rowcall import Rowcall
from rowcall.drivers.postgres import connection
from rowcall.testing import eventually
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of
from tests.postgres.support import PostgresSite, ask
from tests.worker.support import comes_to, ended

READ_ONLY = "alter system set default_transaction_read_only = on"
RELOAD = "select pg_reload_conf()"
JOBS = "select count(*) from rowcall_job"
SAVE = """
    create table saved_job as select * from rowcall_job where id = %s;
    create table saved_claim as select * from rowcall_claim;
"""
# without triggers: the rows are to be as a standby had received them
REWIND = """
    set local session_replication_role = replica;
    delete from rowcall_job where id in (select id from saved_job);
    insert into rowcall_job overriding system value select * from saved_job;
    insert into rowcall_claim select * from saved_claim;
"""


@pytest.fixture
def demoted_later(server: PostgresServer, postgres_url: str, twin: str) -> Iterator[str]:
    """The URL of two servers with the same tables, of which the first one may become read-only."""
    name = database_of(postgres_url)
    first, second = conninfo_to_dict(twin), conninfo_to_dict(postgres_url)
    hosts = ",".join(f"127.0.0.1:{one['port']}" for one in (first, second))
    with Rowcall(server.url(name)) as jobs:
        jobs.migrate()
    yield f"postgresql://postgres@{hosts}/{name}?target_session_attrs=read-write"
    for statement in ("alter system reset default_transaction_read_only", RELOAD):
        ask(server.url(), statement)


def test_a_write_to_a_demoted_primary_is_repeated_on_the_next_host_and_reads_follow(
    server: PostgresServer, postgres_url: str, demoted_later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "NEW_SECONDS", 0.0)
    with Rowcall(demoted_later) as jobs:
        jobs.enqueue("note")
        assert jobs.stats().total == 1  # on another connection than the writer's
        for statement in (READ_ONLY, RELOAD):
            ask(server.url(), statement)

        def enqueued_elsewhere() -> int:
            jobs.enqueue("note")
            return int(ask(postgres_url, JOBS)[0][0])

        count = eventually(enqueued_elsewhere, message="a job on the other server")
        assert jobs.stats().total == count


def test_a_job_whose_end_was_lost_runs_again(site: PostgresSite, server: PostgresServer) -> None:
    """The standby had received the claim, but not the end. The worker is alive, and sees no error, as it is idle."""
    ran, may_end = [], threading.Event()
    with Rowcall(site.url) as jobs:

        @jobs.task
        def hold() -> None:
            ran.append("hold")
            may_end.wait(20)

        with jobs.worker(lease=600):
            job = hold.enqueue()
            eventually(lambda: ran)
            comes_to(jobs, job, "running")
            ask(site.url, SAVE.replace("%s", str(job.id)))
            may_end.set()
            ended(jobs, job)
            ask(site.url, REWIND)
            server.terminate_connections(database_of(site.url))
            assert ended(jobs, job).status == "succeeded"
    assert ran == ["hold", "hold"]
