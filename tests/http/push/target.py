"""A target for pushed jobs: a server on this machine that records requests, and answers as a test says."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from rowcall import PushOptions

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = "whsec_" + "QUJD" * 10


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def sent(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.body)
        return found


class Reply(NamedTuple):
    """What is answered. `write` writes the body in its own way; `before` is called before anything is answered."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    write: Callable[[BaseHTTPRequestHandler], None] | None = None
    before: Callable[[], None] = lambda: None


CERTIFICATE = Path(__file__).parent / "app.example.pem"
"""A key and a certificate for the name app.example, which it signs itself."""


class TargetServer:
    """With `tls`, it has the certificate, and `names` has the names that clients asked for."""

    def __init__(self, *, tls: bool = False) -> None:
        self.names: list[str | None] = []
        self.received: list[Received] = []
        self.replies: list[Reply] = []
        """What is answered, one after the other; the last one for ever."""
        self.stopping = threading.Event()
        target = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                target.received.append(Received(self.path, headers, body))
                reply = target.replies.pop(0) if len(target.replies) > 1 else (target.replies or [Reply()])[0]
                reply.before()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if reply.write is None:
                    self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                if reply.write is None:
                    self.wfile.write(reply.body)
                else:
                    reply.write(self)

            def handle(self) -> None:
                with suppress(OSError):  # the worker has closed the connection
                    super().handle()

            def log_message(self, *words: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            context.sni_callback = lambda socket, name, context: self.names.append(name)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def url(self, path: str = "/jobs", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def close(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(*, tls: bool = False) -> Iterator[TargetServer]:
    server = TargetServer(tls=tls)
    try:
        yield server
    finally:
        server.close()


def json_reply(value: object, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(status, json.dumps(value).encode(), {"content-type": "application/json", **named})


def options(**more: object) -> PushOptions:
    """Return options that allow targets on this machine."""
    given = {"secrets": [SECRET], "allow_private": True, **more}
    return PushOptions(**given)  # type: ignore[arg-type]
