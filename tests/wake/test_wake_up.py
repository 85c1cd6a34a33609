"""An idle worker starts a job soon after its commit, from any process. Its heartbeats and polls are far apart here."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Backoff, Context, Job, Rowcall
from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.testing import eventually
from rowcall.testing.process import ForkedProcess, PythonProcess
from rowcall.wake import waiter_and_file_watch as waiter
from rowcall.wake.waiter_and_file_watch import InotifyWatch
from tests.worker.support import Site, ended

pytestmark = pytest.mark.concurrency

SOON_SECONDS = 2.0  # the floor at which a worker looks on its own is 5
PLAIN_SQL = "insert into rowcall_job (type, payload) values ('note', '{\"text\": \"x\"}')"

INSERT_IN_A_PROCESS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute(sys.argv[2])
connection.commit()
"""
HOLD_THE_LOCK = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin immediate")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
connection.execute("rollback")
"""


@pytest.fixture
def idle(site: Site, jobs: Rowcall) -> Iterator[PythonProcess]:
    """A worker in another process that has nothing to do, and will not poll for minutes."""
    jobs.migrate()
    with site.worker(lease=600) as process:
        warm = jobs.enqueue("note", {"text": "warm"})
        ended(jobs, warm)
        yield process


def by_enqueue(site: Site) -> None:
    site.jobs.enqueue("note", {"text": "x"})


def by_plain_sql(site: Site) -> None:
    with closing(sqlite3.connect(site.database)) as connection, connection:
        connection.execute(PLAIN_SQL)


def by_another_process(site: Site) -> None:
    with ForkedProcess("-c", INSERT_IN_A_PROCESS, str(site.database), PLAIN_SQL) as process:
        assert process.wait() == 0


def on_a_callers_connection(site: Site) -> None:
    with closing(sqlite3.connect(site.database)) as connection:
        connection.execute("create table if not exists orders (id integer)")
        connection.execute("insert into orders values (1)")
        before = site.lines
        site.jobs.enqueue("note", {"text": "x"}, connection=connection)
        assert site.lines == before
        connection.commit()


@pytest.mark.parametrize("commit", [by_enqueue, by_plain_sql, by_another_process, on_a_callers_connection])
def test_a_commit_wakes_an_idle_worker(
    site: Site, jobs: Rowcall, idle: PythonProcess, commit: Callable[[Site], None]
) -> None:
    for times in range(1, 4):
        commit(site)
        site.wait_for_line("note x", times=times, within=SOON_SECONDS)
    assert site.lines.count("note x") == 3


def test_no_job_starts_before_its_commit_or_after_a_rollback(site: Site, jobs: Rowcall, idle: PythonProcess) -> None:
    with closing(sqlite3.connect(site.database)) as connection:
        jobs.enqueue("note", {"text": "rolled back"}, connection=connection)
        connection.rollback()
        jobs.enqueue("note", {"text": "x"}, connection=connection)
        before = site.lines
        connection.commit()
        eventually(lambda: "note x" in site.lines, within=SOON_SECONDS)
    assert before == ["note warm"]
    assert site.lines == ["note warm", "note x"]


def test_a_large_transaction_wakes_it_at_its_end(site: Site, jobs: Rowcall, idle: PythonProcess) -> None:
    """So large that pages reach the file long before the commit: the early writes must not use up the late one."""
    with closing(sqlite3.connect(site.database)) as connection:
        connection.execute("pragma cache_size = 10")
        connection.execute("create table bulk (text)")
        connection.execute(PLAIN_SQL)
        for _ in range(20):
            connection.executemany("insert into bulk values (?)", [("y" * 1000,)] * 500)
            threading.Event().wait(0.05)  # the early notifications have long been handled
        assert "note x" not in site.lines
        connection.commit()
        eventually(lambda: "note x" in site.lines, within=SOON_SECONDS)


def test_every_worker_is_woken(site: Site, jobs: Rowcall, idle: PythonProcess) -> None:
    with site.worker(lease=600, concurrency=1) as one, site.worker(lease=600, concurrency=1) as other:
        made = [jobs.enqueue("hold", {"name": "x"}) for _ in range(12)]
        eventually(lambda: site.lines.count("start x") == 12, within=SOON_SECONDS)
        pids = {str(jobs.get(job.id).worker).split(":")[1] for job in made}
        assert pids == {str(process.pid) for process in (idle, one, other)}
        site.open("x")
        for job in made:
            ended(jobs, job)


def test_delayed_jobs_start_when_they_are_due(site: Site, jobs: Rowcall, idle: PythonProcess) -> None:
    made = [jobs.enqueue("anote", {"text": "d"}, delay=delay) for delay in (0.6, 0.1, 0.35, 0.35, 1.1)]
    for job in made:
        assert_on_time(ended(jobs, job))


def test_an_earlier_one_that_comes_later_is_on_time_too(site: Site, jobs: Rowcall, idle: PythonProcess) -> None:
    jobs.enqueue("anote", {"text": "far"}, delay=3600)
    assert_on_time(ended(jobs, jobs.enqueue("anote", {"text": "near"}, delay=0.2)))


def test_a_retry_starts_when_it_is_due(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=3, retry=Backoff.constant(0.2))
    def flaky(ctx: Context) -> None:
        if ctx.job.attempt < 3:
            raise ValueError("not yet")

    with jobs.worker(lease=600):
        job = ended(jobs, flaky.enqueue())
    assert job.status == "succeeded"
    for failed, following in zip(jobs.attempts(job.id)[:-1], jobs.attempts(job.id)[1:], strict=True):
        assert failed.next_run_at is not None
        assert following.claimed_at >= failed.next_run_at
        assert (following.claimed_at - failed.next_run_at).total_seconds() < 1


def assert_on_time(job: Job) -> None:
    assert job.started_at is not None
    late = (job.started_at - job.run_at).total_seconds()
    assert 0 <= late < 1


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_idle_worker_burns_next_to_nothing(site: Site, jobs: Rowcall, idle: PythonProcess) -> None:
    for _ in range(10):
        jobs.enqueue("nobody_knows_this_task")
    before = cpu_seconds(idle.pid)
    ended(jobs, jobs.enqueue("note", {"text": "later"}, delay=2))
    assert cpu_seconds(idle.pid) - before < 0.2


@pytest.fixture
def polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the kernel has no inotify, or none left."""

    def none_left(*_: object) -> InotifyWatch:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(waiter, "InotifyWatch", none_left)


