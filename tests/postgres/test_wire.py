"""What lies between a worker and its server swallows notifications, or leaves a connection half open."""

from __future__ import annotations

import threading

import pytest

from rowcall import Rowcall
from rowcall.drivers.postgres import connection
from rowcall.testing import eventually
from tests.postgres.support import PostgresSite, ask
from tests.postgres.wire import SETTLE, Wire
from tests.worker.support import ended, outcomes

LISTENING = "select 1 from rowcall_worker where listening"


@pytest.mark.slow
def test_a_worker_that_hears_no_notification_finds_jobs_by_its_checks(site: PostgresSite, jobs: Rowcall) -> None:
    with Wire(site.url) as wire:
        wire.swallows_notifications = True
        with site.worker(url=wire.url):
            for number in range(2):
                eventually(lambda: ask(site.url, LISTENING), message="a worker that listens")
                assert ended(jobs, jobs.enqueue("note", {"text": f"{number}"})).status == "succeeded"
                assert wire.swallowed_notifications > number


def test_a_settle_on_a_half_open_connection_is_repeated_on_another(
    site: PostgresSite, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No end of the connection is seen, and the server never gets the settle."""
    monkeypatch.setattr(connection, "SHORTEST_REPLY_SECONDS", 0.5)
    monkeypatch.setattr(connection, "CANCEL_SECONDS", 0.1)
    monkeypatch.setattr(connection, "LONGEST_SILENCE_SECONDS", 1)  # the server ends the transaction that has locks
    ran, may_end = [], threading.Event()
    with Wire(site.url) as wire, Rowcall(wire.url, busy_timeout=0.5) as queue:

        @queue.task
        def wait() -> None:
            ran.append("begun")
            may_end.wait(20)

        with queue.worker(lease=60):
            job = jobs.enqueue("wait")
            eventually(lambda: ran)
            swallowed = wire.half_open_after(SETTLE)
            may_end.set()
            assert swallowed.wait(20)
            assert ended(jobs, job).status == "succeeded"
            assert ended(jobs, jobs.enqueue("wait")).status == "succeeded"
    assert ran == ["begun", "begun"]
    assert outcomes(jobs, job) == ["succeeded"]
