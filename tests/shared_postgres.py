"""One PostgreSQL server for a whole run of pytest, started when the first test asks for it."""

from __future__ import annotations

import os
import socket
import socketserver
import threading

from rowcall.testing.postgres import PostgresServer

OTHER_SERVER = "ROWCALL_TEST_POSTGRES_URL"
PATIENCE_SECONDS = 100.0


class SharedPostgres:
    """Held by the process that started the run: it owns the server, and passes its URL to the workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: PostgresServer | None = None
        self._desk: socketserver.TCPServer | None = None

    def url(self) -> str:
        with self._lock:
            if self._server is None:
                server = PostgresServer(in_memory=True)
                server.__enter__()
                self._server = server
            return self._server.url()

    def port(self) -> int:
        """Where the workers ask for the URL."""
        if self._desk is None:
            self._desk = _Desk(self)
            threading.Thread(target=self._desk.serve_forever, name="shared-postgres", daemon=True).start()
        port: int = self._desk.server_address[1]
        return port

    def close(self) -> None:
        if self._desk is not None:
            self._desk.shutdown()
            self._desk.server_close()
        with self._lock:
            if self._server is not None:
                self._server.close()


class _Desk(socketserver.TCPServer):
    def __init__(self, shared: SharedPostgres) -> None:
        self.shared = shared
        super().__init__(("127.0.0.1", 0), _Answer)


class _Answer(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Desk)
        try:
            answer = self.server.shared.url()
        except Exception as error:
            answer = f"no server: {error}"
        self.request.sendall(answer.encode())


def ask(port: int) -> str:
    """A worker's question for the URL; the first one waits for the server to start."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    answer = b"".join(parts).decode()
    if not answer.startswith("postgresql://"):
        raise RuntimeError(answer)
    return answer


def other_server() -> str | None:
    return os.environ.get(OTHER_SERVER) or None