@pytest.mark.usefixtures("polling")
def test_polling_finds_what_others_commit(site: Site, jobs: Rowcall) -> None:
    ran: list[str] = []

    @jobs.task
    def note(text: str) -> None:
        ran.append(text)

    with jobs.worker(lease=600):
        ended(jobs, note.enqueue("warm"))
        by_plain_sql(site)
        eventually(lambda: ran == ["warm", "x"], within=SOON_SECONDS)
        by_another_process(site)
        eventually(lambda: ran == ["warm", "x", "x"], within=SOON_SECONDS)
        assert_on_time(ended(jobs, note.using(delay=0.3).enqueue("delayed")))


@pytest.mark.usefixtures("polling")
def test_polling_is_no_busy_loop(site: Site, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    change_counter = SqliteConnection.change_counter

    def counted(connection: SqliteConnection) -> int:
        looks.append(1)
        return change_counter(connection)

    @jobs.task
    def note() -> None: ...

    monkeypatch.setattr(SqliteConnection, "change_counter", counted)
    with jobs.worker(lease=600):
        ended(jobs, note.enqueue())
        looks.clear()
        ended(jobs, note.using(delay=1.5).enqueue())
        assert 5 < len(looks) < 150


def test_a_locked_database_is_borne(site: Site, jobs: Rowcall) -> None:
    """It logs that once, continues on its own, and settles what finished before that without running it again."""
    for number in range(1, 3):
        jobs.enqueue("hold", {"name": f"x{number}"}, max_attempts=1)
    with site.worker(busy_timeout=0.1, lease=600) as process:
        for number in range(1, 3):
            site.wait_for_line(f"start x{number}")
            with ForkedProcess("-c", HOLD_THE_LOCK, str(site.database), "1.5") as holder:
                holder.wait_for("held")
                site.open(f"x{number}")
                process.wait_for("out of reach")
                assert jobs.get(number).status == "running"
                assert holder.wait() == 0
            assert ended(jobs, jobs.get(number)).status == "succeeded"
            assert process.output.count("out of reach") == number
            after = jobs.enqueue("note", {"text": "after"})
            assert ended(jobs, after).status == "succeeded"
        assert "ERROR" in process.output
    for number in range(1, 3):
        assert site.lines.count(f"start x{number}") == 1
        assert jobs.get(number).attempt == 1


def test_a_signal_during_a_lock_loses_nothing(site: Site, jobs: Rowcall) -> None:
    job = jobs.enqueue("hold", {"name": "x"}, max_attempts=1)
    with site.worker(busy_timeout=0.1, grace=600) as process:
        site.wait_for_line("start x")
        with ForkedProcess("-c", HOLD_THE_LOCK, str(site.database), "1.5") as holder:
            holder.wait_for("held")
            site.open("x")
            process.wait_for("out of reach")
            process.send(signal.SIGTERM)
            assert holder.wait() == 0
        assert process.wait() == 0
    assert jobs.get(job.id).status == "succeeded"


def test_the_folder_may_have_a_strange_name(tmp_path: Path) -> None:
    folder = tmp_path / "ä b'c%20?#"
    folder.mkdir()
    with Rowcall(folder / "jöbs ?#.db") as jobs:

        @jobs.task
        def note() -> None: ...

        with jobs.worker(lease=600):
            ended(jobs, note.enqueue())
            with closing(sqlite3.connect(folder / "jöbs ?#.db")) as connection, connection:
                connection.execute("insert into rowcall_job (type) values ('note')")
            eventually(lambda: jobs.stats().by_status["succeeded"] == 2, within=SOON_SECONDS)
