"""Where a worker serves its metrics and health checks: a port that is taken, and options that are wrong."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from rowcall import InvalidOption, Rowcall, StoreUnavailable
from rowcall.base.clock import SystemClock
from rowcall.observe.metrics_server import Probes
from rowcall.testing.postgres import PostgresServer
from tests.observe.scraping import free_ports, is_served
from tests.support import eventually


def test_a_port_that_is_taken_is_said_before_the_worker_starts(jobs: Rowcall) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        worker = jobs.worker(metrics_port=port)
        with pytest.raises(InvalidOption, match=f"metrics_port cannot listen at 127.0.0.1:{port}: Address"):
            worker.start()
    assert jobs.workers() == []
    with jobs.worker(metrics_port=port):
        assert is_served(port)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"metrics_port": 0}, "metrics_port must be a port from 1 to 65535, got 0"),
        ({"metrics_port": True}, "metrics_port must be a port"),
        ({"metrics_port": "9464"}, "metrics_port must be a port"),
        ({"metrics_port": 9464, "metrics_host": ""}, "metrics_host must be a name"),
    ],
)
def test_wrong_options_are_refused(jobs: Rowcall, options: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        jobs.worker(**options)  # type: ignore[arg-type]


def ask(port: int, path: str) -> tuple[int, str]:
    answer = httpx.get(f"http://127.0.0.1:{port}/{path}", timeout=2.0)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    return answer.status_code, answer.text


def test_a_worker_is_alive_and_ready_until_it_stops(jobs: Rowcall) -> None:
    port, begun, gate = free_ports(), threading.Event(), threading.Event()

    @jobs.task
    def wait() -> None:
        begun.set()
        gate.wait()

    with jobs.worker(metrics_port=port) as worker:
        eventually(lambda: ask(port, "healthz") == ask(port, "readyz") == (200, "ok\n"))
        assert ask(port, "healthy") == (404, "here are /metrics, /healthz and /readyz\n")
        wait.enqueue()
        begun.wait()
        worker.ask_to_stop()
        eventually(lambda: ask(port, "healthz") == (200, "ok\n"))
        assert ask(port, "readyz") == (503, "the worker is stopping\n")
        gate.set()


def test_a_server_that_hangs_or_is_gone_makes_a_worker_unready_but_not_dead(private_postgres: PostgresServer) -> None:
    port = free_ports()
    with Rowcall(private_postgres.create_database(), busy_timeout=1.0) as jobs:
        jobs.migrate()
        with jobs.worker(metrics_port=port, grace=0):
            eventually(lambda: ask(port, "readyz") == (200, "ok\n"))
            with hanging(private_postgres):
                eventually(lambda: ask(port, "readyz")[0] == 503)
                assert ask(port, "readyz")[1].startswith("database: no answer for ")
                assert ask(port, "healthz")[0] == 200
            eventually(lambda: ask(port, "readyz") == (200, "ok\n"))
            private_postgres.stop()
            eventually(lambda: ask(port, "readyz")[0] == 503)
            assert ask(port, "readyz")[1].startswith("database: ")
            assert ask(port, "healthz")[0] == 200
            private_postgres.start()
            eventually(lambda: ask(port, "readyz") == (200, "ok\n"))


@contextmanager
def hanging(server: PostgresServer) -> Iterator[None]:
    """Stop the processes of a server: connections stay open, and nothing answers."""
    assert server.pid is not None
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    pids = [server.pid, *map(int, children)]
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("turns", "state", "answers", "alive", "ready"),
    [
        (True, "", True, "", ""),
        (False, "", True, "the loop has not turned for 0.4 s, and the database answers", ""),
        (False, "", False, "", "database: gone"),
        (True, "the worker is stopping", True, "", "the worker is stopping"),
        (False, "the worker has ended", False, "the worker has ended", "the worker has ended"),
    ],
)
def test_what_the_probes_say(turns: bool, state: str, answers: bool, alive: str, ready: str) -> None:
    def ping() -> int:
        if not answers:
            raise StoreUnavailable("gone")
        return 1

    probes = Probes(SystemClock(), lambda seconds: turns, lambda: state, ping)
    assert (probes.alive(), probes.ready()) == (alive, ready)
