"""A dashboard that a real server serves, in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Unpack

import uvicorn

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.http.serve import server_of
from rowcall.http.server_options import HttpOptions, settings
from rowcall.testing import eventually


class Served(NamedTuple):
    server: uvicorn.Server
    address: tuple[str, int]

    @property
    def site(self) -> str:
        return f"http://127.0.0.1:{self.address[1]}"


@contextmanager
def served(jobs: Rowcall, **options: Unpack[HttpOptions]) -> Iterator[Served]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        server = server_of(queue_of(jobs), settings(**options), "127.0.0.1", 0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            eventually(lambda: server.started)
            yield Served(server, listener.getsockname())
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()
