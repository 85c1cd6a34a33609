"""Where Prometheus finds the metrics of a worker: an HTTP server of its own."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Stats
from rowcall.observe.counts import Counts
from rowcall.observe.extras import missing
from rowcall.observe.meter import Meter

if TYPE_CHECKING:
    import threading
    from wsgiref.simple_server import WSGIServer

DEFAULT_HOST = "127.0.0.1"


class Endpoint:
    """Opened before its worker starts, so that a port that is taken stops it; closed after it has ended."""

    def __init__(self, host: str, port: int, ask: Callable[[], Stats]) -> None:
        _require_library()
        self._host = host
        self._port = port
        self._counts = Counts(ask)
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None
        self.meter = Meter()

    def open(self, slots: int, busy: Callable[[], int]) -> None:
        """Begin to answer; `InvalidOption` if that cannot be."""
        from prometheus_client import start_http_server

        from rowcall.observe.metrics import WorkerCollector, registry_of

        registry = registry_of(WorkerCollector(self.meter, self._counts, slots, busy))
        try:
            self._server, self._thread = start_http_server(self._port, self._host, registry)
        except (OSError, UnicodeError) as error:
            raise refused(self._host, self._port, error) from None

    def close(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None


def _require_library() -> None:
    try:
        import prometheus_client  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing("metrics_port", "metrics", error) from None


def require_free(host: str, ports: range) -> None:
    """Complain of the first port that could not be listened at; for a process that will start others there."""
    for port in ports:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with contextlib.closing(socket.socket(family, kind, protocol)) as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
        except (OSError, UnicodeError) as error:
            raise refused(host, port, error) from None


def refused(host: str, port: int, error: Exception) -> InvalidOption:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InvalidOption("metrics_port", f"nobody can listen at {host}:{port}: {reason}")
