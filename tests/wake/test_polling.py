"""Waiting for a database that does not notify: by files on this host, and by looking again after growing pauses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from rowcall import Rowcall
from rowcall.drivers.host_notification_file import NotificationFiles
from rowcall.drivers.mysql.connection import MysqlConnection, options_of
from rowcall.store.statement import Plan
from rowcall.testing import eventually
from rowcall.testing.process import PythonProcess
from rowcall.wake import polling
from rowcall.wake import waiter_and_file_watch as waiter
from rowcall.wake.polling import FIRST_SECONDS, LAST_SECONDS, Poller
from rowcall.wake.waiter_and_file_watch import NOISY_WAKEUPS, PollingWatch, Waker, Wakeup

HOURS = 10_000.0


@pytest.fixture
def files(tmp_path: Path) -> NotificationFiles:
    return NotificationFiles(str(tmp_path / "side"), "shop/rowcall_")


@contextmanager
def waiting(files: NotificationFiles) -> Iterator[tuple[Poller, Waker]]:
    with closing(Waker()) as waker, closing(Poller(waker, *files.about("jobs"))) as poller:
        yield poller, waker


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found by looking again."""
    monkeypatch.setattr(polling, "FIRST_SECONDS", HOURS)
    monkeypatch.setattr(polling, "LAST_SECONDS", HOURS)


@pytest.mark.usefixtures("patient")
def test_a_notification_ends_a_wait(files: NotificationFiles) -> None:
    with waiting(files) as (poller, waker):
        threading.Timer(0.01, files.notify, kwargs={"of_jobs": True}).start()
        assert poller.wait(HOURS) is Wakeup.CHANGED
        files.notify(of_jobs=False)
        assert poller.wait(0.001) is Wakeup.TIMEOUT
        waker.wake()
        assert poller.wait(HOURS) is Wakeup.WOKEN


def test_the_pauses_grow_until_something_is_found(files: NotificationFiles) -> None:
    with waiting(files) as (poller, _):
        pauses = []
        for _ in range(15):
            pauses.append(poller._pause_seconds)
            if poller._pause_seconds < 0.02:
                assert poller.wait(HOURS) is Wakeup.CHANGED
            poller.note_wakeup(useful=False)
        assert (pauses[0], pauses[-1]) == (FIRST_SECONDS, LAST_SECONDS)
        assert sorted(pauses) == pauses
        files.notify(of_jobs=True)  # by a caller whose transaction is still open
        assert poller.wait(HOURS) is Wakeup.CHANGED
        assert poller._pause_seconds == FIRST_SECONDS
        poller.note_wakeup(useful=False)
        poller.mark_busy()
        assert poller._pause_seconds == FIRST_SECONDS


@pytest.mark.usefixtures("patient")
def test_many_notifications_for_others_are_one(files: NotificationFiles) -> None:
    with waiting(files) as (poller, waker):
        for _ in range(NOISY_WAKEUPS):
            files.notify(of_jobs=True)
            assert poller.wait(HOURS) is Wakeup.CHANGED
            poller.note_wakeup(useful=False)
        waker.wake()
        files.notify(of_jobs=True)
        assert poller.wait(HOURS) is Wakeup.WOKEN  # during the pause
        assert poller.wait(HOURS) is Wakeup.CHANGED


@pytest.mark.usefixtures("patient")
def test_a_file_that_was_removed_is_made_again(files: NotificationFiles, tmp_path: Path) -> None:
    with waiting(files) as (poller, _):
        (path,) = (tmp_path / "side").iterdir()
        path.unlink()
        files.notify(of_jobs=True)
        assert not path.exists()
        poller.mark_idle()
        while poller.wait(0.001) is Wakeup.CHANGED:  # the old file is gone, the new one is there
            pass
        files.notify(of_jobs=True)
        assert poller.wait(HOURS) is Wakeup.CHANGED


def test_a_folder_that_cannot_be_made_leaves_the_pauses(tmp_path: Path) -> None:
    (tmp_path / "side").write_text("not a folder")
    files = NotificationFiles(str(tmp_path / "side"), "shop")
    with waiting(files) as (poller, _):
        files.notify(of_jobs=True)
        assert poller.wait(HOURS) is Wakeup.CHANGED


def test_without_a_watch_the_pauses_are_the_same(files: NotificationFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiter, "InotifyWatch", lambda paths, waker: PollingWatch(waker))
    with waiting(files) as (poller, _):
        assert poller.wait(HOURS) is Wakeup.CHANGED
        assert poller.wait(0.001) is Wakeup.TIMEOUT


# --- a worker, and who waits for results ----------------------------------------------------------


@pytest.fixture
def jobs(mysql_url: str) -> Iterator[Rowcall]:
    with Rowcall(mysql_url) as jobs:

        @jobs.task
        def note(text: str) -> str:
            return text

        jobs.migrate()
        yield jobs


ENQUEUE = """
import sys
from rowcall import Rowcall
with Rowcall(sys.argv[1]) as jobs:
    jobs.enqueue("note", {"text": "from another process"})
    print("enqueued")
"""


@pytest.mark.usefixtures("patient")
def test_processes_of_one_host_notify_each_other(jobs: Rowcall, mysql_url: str) -> None:
    """An idle worker starts a job at once, and who waits for its end has it at once."""
    with jobs.worker(lease=600):
        assert jobs.result(jobs.enqueue("note", {"text": "from here"}), timeout=30) == "from here"
        with jobs.transaction():
            inside = jobs.enqueue("note", {"text": "in a block"})
        assert jobs.result(inside, timeout=30) == "in a block"
        with PythonProcess("-c", ENQUEUE, mysql_url) as process:
            assert process.wait() == 0
        eventually(lambda: jobs.stats().by_status["succeeded"] == 3)


def test_commits_that_notify_no_one_are_found(jobs: Rowcall, mysql_url: str) -> None:
    """Of a caller's transaction, and of plain SQL."""
    with jobs.worker(lease=600), closing(pymysql.connect(**options_of(mysql_url))) as mine:
        job = jobs.enqueue("note", {"text": "mine"}, connection=mine)
        mine.commit()
        assert jobs.result(job, timeout=30) == "mine"
        with mine.cursor() as cursor:
            cursor.execute("insert into rowcall_job (type, payload) values ('note', '{\"text\": \"x\"}')")
        mine.commit()
        eventually(lambda: jobs.stats().by_status["succeeded"] == 2)


def test_an_idle_worker_asks_a_few_questions_a_second(
    jobs: Rowcall, mysql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read = MysqlConnection.read

    def noted(self: MysqlConnection, plan: Plan[Any]) -> Any:
        asked.append("a question")
        return read(self, plan)

    monkeypatch.setattr(MysqlConnection, "read", noted)
    pauses: list[float] = []
    wait = Poller.wait

    def watched(self: Poller, seconds: float) -> Wakeup:
        pauses.append(self._pause_seconds)
        return wait(self, seconds)

    monkeypatch.setattr(Poller, "wait", watched)
    with jobs.worker(lease=600):
        eventually(lambda: pauses[-2:] == [LAST_SECONDS, LAST_SECONDS])
        before = len(asked)
        waits = len(pauses)
        eventually(lambda: len(pauses) >= waits + 4)
        assert len(asked) - before <= len(pauses) - waits + 1
