"""The wire between clients and a server, in the test's hand: it can swallow replies, or carry nothing for a while."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

from psycopg.conninfo import conninfo_to_dict

from rowcall.testing.postgres_database import database_of

COMMIT = b"commit\0"  # as a separate statement
# sent when the statements are prepared, which is when a connection first needs them
CLAIM = b"insert into rowcall_claim"
SETTLE = b"status = 'succeeded', lease"


class Wire:
    """Passes bytes on between clients and the server of a URL.

    with Wire(url) as wire:
        jobs = Rowcall(wire.url)
        swallowed = wire.swallow_commit_of(b"insert into")
    """

    def __init__(self, url: str) -> None:
        parts = conninfo_to_dict(url)
        self.server = str(parts["host"]), int(str(parts["port"]))
        self.flows = threading.Event()
        self.flows.set()
        self.deliver = threading.Event()
        self.wanted: _Wanted | None = None
        self.swallows_notifications = False
        self.swallowed_notifications = 0
        self._door = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[_Pair] = []
        self.url = f"postgresql://{parts['user']}@127.0.0.1:{self._door.getsockname()[1]}/{database_of(url)}?sslmode=disable&gssencmode=disable"
        threading.Thread(target=self._welcome, name="wire", daemon=True).start()

    def swallow_reply_to(self, text: bytes) -> threading.Event:
        """The next time that a client sends the text, the server does what it says, and the client never learns it."""
        self.wanted = _Wanted(text, text)
        return self.wanted.done

    def swallow_commit_of(self, text: bytes) -> threading.Event:
        """The same with the commit that follows the text."""
        self.wanted = _Wanted(text, COMMIT)
        return self.wanted.done

    def delay_commit_of(self, text: bytes) -> threading.Event:
        """The client is cut off when it commits, and the server gets that commit only when `deliver` is set."""
        self.wanted = _Wanted(text, COMMIT, delays=True)
        return self.wanted.done

    def freeze(self) -> None:
        """Drop all data in both directions, without closing the connection."""
        self.flows.clear()

    def freeze_after(self, text: bytes) -> threading.Event:
        """The same from the moment on at which a client has sent the text, and got its reply."""
        self.wanted = _Wanted(text, text, freezes=True)
        return self.wanted.done

    def half_open_after(self, text: bytes) -> threading.Event:
        """Drop all further data of a connection on which a client has sent the text. Others are carried."""
        self.wanted = _Wanted(text, text, half_opens=True)
        return self.wanted.done

    def thaw(self) -> None:
        self.flows.set()

    def close(self) -> None:
        self.flows.set()
        self.deliver.set()
        _cut(self._door)
        for pair in self._pairs:
            pair.cut()

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._door.accept()[0]
                try:
                    self._pairs.append(_Pair(self, client, socket.create_connection(self.server)))
                except OSError:
                    _cut(client)


class _Wanted:
    """`last` is the message whose reply is swallowed, once `text` was sent on the same connection."""

    def __init__(
        self, text: bytes, last: bytes, *, freezes: bool = False, delays: bool = False, half_opens: bool = False
    ) -> None:
        self.text = text
        self.last = last
        self.freezes = freezes
        self.delays = delays
        self.half_opens = half_opens
        self.done = threading.Event()


class _Pair:
    """One client, and its connection to the server."""

    def __init__(self, wire: Wire, client: socket.socket, server: socket.socket) -> None:
        self._wire = wire
        self._client = client
        self._server = server
        self._seen: _Wanted | None = None
        self._swallow: _Wanted | None = None
        self._is_half_open = False
        self._replies = b""
        for carry in (self._carry_requests, self._carry_replies):
            threading.Thread(target=carry, name="wire", daemon=True).start()

    def cut(self) -> None:
        _cut(self._client)
        _cut(self._server)

    def _carry_requests(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._client.recv(65536):
                self._wire.flows.wait()
                wanted = self._wire.wanted
                if wanted is not None and wanted.text in data:
                    self._seen, self._wire.wanted = wanted, None
                if self._seen is not None and self._seen.last in data:
                    self._swallow = self._seen
                    if self._seen.half_opens:
                        self._seen.done.set()
                        self._swallow = None
                        self._is_half_open = True
                    if self._seen.delays:
                        self._seen.done.set()
                        _cut(self._client)
                        self._wire.deliver.wait()
                if not self._is_half_open:
                    self._server.sendall(data)
        self.cut()

    def _carry_replies(self) -> None:
        wire = self._wire
        with contextlib.suppress(OSError):
            while data := self._server.recv(65536):
                self._wire.flows.wait()
                if self._swallow is not None:
                    self._swallow.done.set()
                    if not self._swallow.freezes:
                        break
                    self._swallow = self._seen = None
                    self._wire.freeze()
                if not self._is_half_open:
                    self._client.sendall(self._without_notifications(data) if wire.swallows_notifications else data)
        self.cut()

    def _without_notifications(self, data: bytes) -> bytes:
        """Return all whole messages but notifications: each is a letter and its length, which counts itself."""
        self._replies += data
        passed = b""
        while len(self._replies) > 4 and len(self._replies) > (length := int.from_bytes(self._replies[1:5])):
            message, self._replies = self._replies[: length + 1], self._replies[length + 1 :]
            if message[:1] == b"A":
                self._wire.swallowed_notifications += 1
            else:
                passed += message
        return passed


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
