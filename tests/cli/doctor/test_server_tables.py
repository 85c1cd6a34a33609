"""What the doctor says of a queue on a PostgreSQL server."""

from __future__ import annotations

import re
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from rowcall import Limit, Rowcall
from rowcall.app import queue_of
from rowcall.cli.doctor import server_queries, server_tables
from rowcall.domain.config import shown
from rowcall.store.postgres.privileges import grants
from rowcall.testing.postgres import FAST_SETTINGS, PostgresServer
from rowcall.testing.postgres_database import with_database
from tests.cli.conftest import Examine
from tests.cli.doctor.standby import await_feedback, standby_of
from tests.support import ForkedProcess, eventually


@pytest.fixture
def raw(postgres_url: str) -> Iterator[psycopg.Connection]:
    """Another connection."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def other_user(postgres_url: str, raw: psycopg.Connection) -> Iterator[str]:
    """A URL of a user who may only log in."""
    name = f"rowcall_other_{secrets.token_hex(4)}"
    raw.execute(f"create role {name} login password 'secret'".encode())
    yield re.sub(r"^postgresql://[^@/]*@", f"postgresql://{name}:secret@", postgres_url)
    raw.execute(f"drop owned by {name}; drop role {name}".encode())


@pytest.mark.no_tables
def test_tables_that_are_not_there(examine: Examine, postgres_url: str, raw: psycopg.Connection) -> None:
    found = examine("--url", postgres_url)
    assert (found.exit_code, found.level["tables"]) == (1, "problem")
    assert found.advice["tables"] == f"Create them with: rowcall migrate --url {shown(postgres_url)}"
    assert "waiting" not in found.level
    assert raw.execute("select to_regclass('rowcall_job')").fetchone() == (None,)


@pytest.mark.no_tables
def test_tables_of_another_prefix(examine: Examine, postgres_url: str) -> None:
    with Rowcall(postgres_url, table_prefix="other_") as jobs:
        jobs.migrate()
    assert "prefix other_: name the app" in examine("--url", postgres_url).advice["tables"]


@pytest.mark.no_tables
def test_tables_of_another_schema(examine: Examine, postgres_url: str, raw: psycopg.Connection) -> None:
    raw.execute("create schema apart")
    with Rowcall(f"{postgres_url}?options=-csearch_path%3Dapart") as jobs:
        jobs.migrate()
    found = examine("--url", postgres_url)
    assert found.level["tables"] == "problem"
    assert re.search(r"search_path of \w+: apart", found.advice["tables"])
    assert "in the schema apart" in examine("--url", f"{postgres_url}?options=-csearch_path%3Dapart").what["tables"]


def test_tables_of_another_version(
    examine: Examine, server_queue: Rowcall, raw: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw.execute("insert into rowcall_migration (version, name, applied_at) values (99, 'later', now())")
    found = examine()
    assert (found.exit_code, found.level["tables"]) == (1, "problem")
    assert "newer than this code" in found.what["tables"]
    raw.execute("update rowcall_migration set oldest = 1 where version = 99")
    assert examine().what["tables"].startswith("version 99, in the schema public, newer than this code")
    monkeypatch.setattr(server_tables, "NEWEST_VERSION", 100)
    assert examine().advice["tables"] == "Update them with: rowcall migrate app:jobs"


def test_a_table_that_is_missing(examine: Examine, server_queue: Rowcall, raw: psycopg.Connection) -> None:
    raw.execute("drop table rowcall_event, rowcall_pause cascade")
    found = examine()
    assert (found.exit_code, found.level["tables"]) == (1, "problem")
    assert found.what["tables"].endswith(", in the schema public, but rowcall_event, rowcall_pause are missing")
    assert "backup" in found.advice["tables"]


def test_a_user_without_privileges(
    examine: Examine, server_queue: Rowcall, raw: psycopg.Connection, other_user: str
) -> None:
    found = examine("--url", other_user)
    assert (found.exit_code, found.level["connection"]) == (1, "problem")
    assert "permission denied for table rowcall_migration" in found.what["connection"]
    name = other_user.removeprefix("postgresql://").partition(":")[0]
    raw.execute(f"grant select on all tables in schema public to {name}".encode())
    raw.execute(f"grant insert on rowcall_job to {name}".encode())
    found = examine("--url", other_user)
    assert (found.exit_code, found.level["privileges"]) == (0, "warn")
    assert found.what["privileges"].endswith(" on rowcall_job; usage on rowcall_job_id_seq")
    assert "may not insert, update, delete on rowcall_alert, rowcall_attempt, " in found.what["privileges"]
    raw.execute(";".join(grants(name, "rowcall_")).encode())
    assert examine("--url", other_user).level["privileges"] == "ok"
    assert f"{name} sees only its own sessions" in found.what["horizon"]


def test_autovacuum_that_is_off_for_the_table(examine: Examine, server_queue: Rowcall, raw: psycopg.Connection) -> None:
    raw.execute("alter table rowcall_job set (autovacuum_enabled = off)")
    found = examine()
    assert found.level["autovacuum"] == "warn"
    raw.execute(found.advice["autovacuum"].encode())
    assert examine().level["autovacuum"] == "ok"


def test_autovacuum_that_looks_seldom(examine: Examine, server_queue: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_tables, "LONG_NAPTIME_SECONDS", 0.5)
    assert "autovacuum_naptime" in examine().what["autovacuum"]
    assert examine().level["autovacuum"] == "warn"


def test_dead_rows(
    examine: Examine, server_queue: Rowcall, raw: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw.execute("alter table rowcall_job set (autovacuum_enabled = off)")
    server_queue.enqueue("hello")
    raw.execute("update rowcall_job set priority = 1")
    monkeypatch.setattr(server_tables, "MANY_DEAD_ROWS", 1)

    def warned() -> bool:
        raw.execute("update rowcall_job set priority = 1")
        return examine().level["dead rows"] == "warn"

    eventually(warned, message="the server's count of dead rows")
    assert "in rowcall_job, and" in examine().what["dead rows"]
    monkeypatch.setattr(server_tables, "MANY_DEAD_ROWS", 10**9)
    assert examine().level["dead rows"] == "ok"


def test_a_transaction_that_is_open_for_long(
    examine: Examine, server_queue: Rowcall, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(postgres_url, application_name="report") as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("select 1")
        assert examine().level["horizon"] == "ok"
        monkeypatch.setattr(server_tables, "LONG_TRANSACTION_SECONDS", 0.0)
        found = examine()
        assert (found.exit_code, found.level["horizon"]) == (0, "warn")
        assert f"process {reader.info.backend_pid}, {reader.info.user}, report, idle in trans" in found.what["horizon"]
        assert f"pg_terminate_backend({reader.info.backend_pid})" in found.advice["horizon"]
        reader.rollback()
        reader.autocommit = True
        reader.execute("select 1")
        assert examine().level["horizon"] == "ok"


@pytest.fixture(scope="module")
def set_otherwise() -> Iterator[PostgresServer]:
    settings = {**FAST_SETTINGS, "autovacuum": "off", "max_prepared_transactions": "2"}
    with PostgresServer(in_memory=True, settings=settings) as server:
        with Rowcall(server.create_database("shop")) as jobs:
            jobs.migrate()
        yield server


def test_autovacuum_that_is_off(examine: Examine, set_otherwise: PostgresServer) -> None:
    found = examine("--url", set_otherwise.url("shop"))
    assert found.level["autovacuum"] == "warn"
    assert found.what["autovacuum"].startswith("autovacuum is off on this server")


def test_a_prepared_transaction_that_stays_open(
    examine: Examine, set_otherwise: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_tables, "LONG_TRANSACTION_SECONDS", 0.0)
    url = set_otherwise.url("shop")
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("begin; delete from rowcall_event; prepare transaction 'half done'")
        found = examine("--url", url)
        assert found.level["horizon"] == "warn"
        assert found.what["horizon"].startswith("the prepared transaction 'half done' of postgres is ")
        connection.execute("rollback prepared 'half done'")
    assert examine("--url", url).level["horizon"] == "ok"


@pytest.mark.slow
def test_a_standby_that_holds_back_the_clean_up(
    examine: Examine, set_otherwise: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = set_otherwise.url("shop")
    with standby_of(set_otherwise):
        await_feedback(set_otherwise)
        assert examine("--url", url).level["horizon"] == "ok"
        with monkeypatch.context() as patched:
            patched.setattr(server_tables, "OLD_SNAPSHOT_TRANSACTIONS", -1)
            assert examine("--url", url).level["horizon"] == "warn"
    found = examine("--url", url)
    assert found.what["horizon"].startswith("the replication slot following holds back vacuum by ")
    assert found.what["horizon"].endswith(" transactions, and is not in use")
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(found.advice["horizon"].removeprefix("If it is no longer needed: ").encode())
    assert examine("--url", url).level["horizon"] == "ok"


def test_who_waits_for_a_lock(
    examine: Examine,
    server_queue: Rowcall,
    postgres_url: str,
    raw: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_queries, "LOCK_SECONDS", 1)
    with psycopg.connect(postgres_url) as holder:
        holder.execute("lock table rowcall_job in access exclusive mode")
        waiting = threading.Thread(target=server_queue.enqueue, args=("hello",))
        waiting.start()
        query = "select 1 from pg_locks where not granted and relation = 'rowcall_job'::regclass"
        eventually(lambda: raw.execute(query).fetchone(), message="a session that waits")
        found = examine()
        assert found.level["locks"] == "warn"
        assert found.what["locks"] == (
            f"1 session waits for a lock on rowcall_job, held by process {holder.info.backend_pid}"
        )
        assert found.what["dead rows"].startswith("the table is locked")
        assert found.exit_code == 0
    waiting.join()
    assert examine().level["locks"] == "ok"


def test_a_question_that_takes_too_long(
    examine: Examine, server_queue: Rowcall, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_queries, "ANSWER_SECONDS", 1)
    monkeypatch.setattr(server_queries, "DEAD_ROWS", "select pg_sleep(20)")
    assert examine().what["dead rows"].startswith("no answer within")


def age_jobs(raw: psycopg.Connection, seconds: int) -> None:
    for column in ("run_at", "created_at"):
        raw.execute(f"update rowcall_job set {column} = {column} - interval '{seconds} s'".encode())


def test_jobs_without_a_worker(examine: Examine, server_queue: Rowcall, raw: psycopg.Connection) -> None:
    server_queue.enqueue("hello")
    server_queue.enqueue("hello", delay=3600)
    found = examine()
    assert (found.exit_code, found.level["waiting"], found.level["attention"]) == (0, "ok", "ok")
    assert re.fullmatch(r"1 due job has been waiting for \d+ m?s", found.what["waiting"])
    age_jobs(raw, 7200)
    found = examine()
    assert (found.exit_code, found.level["no_worker"]) == (1, "problem")
    assert found.what["no_worker"] == "no worker is alive: 2 jobs are due, the first for 2 h"
    assert found.advice["no_worker"] == "Start a worker: rowcall work app:jobs"
    assert found.what["waiting"].startswith("2 due jobs are waiting, the first for 2 h")


def test_queues_and_tasks_without_a_worker(
    examine: Examine, server_queue: Rowcall, raw: psycopg.Connection, postgres_url: str
) -> None:
    for kind in ("hello", "helo"):
        server_queue.enqueue(kind, queue="mail")
    age_jobs(raw, 60)
    with server_queue.worker(queues="default"):
        found = examine()
        assert found.what["queue_unserved"].startswith(
            "no worker serves queue mail: 2 jobs are due, the first for 1 min"
        )
        assert found.what["workers"] == "1 alive"
    assert examine().what["tasks"] == "app:jobs declares no task for helo (1 waiting)"
    assert "tasks" not in examine("--url", postgres_url).level


def test_jobs_that_fit_no_worker(examine: Examine, server_queue: Rowcall, raw: psycopg.Connection) -> None:
    @server_queue.task
    def hello(name: str) -> None: ...

    with Rowcall(queue_of(server_queue).config.server.url) as newer:  # type: ignore[union-attr]
        newer.enqueue("hello", {"name": "ann", "loud": True})
    with server_queue.worker():
        eventually(lambda: server_queue.get(1).error_code)
        age_jobs(raw, 60)
        raw.execute("update rowcall_tally set at = at - interval '60 s'")
        assert examine().what["arguments_refused"].endswith("; unexpected argument 'loud'")


def test_workers_that_died_or_say_nothing(
    examine: Examine, server_queue: Rowcall, raw: psycopg.Connection, folder: Path
) -> None:
    with ForkedProcess("-m", "rowcall", "work", "app:jobs", cwd=str(folder)) as process:
        [worker] = eventually(server_queue.workers)
        process.send(signal.SIGKILL)
        process.wait()
    assert examine().what["workers"] == f"{worker.name} died while it held 0 jobs"
    raw.execute(
        "update rowcall_worker set heartbeat_at = heartbeat_at - interval '2 hours', lock_path = '/of/another/host'"
    )
    assert examine().what["workers"] == f"{worker.name} sent its last heartbeat 2 h ago, and holds 0 jobs"


def test_a_slot_of_a_handler_that_still_runs(server_queue: Rowcall, examine: Examine) -> None:
    began, let_go = threading.Event(), threading.Event()

    @server_queue.task(limit=Limit("stripe", concurrency=1), timeout=0.05, max_attempts=1)
    def charge() -> None:
        began.set()
        assert let_go.wait(30)

    job = charge.enqueue()
    with server_queue.worker(concurrency=2) as worker:
        eventually(lambda: server_queue.get(job.id).status == "failed")
        said = f"the handler of job {job.id} still runs in {worker.name} after its attempt ended"
        assert examine().what["limits"] == f'{said}, and keeps a slot of ["stripe"]'
        let_go.set()
        eventually(lambda: "limits" not in examine().level)


def test_a_job_from_the_future(examine: Examine, server_queue: Rowcall, raw: psycopg.Connection) -> None:
    server_queue.enqueue("hello")
    raw.execute("update rowcall_job set created_at = created_at + interval '1 hour'")
    assert "1 h in the future" in examine().what["clock"]


def test_a_database_next_to_it_is_not_looked_at(
    examine: Examine, server_queue: Rowcall, postgres_server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_tables, "LONG_TRANSACTION_SECONDS", 0.0)
    with psycopg.connect(with_database(postgres_server_url, "template1")) as elsewhere:
        elsewhere.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        elsewhere.execute("select 1")
        assert examine().level["horizon"] == "ok"
