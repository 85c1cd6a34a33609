"""Old and new workers and producers side by side, in both orders, while a migration dies and others finish it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall, SchemaMismatch
from tests.conformance.notes import Notes
from tests.faults.world import plain_database
from tests.support import ForkedProcess, PythonProcess, eventually
from tests.upgrades.product import JOBS_A_ROUND, LATER_VERSION, later_product, migrate_and_die
from tests.upgrades.stored import DATABASES

pytestmark = pytest.mark.no_tables
PATIENCE_SECONDS = 60.0


@pytest.fixture
def url(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    return f"sqlite:///{tmp_path}/app.db" if database == "sqlite" else str(request.getfixturevalue("postgres_url"))


def unfinished(jobs: Rowcall) -> list[str]:
    return [status for status, count in jobs.stats().by_status.items() if count and status != "succeeded"]


class Deploy:
    """Processes of both versions, and what they have done so far."""

    def __init__(self, url: str, notes: Path, running: contextlib.ExitStack) -> None:
        self._url, self._path, self._running = url, notes, running
        self.notes = Notes(notes)
        self.processes: list[PythonProcess] = []

    def start(self, version: str, command: str) -> PythonProcess:
        process = ForkedProcess("-m", "tests.upgrades.product", version, self._url, command, str(self._path))
        self.processes.append(self._running.enter_context(process))
        return process

    def count(self, event: str, process: PythonProcess) -> int:
        for one in self.processes:
            assert one.returncode in (None, 0), one.output
        return sum(note.event.startswith(event) and note.pid == process.pid for note in self.notes.read())

    def wait_for_more(self, event: str, process: PythonProcess, more: int = 10) -> None:
        enough = self.count(event, process) + more
        eventually(lambda: self.count(event, process) >= enough, within=PATIENCE_SECONDS)


@pytest.mark.concurrency
@pytest.mark.slow
@pytest.mark.parametrize("database", DATABASES)
def test_a_deploy_under_load(url: str, tmp_path: Path) -> None:
    with Rowcall(url) as jobs, contextlib.ExitStack() as running:
        jobs.migrate()
        deploy = Deploy(url, tmp_path / "notes", running)
        workers, producers = [deploy.start("earlier", "work")], [deploy.start("earlier", "produce")]
        deploy.wait_for_more("ran", workers[0])
        with later_product():
            for number in (3, 6):
                assert os.WIFSIGNALED(migrate_and_die(url, number))
        migrations = [deploy.start("later", "migrate") for _ in range(2)]
        workers.append(deploy.start("later", "work"))
        producers.append(deploy.start("later", "produce"))
        for worker in workers:
            deploy.wait_for_more("ran", worker)
        assert jobs.migrate() == (LATER_VERSION, LATER_VERSION)
        workers.append(deploy.start("earlier", "work"))  # and an old one after all new ones
        producers.append(deploy.start("earlier", "produce"))
        for producer in producers:
            deploy.wait_for_more("produced", producer, 3)
        for worker in workers:
            deploy.wait_for_more("ran", worker)
        deploy.notes.write("stop")
        assert [process.wait() for process in (*producers, *migrations)] == [0] * 5
        eventually(lambda: not unfinished(jobs), within=PATIENCE_SECONDS)
        for worker in workers:
            worker.send(signal.SIGTERM)
        assert [worker.wait() for worker in workers] == [0] * 3
        assert [process.output for process in (*workers, *producers)] == [""] * 6
        assert all(f"{LATER_VERSION})" in process.output for process in migrations)

        events = Counter(note.event.partition(":")[0] for note in deploy.notes.read())
        ran = {note.job_id for note in deploy.notes.read() if note.event.startswith("ran")}
        assert events["ran"] == len(ran) == events["produced"] * JOBS_A_ROUND
        with closing(plain_database(url)) as plain:
            assert plain.ask("select count(*), max(attempt) from rowcall_job") == [(len(ran), 1)]


@pytest.mark.concurrency
@pytest.mark.parametrize("database", DATABASES)
def test_a_migration_that_older_code_does_not_fit_ends_running_workers(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They claim nothing from the moment of its commit, and say why they end."""
    with Rowcall(url) as jobs, contextlib.ExitStack() as running:

        @jobs.task
        def note() -> None: ...

        with jobs.worker(lease=1) as worker:
            migration = Deploy(url, tmp_path / "notes", running).start("breaking", "migrate")
            assert migration.wait() == 0
            with closing(plain_database(url)) as plain:
                plain.ask("insert into rowcall_job (type) values ('note')")
                assert worker.ended.wait(20)
                assert plain.ask("select status from rowcall_jobs") in ([("scheduled",)], [("pending",)])
        assert isinstance(worker.failure, SchemaMismatch)
        assert (worker.failure.found, worker.failure.wanted) == (LATER_VERSION, LATER_VERSION - 1)
        assert "a newer Rowcall made them; install that version here" in caplog.text
        with pytest.raises(SchemaMismatch, match="a newer Rowcall made them"):
            note.enqueue()


@pytest.mark.parametrize("database", DATABASES)
def test_a_statement_that_newer_tables_do_not_fit_is_explained(url: str, tmp_path: Path) -> None:
    """A worker whose statement fails before its next heartbeat ends with the same words."""
    with Rowcall(url) as jobs, jobs.worker(lease=60) as worker, contextlib.ExitStack() as running:
        assert Deploy(url, tmp_path / "notes", running).start("renaming", "migrate").wait() == 0
        with closing(plain_database(url)) as plain:
            plain.ask("insert into rowcall_job (type) values ('note')")
        assert worker.ended.wait(30)
        assert "a newer Rowcall made them; install that version here" in str(worker.failure)
