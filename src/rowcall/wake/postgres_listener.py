"""Receiving notifications from a PostgreSQL server: a thread that listens, and connects again after every cut."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable

import psycopg
from psycopg import pq

from rowcall.base.clock import Clock, jittered
from rowcall.domain.errors import RowcallError
from rowcall.wake.waiter_and_file_watch import Waker, Wakeup, is_readable

FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.1, 5.0
STOP_SECONDS = 1.0
LEFT_SECONDS = 1.0
"""How often it checks whether this process has left the server for another one."""
SILENCE_SECONDS = 10.0
"""After how long without a notification it checks that the server still replies, and still takes writes."""

Raw = psycopg.Connection[tuple[object, ...]]
Connect = Callable[[], Raw | None]


class Listener:
    """A service that calls `waker.wake()` for every notification. `connect` returns None if LISTEN is not possible.

    `received` is called with each payload, and with an empty one whenever a notification may have been missed.
    `is_left` returns whether this process uses another server now than the one of a connection.
    `pause_seconds` combines all notifications within that time, for a worker that receives many for other workers.
    `spread_seconds` delays them by a random time, so that not all workers of a large fleet look at once.
    """

    def __init__(
        self,
        connect: Connect,
        channel: str,
        waker: Waker,
        clock: Clock,
        received: Callable[[str], None] = lambda payload: None,
        is_left: Callable[[Raw], bool] = lambda raw: False,
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._waker = waker
        self._clock = clock
        self._received = received
        self._is_left = is_left
        self._notified = False
        self._stop_reader = self._stop_writer = -1
        self.listens = False
        self.cannot_listen = False
        self.pause_seconds = self.spread_seconds = 0.0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._stop_reader, self._stop_writer = os.pipe()
            self._thread = threading.Thread(target=self._run, name="rowcall-listener", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        if self._stop_writer >= 0:
            with contextlib.suppress(BrokenPipeError):  # the thread has already ended
                os.write(self._stop_writer, b"!")  # closing is not enough: a forked child may have a copy of this end
            os.close(self._stop_writer)
            self._stop_writer = -1

    def wait(self) -> None:
        """Wait for the thread. One that is still connecting is left alone: it ends later."""
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def pop_notified(self) -> bool:
        """Return whether a notification came since the last call."""
        notified, self._notified = self._notified, False
        return notified

    def _run(self) -> None:
        try:
            self._connect_and_listen()
        finally:
            os.close(self._stop_reader)

    def _connect_and_listen(self) -> None:
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            try:
                raw = self._connect()
                if raw is None:
                    self.cannot_listen = True
                    return
                with contextlib.closing(raw):
                    raw.execute(f'listen "{self._channel}"')
                    pause_seconds = FIRST_PAUSE_SECONDS
                    if self._listen(raw):
                        return
            except (psycopg.Error, OSError, RowcallError):
                pass  # the loop queries the same server, and logs what is wrong with it
            finally:
                self.listens = False
            if self._is_stopped(jittered(self._clock, pause_seconds)):
                return
            pause_seconds = min(pause_seconds * 2, LAST_PAUSE_SECONDS)

    def _listen(self, raw: Raw) -> bool:
        """Listen until `stop` (return True), or until the connection is lost or the server is left."""
        self.listens = True
        self._received("")
        self._notify()  # notifications sent before this moment were missed
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLIN)
        poll.register(self._stop_reader, select.POLLIN)
        payloads: list[str] = []
        raw.add_notify_handler(lambda notification: payloads.append(notification.payload))
        silent_seconds, pause_seconds = 0.0, min(LEFT_SECONDS, SILENCE_SECONDS)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll(pause_seconds * 1000)]
            if self._stop_reader in ready:
                return True
            silent_seconds = 0.0 if ready else silent_seconds + pause_seconds
            if silent_seconds >= SILENCE_SECONDS:
                silent_seconds = 0.0
                if _is_read_only(raw):  # a server that is silent would otherwise go unnoticed: raises after a while
                    return False
            if self._is_left(raw):
                return False
            if ready and self.spread_seconds and self._is_stopped(self.spread_seconds * self._clock.chance()):
                return True
            raw.pgconn.consume_input()
            while (notification := raw.pgconn.notifies()) is not None:
                payloads.append(notification.extra.decode())
            for payload in payloads:
                self._received(payload)
            if payloads:
                payloads.clear()
                self._notify()
                if self.pause_seconds and self._is_stopped(self.pause_seconds):
                    return True
            if raw.pgconn.status != pq.ConnStatus.OK:
                return False

    def _is_stopped(self, seconds: float) -> bool:
        """Wait, and return whether `stop` was called."""
        return is_readable(self._stop_reader, seconds)

    def _notify(self) -> None:
        self._notified = True
        self._waker.wake()


def _is_read_only(raw: Raw) -> bool:
    """Return whether no one can commit jobs here: another server is the primary now."""
    return raw.execute("show transaction_read_only").fetchone() == ("on",)


class ListenerWaiter:
    """Waits for the notifications of a listener, or for another thread."""

    def __init__(self, listener: Listener, waker: Waker) -> None:
        self._listener = listener
        self._waker = waker

    def wait(self, seconds: float) -> Wakeup:
        if self._listener.pop_notified():
            return Wakeup.NOTIFIED
        woken = self._waker.wait(seconds)
        if self._listener.pop_notified():
            return Wakeup.NOTIFIED
        return Wakeup.WOKEN if woken else Wakeup.TIMEOUT

    def note_wakeup(self, *, useful: bool) -> None:
        pass

    def close(self) -> None:
        self._listener.stop()
        self._listener.wait()
