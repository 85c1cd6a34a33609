"""The file is deleted, or replaced by another, while processes have it open."""

from __future__ import annotations

import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.domain.errors import FileReplaced
from rowcall.drivers.sqlite.fork_hooks import open_connections
from rowcall.testing.deadline import eventually
from tests.worker.support import Site

pytestmark = pytest.mark.crash

WAL_DELETED = "-wal was deleted or replaced while it was open"


def remove(database: Path) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{database}{end}").unlink(missing_ok=True)


def restore(backup: Path, database: Path) -> None:
    remove(database)
    backup.rename(database)


def backed_up(database: Path) -> Path:
    backup = database.with_name("backup.db")
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    return backup


def jobs_in(database: Path) -> int:
    if not database.exists():
        return 0
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        found = connection.execute("select count(*) from sqlite_master where name = 'rowcall_job'").fetchone()
        return int(connection.execute("select count(*) from rowcall_job").fetchone()[0]) if found != (0,) else 0


def test_who_enqueues_makes_a_new_one(site: Site, jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    jobs.enqueue("note", {"text": "gone"})
    remove(site.database)

    def written() -> bool:
        jobs.enqueue("note", {"text": "new"})
        return jobs_in(site.database) > 0

    eventually(written)  # what was opened a moment ago is believed for as long
    assert jobs.list(limit=1).jobs[0].payload == {"text": "new"}
    assert [one for one in caplog.messages if "was deleted or replaced while it was open" in one]


def test_a_wal_that_is_deleted_is_noticed_by_all_and_copied_back_by_the_last(site: Site, jobs: Rowcall) -> None:
    kept = jobs.enqueue("note", {"text": "kept"}, queue="other")
    with site.worker(queues="default") as worker:
        first = jobs.enqueue("note", {"text": "first"})
        eventually(lambda: jobs.get(first.id).status == "succeeded")
        Path(f"{site.database}-wal").unlink()
        eventually(lambda: refuses(jobs), message="a refused call")
        worker.wait_for(WAL_DELETED)
        with Rowcall(site.database) as newcomer, pytest.raises(FileReplaced, match=WAL_DELETED):
            newcomer.enqueue("note", {"text": "lost"})
        worker.send(signal.SIGTERM)
        worker.wait()
    jobs.close()
    assert [job.id for job in jobs.list().jobs] == [first.id, kept.id]
    assert jobs.enqueue("note", {"text": "next"}).id
    with closing(sqlite3.connect(site.database)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]


def refuses(jobs: Rowcall) -> bool:
    try:
        jobs.list()
    except FileReplaced as error:
        return WAL_DELETED in str(error)
    return False


def test_who_enqueues_continues_in_the_file_that_replaced_it(site: Site, jobs: Rowcall) -> None:
    jobs.enqueue("note", {"text": "kept"})
    backup = backed_up(site.database)
    jobs.enqueue("note", {"text": "gone"})
    restore(backup, site.database)
    eventually(lambda: jobs.stats().total == 1)
    jobs.enqueue("note", {"text": "new"})
    assert jobs_in(site.database) == 2


def test_a_worker_continues_with_what_comes_then(site: Site, jobs: Rowcall) -> None:
    with site.worker() as worker:
        jobs.enqueue("note", {"text": "before"})
        site.wait_for_line("note before")
        remove(site.database)
        with Rowcall(site.database) as another:
            job = another.enqueue("note", {"text": "after"})
            site.wait_for_line("note after")
            eventually(lambda: another.get(job.id).status == "succeeded")
            eventually(lambda: any(one.pid == worker.pid for one in another.workers()))
            site.stop(worker)
        assert "was deleted while it was open" in worker.output or "was replaced while it was open" in worker.output


def test_what_a_worker_still_runs_of_the_old_one_settles_nothing_in_the_new_one(site: Site, jobs: Rowcall) -> None:
    """In a new file, ids and leases start at 1 again."""
    with site.worker() as worker:
        old = jobs.enqueue("stubborn", {"name": "old"})
        site.wait_for_line("start old")
        remove(site.database)
        with Rowcall(site.database) as another:
            new = another.enqueue("hold", {"name": "new"})
            assert new.id == old.id
            site.wait_for_line("start new")
            site.open("old")
            site.wait_for_line("end old")
            assert another.get(new.id).status == "running"
            site.open("new")
            eventually(lambda: another.get(new.id).status == "succeeded")
            assert another.get(new.id).result == "new"
            site.stop(worker)


def test_a_worker_whose_file_is_restored_continues_with_that(site: Site, jobs: Rowcall) -> None:
    jobs.enqueue("note", {"text": "kept"})
    backup = backed_up(site.database)
    with site.worker() as worker:
        site.wait_for_line("note kept")
        restore(backup, site.database)
        site.wait_for_line("note kept", times=2)
        site.stop(worker)


def test_a_waiter_for_a_result_gets_an_error(site: Site, jobs: Rowcall) -> None:
    job = jobs.enqueue("nobody_s")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(jobs.result, job, timeout=60)
        eventually(lambda: any(getattr(connection, "_file", None) for connection in list(open_connections)))
        remove(site.database)
        with pytest.raises(FileReplaced, match="was deleted while it was open"):
            waiting.result(30)
