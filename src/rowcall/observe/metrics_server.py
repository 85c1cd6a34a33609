"""An HTTP server with the Prometheus metrics of a worker, and whether it is alive and ready."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rowcall.base.clock import Clock
from rowcall.domain.errors import InvalidOption
from rowcall.observe.meter import Latest, Meter, QueueFacts
from rowcall.observe.optional_libraries import missing

if TYPE_CHECKING:
    from threading import Thread
    from wsgiref.simple_server import WSGIServer
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

DEFAULT_HOST = "127.0.0.1"
PROBE_SECONDS = 0.4
_METRICS_PATHS = ("/metrics", "/metrics/", "/", "")


class Probes:
    """Whether a worker is alive, and ready. Each answer is the problem, or an empty text, and comes within a second.

    `turns` says whether the loop takes another turn within some seconds; `state` is empty while the worker runs, else
    what to say about it; `ping` asks the database for anything.
    """

    def __init__(
        self, clock: Clock, turns: Callable[[float], bool], state: Callable[[], str], ping: Callable[[], object]
    ) -> None:
        self._turns = turns
        self._state = state
        self._database = Latest(
            ping, clock, fresh_seconds=PROBE_SECONDS, patience_seconds=PROBE_SECONDS, stale_seconds=PROBE_SECONDS
        )

    def alive(self) -> str:
        if self._turns(PROBE_SECONDS):
            return ""
        if state := self._state():
            return state
        if self._database.latest() is None:
            return ""  # a loop that waits for a database out of reach is alive: a restart would not help
        return f"the loop has not turned for {PROBE_SECONDS:g} s, and the database answers"

    def ready(self) -> str:
        if state := self._state():
            return state
        return "" if self._database.latest() is not None else f"database: {self._database.problem}"


class MetricsEndpoint:
    """A service of a worker. It starts first, so that a port in use stops the worker."""

    def __init__(
        self,
        host: str,
        port: int,
        clock: Clock,
        ask: Callable[[], QueueFacts],
        slots: int,
        busy: Callable[[], int],
        probes: Probes,
    ) -> None:
        _require_library()
        self._host = host
        self._port = port
        self._probes = probes
        self._counts = Latest(ask, clock)
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
        server, _ = self._server
        metrics = server.get_app()
        assert metrics is not None
        server.set_app(_with_probes(metrics, self._probes))

    def stop(self) -> None:
        """Does nothing: it answers until all else has ended."""

    def wait(self) -> None:
        if self._server is not None:
            (server, thread), self._server = self._server, None
            server.shutdown()
            server.server_close()
            thread.join()


def _with_probes(metrics: WSGIApplication, probes: Probes) -> WSGIApplication:
    paths = {"/healthz": probes.alive, "/readyz": probes.ready}

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path in _METRICS_PATHS:
            return metrics(environ, start_response)
        probe = paths.get(path)
        if probe is None:  # a mistyped probe must not look healthy
            status, message = "404 Not Found", "here are /metrics, /healthz and /readyz"
        else:
            problem = probe()
            status, message = ("503 Service Unavailable", problem) if problem else ("200 OK", "ok")
        start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
        return [f"{message}\n".encode()]

    return answer


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
