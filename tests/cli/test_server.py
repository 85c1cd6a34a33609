"""Every command on a PostgreSQL server: by URL and by app, with no password anywhere."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowcall import Rowcall, StoreUnavailable
from rowcall.app import queue_of
from rowcall.cli.load import load
from rowcall.cli.target import existing
from rowcall.domain.config import shown
from rowcall.testing.postgres_database import database_of, with_database
from tests.cli.conftest import APP, Run
from tests.pgbouncer import PgBouncer
from tests.support import ForkedProcess, eventually

Tell = Callable[..., Any]

PASSWORD = "open-sesame"
LOOKING = [
    *(["jobs"], ["show", "1"], ["why", "1"], ["stats"], ["workers"], ["retry", "1"], ["cancel", "1"], ["delete", "1"]),
    *(["stuck"], ["retries"], ["errors"], ["retention"], ["prune"], ["vacuum"], ["top"]),
]
NOBODY = "postgresql://ann:open-sesame@127.0.0.1:1/shop"

SLOW = """
import threading
from app import jobs

@jobs.task
def endless() -> None:
    threading.Event().wait()
"""

PAST = """
from datetime import UTC, datetime
from rowcall import Rowcall
from rowcall.testing import FakeClock

jobs = Rowcall("{url}", clock=FakeClock(datetime(2020, 1, 1, tzinfo=UTC)))
"""


def with_password(url: str) -> tuple[str, str]:
    """The URL with a password, its own or one that a trusting server does not ask for; and that password."""
    found = re.match(r"postgresql://[^:@/]*:([^@]*)@", url)
    return (url, found[1]) if found else (re.sub(r"^(postgresql://[^@/]*)@", rf"\1:{PASSWORD}@", url), PASSWORD)


@pytest.fixture(params=["--url", "app:jobs"])
def words(request: pytest.FixtureRequest, postgres_url: str, server_app: Path) -> list[str]:
    return [request.param, postgres_url] if request.param == "--url" else [request.param]


@pytest.fixture
def tell(run: Run, words: list[str]) -> Tell:
    """What a command says in JSON."""

    def ask(command: str, *more: str) -> Any:
        result = run(command, *words, *more, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return ask


@pytest.mark.no_tables
def test_migrate_makes_the_tables_once(tell: Tell, run: Run, words: list[str], postgres_url: str) -> None:
    made = tell("migrate")
    assert made == {"path": shown(postgres_url), "from": 0, "to": made["to"]}
    assert run("migrate", *words).stdout.endswith(f"already at version {made['to']}\n")


def test_looking_and_steering(tell: Tell, run: Run, words: list[str], server_queue: Rowcall) -> None:
    server_queue.enqueue("hello", {"name": "Ann"}, tags=["paid"])
    server_queue.enqueue("broken", delay=3600)
    assert tell("stats")["total"] == 2
    [tagged] = tell("jobs", "--tag", "paid")["jobs"]
    assert tagged["payload"] == {"name": "Ann"}
    [event] = tell("show", "1")["timeline"]
    assert event["event"] == "ENQUEUED"
    assert tell("workers") == {"workers": []}
    for command, status in (("cancel", "cancelled"), ("retry", "pending"), ("delete", None)):
        assert tell(command, "1")["jobs"] == [{"id": 1, "ok": True, "status": status, "error": None}]
    for looking in LOOKING[:4]:
        assert run(looking[0], *words, *[part.replace("1", "2") for part in looking[1:]]).exit_code == 0
    assert "due in 1 h" in run("jobs", *words).stdout


@pytest.mark.no_tables
@pytest.mark.parametrize("command", LOOKING)
def test_looking_makes_no_tables(run: Run, postgres_url: str, command: list[str]) -> None:
    result = run(*command, "--url", postgres_url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {shown(postgres_url)} has no tables named rowcall_*. Create them with: ")
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select to_regclass('rowcall_job')").fetchone() == (None,)


@pytest.mark.parametrize("command", [*LOOKING, ["migrate"], ["doctor"], ["bench"]])
def test_a_server_that_is_not_there(run: Run, command: list[str]) -> None:
    result = run(*command, "--url", NOBODY)
    assert result.exit_code == 1
    assert "postgresql://ann@127.0.0.1:1/shop: cannot connect" in result.output
    assert "Traceback" not in result.output
    assert PASSWORD not in result.output


@pytest.mark.new_database
def test_looking_never_migrates_and_closes_what_it_opened(server_queue: Rowcall, postgres_url: str) -> None:
    target = existing("app:jobs", None)
    assert not target.queue.config.auto_migrate
    target.jobs.close()
    with pytest.raises(StoreUnavailable, match="search_path"):
        existing(None, f"{postgres_url}?options=-csearch_path%3Dnowhere")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        query = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        server_queue.close()
        eventually(lambda: connection.execute(query).fetchone() == (0,), message="the end of all connections")


def test_without_the_driver_it_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "rowcall.drivers.postgres.database", raising=False)
    for command in ("stats", "doctor", "migrate"):
        result = run(command, "--url", NOBODY)
        assert result.exit_code == 2
        assert "pip install 'rowcall[postgres]'" in result.stderr


def test_no_command_prints_the_password(run: Run, app: Path, folder: Path, postgres_url: str) -> None:
    url, password = with_password(postgres_url)
    app.write_text(APP.replace("sqlite:///queue.db", url))
    jobs = load("app:jobs")
    commands = [["migrate"], ["doctor"], *LOOKING]
    said = [run(*command, "--url", url, *form).output for command in commands for form in ([], ["--json"])]
    with (
        closing(jobs),
        ForkedProcess("-m", "rowcall", "work", "app:jobs", "--log-level=debug", cwd=str(folder)) as work,
    ):
        eventually(jobs.workers)
        said += [run("doctor", "app:jobs").output, run("workers", "app:jobs", "--json").output]
        work.send(signal.SIGTERM)
        assert work.wait() == 0
        said.append(work.output)
    assert re.search(r"postgresql://\w+@", "".join(said))
    assert password not in "".join(said)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_work(server_queue: Rowcall, folder: Path, processes: str) -> None:
    arguments = ("-m", "rowcall", "work", "app:jobs", f"--processes={processes}")
    with ForkedProcess(*arguments, cwd=str(folder)) as process:
        eventually(lambda: len(server_queue.workers()) == int(processes))
        job = server_queue.enqueue("hello", {"name": "Ann"})
        assert eventually(lambda: server_queue.get(job.id).result) == "hello Ann"
        process.send(signal.SIGTERM)
        assert process.wait() == 0, process.output
        assert f"working on {queue_of(server_queue).database.name}: 2 tasks" in process.output
    assert server_queue.workers() == []


@pytest.mark.no_tables
def test_commands_work_behind_a_pooler(
    run: Run, app: Path, folder: Path, postgres_url: str, pgbouncer: PgBouncer
) -> None:
    url = pgbouncer.url(database_of(postgres_url))
    app.write_text(APP.replace("sqlite:///queue.db", url))
    assert "created the tables" in run("migrate", "--url", url).stdout
    with Rowcall(url) as jobs, ForkedProcess("-m", "rowcall", "work", "app:jobs", cwd=str(folder)) as process:
        job = jobs.enqueue("hello", {"name": "Ann"})
        assert eventually(lambda: jobs.get(job.id).result) == "hello Ann"
        for command in ("stats", "jobs", "workers", "doctor"):
            result = run(command, "app:jobs")
            assert result.exit_code == 0, result.output
        process.send(signal.SIGTERM)
        assert process.wait() == 0, process.output
        process.wait_for("cannot receive notifications through a connection pooler")


@pytest.mark.parametrize("more", [[], ["--processes=2"]])
def test_work_says_at_once_that_the_server_is_not_there(run: Run, app: Path, more: list[str]) -> None:
    app.write_text(APP.replace("sqlite:///queue.db", NOBODY))
    result = run("work", "app:jobs", *more)
    assert result.exit_code == 1
    assert "cannot connect" in result.stderr.splitlines()[-1]


def test_a_worker_that_was_killed_here_is_gone(run: Run, server_queue: Rowcall, folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW)
    job = server_queue.enqueue("endless")
    with ForkedProcess("-m", "rowcall", "work", "slow:jobs", cwd=str(folder)) as process:
        eventually(lambda: server_queue.get(job.id).status == "running")
        [worker] = json.loads(run("workers", "app:jobs", "--json").stdout)["workers"]
        assert (worker["state"], worker["pid"]) == ("alive", process.pid)
        process.kill()
    assert json.loads(run("workers", "app:jobs", "--json").stdout)["workers"][0]["state"] == "gone"
    assert run("jobs", "app:jobs").stdout.rstrip().endswith("(gone)")


def test_a_worker_of_another_host_is_alive_or_silent_but_never_gone(
    run: Run, server_queue: Rowcall, postgres_url: str, folder: Path
) -> None:
    def state() -> str:
        [worker] = json.loads(run("workers", "app:jobs", "--json").stdout)["workers"]
        return str(worker["state"])

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        with server_queue.worker():
            [registered] = server_queue.workers()
            columns = "name, host, pid, queues, concurrency, version, lease_ms, started_at, heartbeat_at"
            connection.execute(
                f"insert into rowcall_worker ({columns}, lock_path) select 'web-2:7:abc', 'web-2',"
                " pid, queues, concurrency, version, lease_ms, started_at, clock_timestamp(), %s from rowcall_worker",
                [f"{folder}/no/such/file"],
            )
        assert state() == "alive"
        connection.execute("update rowcall_worker set heartbeat_at = clock_timestamp() - interval '3 hours'")
        assert state() == "silent"
        assert "silent for 3 h" in run("workers", "app:jobs").stdout
        assert registered.lease_seconds < 60


def test_heartbeats_are_judged_by_the_database_clock(run: Run, folder: Path, postgres_url: str) -> None:
    (folder / "past.py").write_text(PAST.format(url=postgres_url))
    past = load("past:jobs")
    with closing(past), past.worker():
        [worker] = json.loads(run("workers", "past:jobs", "--json").stdout)["workers"]
        assert worker["heartbeat_at"].startswith("2020-01-01")
        assert worker["state"] == "alive"
        past.enqueue("unknown", delay=60)
        assert "due in 1 min" in run("jobs", "past:jobs").stdout


@pytest.mark.no_tables
@pytest.mark.slow
@pytest.mark.usefixtures("small_bench")
def test_bench_measures_a_server_and_leaves_nothing_behind(run: Run, postgres_url: str) -> None:
    url, password = with_password(postgres_url)
    result = run("bench", "--url", url)
    assert result.exit_code == 0, result.output
    assert "commits as the server is configured, on postgresql://" in result.stdout
    assert password not in result.output
    with psycopg.connect(postgres_url) as connection:
        for catalogue in ("pg_class where relnamespace", "pg_proc where pronamespace", "pg_type where typnamespace"):
            query = f"select count(*) from {catalogue} = 'public'::regnamespace"
            assert connection.execute(query.encode()).fetchone() == (0,), catalogue


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--url", "sqlite:///app.db"], "--url must name a server"),
        (["--url", NOBODY, "--folder", "."], "not both"),
    ],
)
def test_wrong_use_of_bench(run: Run, words: list[str], problem: str) -> None:
    result = run("bench", *words)
    assert result.exit_code == 2
    assert problem in result.stderr


def test_a_queue_without_its_database_says_how_to_make_one(run: Run, postgres_url: str) -> None:
    result = run("stats", "--url", with_database(postgres_url, "no_such_database"))
    assert result.exit_code == 1
    assert "createdb" in result.stderr


def test_the_url_may_come_from_the_environment(
    run: Run, server_queue: Rowcall, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWCALL_URL", postgres_url)
    assert run("stats").exit_code == 0
