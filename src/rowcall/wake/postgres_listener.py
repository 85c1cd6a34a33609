"""Hearing of work from a PostgreSQL server: a thread that listens, and listens again after every cut."""

from __future__ import annotations

import contextlib
import os
import random
import select
import threading
from collections.abc import Callable

import psycopg
from psycopg import pq

from rowcall.domain.errors import RowcallError
from rowcall.wake.file_watch import Bell, is_readable

FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.1, 5.0
LAST_WORDS_SECONDS = 1.0

Connect = Callable[[], "psycopg.Connection[tuple[object, ...]] | None"]


class Listener:
    """Rings the bell for every word it hears. `connect` gives None where nobody can listen.

    `heard` is given each word, and an empty one whenever something may have been missed. `pause_seconds` makes all that
    is said within that time one word: for those who are told much that is not for them.
    """

    def __init__(
        self, connect: Connect, channel: str, bell: Bell, heard: Callable[[str], None] = lambda word: None
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._bell = bell
        self._heard = heard
        self._told = False
        self._stop_reader, self._stop_writer = os.pipe()
        self.listens = False
        self.deaf = False
        self.pause_seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="rowcall-listener", daemon=True)
        self._thread.start()

    def take(self) -> bool:
        """Whether anything was heard since it was last asked."""
        told, self._told = self._told, False
        return told

    def close(self) -> None:
        """Returns without the thread where that is still connecting: it ends by itself."""
        with contextlib.suppress(BrokenPipeError):  # it has ended by itself
            os.write(self._stop_writer, b"!")  # a forked child may have a copy of this end: closing it says nothing
        os.close(self._stop_writer)
        self._thread.join(LAST_WORDS_SECONDS)

    def _run(self) -> None:
        try:
            self._listen()
        finally:
            os.close(self._stop_reader)

    def _listen(self) -> None:
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            try:
                raw = self._connect()
                if raw is None:
                    self.deaf = True
                    return
                with contextlib.closing(raw):
                    raw.execute(f'listen "{self._channel}"')
                    pause_seconds = FIRST_PAUSE_SECONDS
                    if self._hear(raw):
                        return
            except (psycopg.Error, OSError, RowcallError):
                pass  # the loop asks the same server, and says what is wrong with it
            finally:
                self.listens = False
            if self._is_stopped(random.uniform(0.5, 1.0) * pause_seconds):
                return
            pause_seconds = min(pause_seconds * 2, LAST_PAUSE_SECONDS)

    def _hear(self, raw: psycopg.Connection[tuple[object, ...]]) -> bool:
        """Listen until told to stop (True) or until the connection is lost."""
        self.listens = True
        self._heard("")
        self._tell()  # whatever was said before we listened was not heard
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLIN)
        poll.register(self._stop_reader, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if self._stop_reader in ready:
                return True
            raw.pgconn.consume_input()
            heard = False
            while (word := raw.pgconn.notifies()) is not None:
                heard = True
                self._heard(word.extra.decode())
            if heard:
                self._tell()
                if self.pause_seconds and self._is_stopped(self.pause_seconds):
                    return True
            if raw.pgconn.status != pq.ConnStatus.OK:
                return False

    def _is_stopped(self, seconds: float) -> bool:
        """Wait for the word to stop."""
        return is_readable(self._stop_reader, seconds)

    def _tell(self) -> None:
        self._told = True
        self._bell.ring()
