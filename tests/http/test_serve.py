from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from select import select
from socket import create_connection as connect

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from rowcall import Alerts, InvalidOption, Rowcall
from rowcall.app import queue_of
from rowcall.http import serve
from rowcall.http.serve import server_of
from rowcall.http.server_options import settings
from rowcall.testing import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.http.push.target import serving
from tests.http.server import served


def test_an_open_dashboard_serves_this_machine_only(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption, match=r"host: '0\.0\.0\.0' can be reached from elsewhere"):
        server_of(queue_of(jobs), settings(), "0.0.0.0", 8642)
    assert server_of(queue_of(jobs), settings(), "::1", 8642).config.port == 8642
    assert server_of(queue_of(jobs), settings(token="t" * 16), "0.0.0.0", 80).config.port == 80


def test_the_dashboard_sends_alerts(tmp_path: Path) -> None:
    clock = FakeClock()
    with (
        serving() as target,
        Rowcall(tmp_path / "app.db", clock=clock, alerts=Alerts(url=target.url(), after=0)) as jobs,
    ):
        jobs.enqueue("send")
        clock.advance(60)
        with served(jobs):
            eventually(lambda: len(target.received) == 1)


def test_slow_heads_are_cut_off(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request of a connection, and a later one."""
    monkeypatch.setattr(serve, "HEAD_SECONDS", 0.2)
    with served(filled) as (_, address), connect(address) as new, connect(address) as used:
        new.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        used.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b"ok\n"):
            answer += used.recv(1000)
        used.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        for one in (new, used):
            one.settimeout(20)
            with suppress(ConnectionResetError):
                assert one.recv(1) == b""


def test_a_body_that_no_one_reads_is_cut_off(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes before the body. A client that continues has some seconds to finish."""
    monkeypatch.setattr(serve, "HEAD_SECONDS", 0.5)
    head = b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    with served(filled, token="t" * 20) as (server, address), connect(address) as slow, connect(address) as quick:
        for client in (slow, quick):
            client.settimeout(20)
            client.sendall(head + b"300000\r\n\r\n" + b"x" * 1000)
            assert client.recv(1000).startswith(b"HTTP/1.1 401")
        assert all(isinstance(one, H11Protocol) and not one.cycle.body for one in server.server_state.connections)
        quick.sendall(b"x" * 299_000 + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert quick.recv(1000).startswith(b"HTTP/1.1 200")
        with suppress(ConnectionResetError, BrokenPipeError):
            while not select([slow], [], [], 0.05)[0]:
                slow.sendall(b"x")
            assert slow.recv(1000) == b""


def test_a_client_that_does_not_read_is_cut_off(filled: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "SEND_SECONDS", 0.2)
    monkeypatch.setattr(serve, "IDLE_SECONDS", 3600)  # it is not cut off because it is idle
    filled.task(name="long")(long).enqueue_many([{"text": "x" * 60_000} for _ in range(200)])
    with served(filled) as (server, address), socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address)
        client.sendall(b"GET /api/jobs?limit=200 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        eventually(lambda: not server.server_state.connections)


def long(text: str) -> None: ...
