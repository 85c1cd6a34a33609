"""An HTTP server with the Prometheus metrics of a worker."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from rowcall.base.clock import Clock
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Stats
from rowcall.observe.meter import Counts, Meter
from rowcall.observe.optional_libraries import missing

if TYPE_CHECKING:
    from threading import Thread
    from wsgiref.simple_server import WSGIServer

DEFAULT_HOST = "127.0.0.1"


class Endpoint:
    """A service of a worker. It starts first, so that a port in use stops the worker."""

    def __init__(
        self, host: str, port: int, clock: Clock, ask: Callable[[], Stats], slots: int, busy: Callable[[], int]
    ) -> None:
        _require_library()
        self._host = host
        self._port = port
        self._counts = Counts(ask, clock)
        self._slots = slots
        self._busy = busy
        self._server: tuple[WSGIServer, Thread] | None = None
        self.meter = Meter()

    def start(self) -> None:
        """Begin to answer, or raise `InvalidOption`."""
        from prometheus_client import start_http_server

        from rowcall.observe.metrics import WorkerCollector, registry_of

        if self._server is not None:
            return
        registry = registry_of(WorkerCollector(self.meter, self._counts, self._slots, self._busy))
        try:
            self._server = start_http_server(self._port, self._host, registry)
        except (OSError, UnicodeError) as error:
            raise refused(self._host, self._port, error) from None

    def stop(self) -> None:
        """Does nothing: it answers until all else has ended."""

    def wait(self) -> None:
        if self._server is not None:
            (server, thread), self._server = self._server, None
            server.shutdown()
            server.server_close()
            thread.join()


def _require_library() -> None:
    try:
        import prometheus_client  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing("metrics_port", "metrics", error) from None


def require_free(host: str, ports: range) -> None:
    """Raise `InvalidOption` for the first port in use; for a process that will start workers there."""
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
    return InvalidOption("metrics_port", f"cannot listen at {host}:{port}: {reason}")
