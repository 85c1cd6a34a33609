"""`rowcall dashboard`: serve the app by uvicorn."""

from __future__ import annotations

import asyncio

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rowcall.domain.errors import InvalidOption
from rowcall.http.app import asgi_app
from rowcall.http.guard import is_loopback
from rowcall.http.server_options import HttpSettings
from rowcall.queue import Queue

MOST_CONNECTIONS = 512
IDLE_SECONDS = 15
LARGEST_HEAD = 32 * 1024
HEAD_SECONDS = 10.0
SEND_SECONDS = 30.0


class _Limit:
    """Ends a connection unless it is lifted in time."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float, transport: asyncio.Transport) -> None:
        if self._timer is None:
            # close() would wait until the client has read everything
            self._timer = asyncio.get_running_loop().call_later(seconds, transport.abort)

    def lift(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class BoundedProtocol(H11Protocol):
    """A connection that is cut off if its client is slow to send the head of a request, or to read the answer.

    So is one that continues to send a body after the answer: no one reads it.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head, self._answer = _Limit(), _Limit()
        self._head.set(HEAD_SECONDS, transport)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE or self._is_answered():
            self._head.set(HEAD_SECONDS, self.transport)
        else:
            self._head.lift()

    def on_response_complete(self) -> None:
        self.cycle.body = bytearray()  # what was not read of it
        super().on_response_complete()
        if self._is_answered():
            self._head.set(HEAD_SECONDS, self.transport)

    def _is_answered(self) -> bool:
        """Return whether the answer was sent before the whole body had come."""
        return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

    def pause_writing(self) -> None:
        super().pause_writing()
        self._answer.set(SEND_SECONDS, self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._answer.lift()

    def timeout_keep_alive_handler(self) -> None:
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._head.lift()
        self._answer.lift()


def server_of(queue: Queue, settings: HttpSettings, host: str, port: int, root_path: str = "") -> uvicorn.Server:
    """Return a server, or raise `InvalidOption` if others could reach it and need not sign in."""
    if settings.is_open and not is_loopback(host):
        problem = f"{host!r} can be reached from elsewhere: set $ROWCALL_DASHBOARD_TOKEN, or use 127.0.0.1"
        raise InvalidOption("host", problem)
    config = uvicorn.Config(
        asgi_app(queue, settings),
        host=host,
        port=port,
        root_path=root_path,
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        http=BoundedProtocol,
    )
    return uvicorn.Server(config)
