"""The server is restarted while a process works, waits or listens."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.private_server import StopMode
from rowcall.worker import pace
from rowcall.worker.pacing import postgres_waiter
from tests.postgres.support import ATTEMPTS, PostgresSite, ask, pid_of
from tests.worker.program import declare_counted
from tests.worker.support import all_ended, ended, some_heartbeats

pytestmark = pytest.mark.crash

JOBS = 2000
HALF_WAY = JOBS // 2
NEVER_SECONDS = 3600.0

both_modes = pytest.mark.parametrize("mode", ["fast", "immediate"])


@both_modes
def test_a_drain_continues(site: PostgresSite, jobs: Rowcall, server: PostgresServer, mode: StopMode) -> None:
    ran: Counter[int] = Counter()

    @jobs.task
    def count(number: int) -> None:
        ran[number] += 1
        if number == HALF_WAY:
            server.restart(mode)

    count.enqueue_many([{"number": number} for number in range(JOBS)])
    assert jobs.drain(concurrency=4).succeeded == JOBS
    assert ran == Counter(range(JOBS))
    assert attempts(site) == {(1, "succeeded", os.getpid()): JOBS}
    assert jobs.workers() == []


@both_modes
def test_a_worker_process_continues(site: PostgresSite, jobs: Rowcall, server: PostgresServer, mode: StopMode) -> None:
    held = [jobs.enqueue("hold", {"name": f"held {number}"}) for number in range(4)]
    with site.worker(concurrency=50) as worker:
        for job in held:
            site.wait_for_line(f"start {job.payload['name']}")
        declare_counted(jobs, site).enqueue_many([{}] * JOBS)
        eventually(lambda: len(site.lines) > JOBS // 10, message="some of them")
        server.restart(mode)
        for job in held:
            site.open(str(job.payload["name"]))
        all_ended(jobs)
        assert attempts(site) == {(1, "succeeded", worker.pid): JOBS + len(held)}
        began = Counter(line for line in site.lines if line[0].isdigit())
        assert len(began) == JOBS
        assert set(began.values()) == {1}
        assert len(jobs.workers()) == 1


@pytest.mark.slow
@both_modes
def test_an_idle_worker_process_is_there_afterwards(
    site: PostgresSite, jobs: Rowcall, server: PostgresServer, mode: StopMode
) -> None:
    with site.worker(lease=1) as worker:
        (before,) = jobs.workers()
        for _ in range(2):
            server.restart(mode)
            some_heartbeats(jobs)
        (after,) = jobs.workers()
        assert after.name == before.name
        assert ended(jobs, jobs.enqueue("note", {"text": "afterwards"})).status == "succeeded"
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0, worker.output


@both_modes
def test_it_is_notified_of_new_jobs_again(
    site: PostgresSite, jobs: Rowcall, server: PostgresServer, mode: StopMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker never looks on its own here: what it does not hear of, it does not find."""
    for floor in ("FIRST_POLL_SECONDS", "LAST_POLL_SECONDS", "FIRST_DEAF_SECONDS", "LAST_DEAF_SECONDS"):
        monkeypatch.setattr(postgres_waiter, floor, NEVER_SECONDS)
    monkeypatch.setattr(pace, "LONGEST_WAIT_SECONDS", NEVER_SECONDS)
    ran: list[str] = []

    @jobs.task
    def note(text: str) -> None:
        ran.append(text)

    with jobs.worker():
        note.enqueue("before")
        eventually(lambda: ran == ["before"])
        for number in range(3):
            server.restart(mode)
            for text in (f"first {number}", f"second {number}"):
                note.enqueue(text)
                eventually(lambda text=text: ran[-1] == text)  # type: ignore[misc]
            insert_plainly(site.url, f"plain {number}")
            eventually(lambda number=number: ran[-1] == f"plain {number}")  # type: ignore[misc]
    assert len(ran) == 10


def insert_plainly(url: str, text: str) -> None:
    ask(url, "insert into rowcall_job (type, payload) values ('note', jsonb_build_object('text', %s::text))", text)


def attempts(site: PostgresSite) -> Counter[tuple[int, str, int]]:
    """How many there are of each number, outcome and process."""
    return Counter((attempt, status, pid_of(worker)) for _, attempt, status, worker in ask(site.url, ATTEMPTS))
