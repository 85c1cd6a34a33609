"""The dashboard behind WSGI: in Flask under a prefix, and on the servers of the standard library and of Django."""

from __future__ import annotations

import io
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.util import setup_testing_defaults

import httpx
import pytest
from django.core.servers import basehttp
from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from rowcall import Rowcall
from rowcall.http.server_options import WsgiApp

ABSENT = "absent"


class QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


class QuietDjangoHandler(basehttp.WSGIRequestHandler):  # type: ignore[misc]
    def log_message(self, format: str, *args: object) -> None: ...


SERVERS = {
    "wsgiref": (WSGIServer, QuietHandler),
    "runserver": (basehttp.WSGIServer, QuietDjangoHandler),
}


@contextmanager
def wsgi_served(app: WsgiApp, name: str) -> Iterator[str]:
    """Serve an app on this machine, and yield its address."""
    make_server, handler = SERVERS[name]
    with make_server(("127.0.0.1", 0), handler) as server:
        server.set_app(app)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def asked(app: WsgiApp, path: str = "/api/jobs", **environ: str) -> int:
    """Return the status for a request that a server describes like this; `ABSENT` removes a default."""
    given: dict[str, object] = {}
    setup_testing_defaults(given)
    given |= {"PATH_INFO": path, "wsgi.input": io.BytesIO(), **environ}
    statuses: list[str] = []
    answer = app(
        {name: value for name, value in given.items() if value != ABSENT},
        lambda status, headers, error=None: statuses.append(status),  # type: ignore[arg-type]
    )
    b"".join(answer)
    return int(statuses[0][:3])


@pytest.mark.parametrize("name", SERVERS)
def test_servers_that_give_no_port_of_the_client(filled: Rowcall, name: str) -> None:
    with wsgi_served(filled.wsgi(), name) as site:
        assert httpx.get(f"{site}/api/jobs").status_code == 200
        assert httpx.get(f"{site}/api/jobs", headers={"x-forwarded-for": "10.0.0.7"}).status_code == 403
        assert httpx.get(f"{site}/api/jobs", headers={"host": "evil.example"}).status_code == 403


def test_without_a_token_only_a_client_that_is_known_to_be_here_is_answered(filled: Rowcall) -> None:
    app = filled.wsgi()
    for port in (ABSENT, "", "5000", "x"):
        for address in ("10.0.0.7", "::ffff:10.0.0.7", "2001:db8::7", "", ABSENT, "unix:", "localhost.x"):
            client = {"REMOTE_ADDR": address, "REMOTE_PORT": port}
            assert asked(app, HTTP_HOST="localhost", **client) == 403, client
            assert asked(app, "/healthz", **client) == 200, client
        assert asked(app, HTTP_HOST="localhost", REMOTE_ADDR="127.0.0.1", REMOTE_PORT=port) == 200


def test_with_a_token_the_client_may_be_unknown(filled: Rowcall) -> None:
    token = "t" * 20
    assert asked(filled.wsgi(token=token), HTTP_AUTHORIZATION=f"Bearer {token}", REMOTE_ADDR=ABSENT) == 200
    assert asked(filled.wsgi(token=token), REMOTE_ADDR=ABSENT) == 401


def test_a_length_that_is_empty_is_none(filled: Rowcall) -> None:
    client = {"HTTP_HOST": "localhost", "REMOTE_ADDR": "127.0.0.1", "CONTENT_TYPE": "application/json"}
    assert asked(filled.wsgi(), "/api/jobs/1/retry", REQUEST_METHOD="POST", CONTENT_LENGTH="", **client) in (200, 404)


@pytest.mark.parametrize("name", SERVERS)
def test_requests_that_cannot_be_read(filled: Rowcall, name: str) -> None:
    """A path that is not UTF-8, lengths that are none, and a client that leaves in the middle of its body."""
    token = "t" * 20
    with wsgi_served(filled.wsgi(token=token), name) as site:
        assert httpx.get(f"{site}/%ff").status_code == 400
        for length, status in ((b"x", 400), (b"-1", 413), (b"9", 400), (b"99999999", 413)):
            with socket.create_connection(("127.0.0.1", int(site.rpartition(":")[2])), 20) as client:
                client.sendall(b"POST /api/push/complete HTTP/1.0\r\nHost: localhost\r\n")
                client.sendall(b"Content-Type: application/json\r\nContent-Length: " + length + b"\r\n\r\n{")
                client.shutdown(socket.SHUT_WR)
                assert int(client.makefile("rb").read()[9:12]) == status


def test_flask_serves_pages_the_api_and_forms(filled: Rowcall) -> None:
    app = Flask("shop")
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/jobs": filled.wsgi()})  # type: ignore[method-assign]
    client = app.test_client()
    page = client.get("/jobs/jobs/2")
    assert page.status_code == 200
    assert 'href="/jobs/static/rowcall.css' in page.text
    assert client.get("/jobs/jobs").status_code == 200
    assert client.get("/jobs/api/jobs/2").get_json()["job"]["status"] == "failed"
    csrf = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert csrf is not None
    answer = client.post("/jobs/jobs/2/retry", data={"csrf": csrf[1], "return_to": "/jobs/jobs/2"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/jobs/2")
    assert filled.get(2).status == "pending"
