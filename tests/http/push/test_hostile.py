"""Targets that harm: they never answer, never end, redirect, or do not speak HTTP. Each costs one bounded attempt."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import NamedTuple

import pytest

from rowcall import Attempt, Backoff, Rowcall, TaskDefaults
from tests.http.push.target import Reply, TargetServer, options

MEGABYTE = b" " * 1024**2


class RawTarget(NamedTuple):
    url: str
    asked: threading.Event


@contextmanager
def raw_target(answer: bytes) -> Iterator[RawTarget]:
    """Serve one connection: read the request, send these bytes, and keep the connection open."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        asked, done = threading.Event(), threading.Event()

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    asked.set()
                    connection.sendall(answer)
                    done.wait(20)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield RawTarget(f"http://127.0.0.1:{server.getsockname()[1]}/", asked)
        done.set()
        server.shutdown(socket.SHUT_RDWR)  # ends a wait for a connection
        thread.join()


def delivered(folder: Path, url: str, *, timeout: float = 5.0, largest_answer: int = 1000) -> Attempt:
    """Return the first attempt of a job for that target."""
    push = options(timeout=timeout, largest_answer=largest_answer)
    with Rowcall(folder / "app.db", push=push, defaults=TaskDefaults(retry=Backoff.constant(3600))) as jobs:

        @jobs.push(url)
        def send() -> None: ...

        job = send.enqueue()
        jobs.drain()
        (attempt,) = jobs.attempts(job.id)
        return attempt


def test_a_target_that_never_answers_ends_in_time(tmp_path: Path) -> None:
    with raw_target(b"") as target:
        attempt = delivered(tmp_path, target.url, timeout=0.3)
    assert attempt.error_code == "PUSH:TIMEOUT"
    assert attempt.error_detail == "the target did not answer within 0.3 s"


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 500 no\r\ncontent-length: 100\r\n\r\nslow"])
def test_an_answer_that_never_ends_ends_in_time(tmp_path: Path, head: bytes) -> None:
    with raw_target(head) as target:
        assert delivered(tmp_path, target.url, timeout=0.3).error_code == "PUSH:TIMEOUT"


class Endless:
    """Writes a gigabyte, as far as someone reads it."""

    def __init__(self) -> None:
        self.written = 0

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        while self.written < 1024**3:
            handler.wfile.write(MEGABYTE)
            self.written += len(MEGABYTE)


@pytest.mark.parametrize("status", [200, 500])
def test_no_more_is_read_of_a_gigabyte_than_is_kept(tmp_path: Path, target: TargetServer, status: int) -> None:
    endless = Endless()
    target.replies = [Reply(status, headers={"content-type": "application/json"}, write=endless)]
    attempt = delivered(tmp_path, target.url())
    assert attempt.error_code == ("PUSH:ANSWER_TOO_LARGE" if status == 200 else "PUSH:HTTP_500")
    assert len(attempt.error_detail or "") < 5000
    assert endless.written < 50 * 1024**2  # what the buffers of the sockets hold


def test_an_answer_that_is_no_result_is_not_read(tmp_path: Path, target: TargetServer) -> None:
    endless = Endless()
    target.replies = [Reply(200, headers={"content-type": "text/plain"}, write=endless)]
    assert delivered(tmp_path, target.url()).status == "succeeded"
    assert endless.written < 50 * 1024**2


def test_a_redirect_to_a_private_address_is_not_followed(tmp_path: Path, target: TargetServer) -> None:
    target.replies = [Reply(307, headers={"location": target.url("/admin")}), Reply(200)]
    attempt = delivered(tmp_path, target.url())
    assert attempt.error_code == "PUSH:HTTP_307"
    assert [received.path for received in target.received] == ["/jobs"]


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH_9.9\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000, b"HTTP/9.9 abc\r\n\r\n"]
)
def test_what_is_not_http_is_retried(tmp_path: Path, answer: bytes) -> None:
    with raw_target(answer) as target:
        assert delivered(tmp_path, target.url).error_code == "PUSH:PROTOCOL"


def test_a_refused_connection_is_retried(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    assert delivered(tmp_path, f"http://127.0.0.1:{port}/").error_code == "PUSH:CONNECTION"


def test_a_worker_that_stops_releases_what_it_delivers(tmp_path: Path) -> None:
    with raw_target(b"") as target, Rowcall(tmp_path / "app.db", push=options()) as jobs:

        @jobs.push(target.url)
        def send() -> None: ...

        job = send.enqueue()
        with jobs.worker(grace=0):
            assert target.asked.wait(20)
        assert (jobs.get(job.id).status, jobs.get(job.id).attempt) == ("pending", 0)


def test_the_timeout_of_a_task_comes_first(tmp_path: Path) -> None:
    with raw_target(b"") as target, Rowcall(tmp_path / "app.db", push=options()) as jobs:

        @jobs.push(target.url, timeout=0.2)
        def send() -> None: ...

        job = send.enqueue()
        jobs.drain()
        (attempt,) = jobs.attempts(job.id)
        assert attempt.error_code == "TIMEOUT:HANDLER"
