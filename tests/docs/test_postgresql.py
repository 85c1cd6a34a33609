"""Statements of the README and docs/postgresql.md about a server, apart from their code blocks."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from rowcall import Rowcall
from rowcall.domain.config import DEFAULT_POOL_SIZE
from rowcall.store.postgres.privileges import grants
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_programs import SystemUser, find_programs
from tests.docs.pages import DOCS, README, blocks, read, section
from tests.support import ForkedProcess, PythonProcess, eventually

pytestmark = pytest.mark.no_tables

PAGE = DOCS / "postgresql.md"
FILE_URL, SERVER_URL = "sqlite:///app.db", "postgresql://ann@db-1/shop"

ENDLESS = """
import threading
from rowcall import Rowcall

jobs = Rowcall("{url}")

@jobs.task
def endless() -> None:
    threading.Event().wait()
"""


def example() -> str:
    text = next(blocks(README)).text
    assert text.count(FILE_URL) == 1
    return text


def test_the_example_of_the_readme_with_only_the_url_changed(tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "app.py").write_text(example().replace(FILE_URL, postgres_url))
    with PythonProcess("app.py", cwd=str(tmp_path)) as script:
        assert script.wait() == 0, script.output
        assert script.output == ""
    assert list(tmp_path.glob("app.db*")) == []
    with Rowcall(postgres_url) as jobs, ForkedProcess("-m", "rowcall", "work", "app:jobs", cwd=str(tmp_path)) as worker:
        (job,) = jobs.list(type="send_email").jobs
        eventually(lambda: jobs.get(job.id).status == "succeeded")
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0, worker.output
        assert "sent 'Order confirmed' to a@example.com\n" in worker.output


def test_the_page_begins_with_the_example_of_the_readme() -> None:
    shown = next(block.text for block in blocks(PAGE) if block.language == "python")
    assert shown == example().replace(FILE_URL, SERVER_URL)


def test_the_table_of_settings_matches_the_database(postgres_url: str) -> None:
    with Rowcall(postgres_url) as jobs:
        jobs.migrate()
    with psycopg.connect(postgres_url) as connection:
        query = "select option_name, option_value from pg_class, pg_options_to_table(reloptions) where relname = %s"
        carried: dict[str, str] = dict(connection.execute(query, ["rowcall_job"]).fetchall())
    rows = [line for line in section(PAGE, "Autovacuum").splitlines() if line.startswith("| `")]
    told = {
        name.replace("…", "autovacuum_vacuum_" if "_vacuum_" in row else "autovacuum_analyze_"): value
        for row in rows
        for name, value in re.findall(r"`([…\w]+) = ([\w.]+)`", row)
    }
    assert len(told) == 7
    assert told == {name: carried[name] for name in told}


@pytest.fixture
def connections(postgres_url: str) -> Callable[[], int]:
    """Return how many other clients are connected to the database."""

    def count() -> int:
        # the connection of the count before this one may not be gone yet, and autovacuum may be there
        with psycopg.connect(postgres_url, application_name="count") as connection:
            found = connection.execute(
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and backend_type = 'client backend' and application_name <> 'count'"
            ).fetchone()
            assert found is not None
            return int(found[0])

    return count


@pytest.mark.slow
def test_the_connections_of_a_worker(postgres_url: str, connections: Callable[[], int]) -> None:
    assert f"`pool_size` ({DEFAULT_POOL_SIZE})" in section(PAGE, "Connections")
    with Rowcall(postgres_url) as jobs:

        @jobs.task
        def more(depth: int) -> int:
            if depth:
                more.enqueue_many([{"depth": depth - 1}] * 3)
                more.enqueue(0)
            return jobs.stats().total

        with jobs.worker(concurrency=20):
            assert eventually(lambda: connections() >= 4 and connections()) <= 5
            most = 0
            more.enqueue(4)

            def done() -> bool:
                nonlocal most
                most = max(most, connections())
                return not any(jobs.stats().by_status[status] for status in ("pending", "running", "scheduled"))

            eventually(done)
            assert 4 < most <= 4 + DEFAULT_POOL_SIZE


def test_the_privileges_of_an_app_are_those_of_the_schema() -> None:
    shown = next(block.text for block in blocks(PAGE) if "CREATE ROLE shop_app" in block.text)
    statements = [" ".join(statement.split()) for statement in shown.split(";")[1:-1]]
    assert statements == grants("shop_app", "rowcall_")


def test_plain_sql_needs_one_privilege(users: dict[str, str], postgres_url: str) -> None:
    assert "`GRANT INSERT ON rowcall_job` is enough" in read(PAGE)
    with Rowcall(postgres_url) as jobs:
        jobs.migrate()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            name = users["shop_web"]
            connection.execute(f"create role {name}; grant insert on rowcall_job to {name}; set role {name}".encode())
            connection.execute("""insert into rowcall_job (type, tags) values ('load', '["nightly"]')""")
        [job] = jobs.list(tag="nightly").jobs
        assert job.status == "scheduled"


@pytest.mark.slow
def test_running_jobs_of_a_dump_are_recovered_after_a_restore(private_postgres: PostgresServer, tmp_path: Path) -> None:
    shop, copy = private_postgres.create_database("shop"), private_postgres.create_database("copy")
    (tmp_path / "app.py").write_text(ENDLESS.format(url=shop))
    arguments = ("-m", "rowcall", "work", "app:jobs", "--lease=1")
    with Rowcall(shop) as jobs, ForkedProcess(*arguments, cwd=str(tmp_path)) as worker:
        running = jobs.enqueue("endless")
        eventually(lambda: jobs.get(running.id).status == "running")
        [by_hand] = [jobs.enqueue("count", queue="hand")]
        [claimed] = jobs.claim("me", lease=0.1, queues=["hand"])
        assert claimed.id == by_hand.id
        waiting = jobs.enqueue("send", delay=3600)
        programs = find_programs(SystemUser(), copies=tmp_path)
        dump = str(tmp_path / "dump")
        subprocess.run([programs / "pg_dump", "--format=custom", f"--file={dump}", shop], check=True)
        subprocess.run([programs / "pg_restore", f"--dbname={copy}", dump], check=True)
        assert worker.alive
        with Rowcall(copy) as restored, restored.worker():
            for job in (running, by_hand):
                eventually(lambda job=job: restored.get(job.id).status == "pending")  # type: ignore[misc]
                assert [attempt.status for attempt in restored.attempts(job.id)] == ["lost"]
            assert restored.get(waiting.id).status == "scheduled"
            assert restored.enqueue("send").id > waiting.id
        assert jobs.get(running.id).status == "running"
