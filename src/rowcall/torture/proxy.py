"""A TCP proxy between the processes of `rowcall torture` and a server: it cuts connections, and loses replies.

It passes bytes on without a look at them, so it works with TLS.
"""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import threading
from collections.abc import Callable, Sequence

CONNECT_SECONDS = 5.0
CHUNK_BYTES = 65_536


class CuttingProxy:
    """Listens on this machine while it is open. `url` leads through it."""

    def __init__(self, addresses: Sequence[tuple[str, int] | str], url_at: Callable[[int], str]) -> None:
        self._addresses = addresses
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._pairs: set[_Pair] = set()
        self._flows = threading.Event()
        self._flows.set()
        self.url = url_at(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="torture-proxy", daemon=True).start()

    def cut(self, chance: random.Random, at_most: int) -> int:
        """Cut some connections. Return how many."""
        victims = self._some(chance, at_most)
        for pair in victims:
            pair.close()
        return len(victims)

    def lose_replies(self, chance: random.Random, at_most: int) -> int:
        """Cut some connections when the server next replies: the client never learns what was done."""
        victims = self._some(chance, at_most)
        for pair in victims:
            pair.loses_reply = True
        return len(victims)

    def freeze(self) -> None:
        """Carry nothing, and close nothing."""
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    def close(self) -> None:
        self.thaw()
        _close(self._listener)
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.close()

    def _some(self, chance: random.Random, at_most: int) -> list[_Pair]:
        with self._lock:
            pairs = list(self._pairs)
        return chance.sample(pairs, min(at_most, len(pairs)))

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), name="torture-proxy", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = self._connected()
        except OSError:
            _close(client)
            return
        pair = _Pair(client, server)
        with self._lock:
            self._pairs.add(pair)
        try:
            pair.carry(self._flows)
        finally:
            pair.close()
            with self._lock:
                self._pairs.discard(pair)

    def _connected(self) -> socket.socket:
        """Connect to the first address that answers."""
        problem = OSError("the URL names no host")
        for address in self._addresses:
            try:
                if not isinstance(address, str):
                    return socket.create_connection(address, CONNECT_SECONDS)
                server = socket.socket(socket.AF_UNIX)
                server.connect(address)
                return server
            except OSError as error:
                problem = error
        raise problem


class _Pair:
    """A client, and its connection to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self.loses_reply = False

    def carry(self, flows: threading.Event) -> None:
        """Pass bytes on until an end is closed."""
        self._client.settimeout(None)
        self._server.settimeout(None)
        others = {self._client: self._server, self._server: self._client}
        with selectors.DefaultSelector() as ready, contextlib.suppress(OSError, ValueError):
            for end in others:
                ready.register(end, selectors.EVENT_READ, end)
            while True:
                for key, _ in ready.select():
                    end = key.data
                    data = end.recv(CHUNK_BYTES)
                    flows.wait()
                    if not data or (end is self._server and self.loses_reply):
                        return
                    others[end].sendall(data)

    def close(self) -> None:
        _close(self._client)
        _close(self._server)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
