"""The write gate: a fair lock in front of SQLite's write lock, for Rowcall's own connections.

SQLite's own busy handler sleeps and retries, and some writers starve. Here writers wait in the kernel, on two files.
The next writer holds `next` while it waits for `gate`, so that a busy worker cannot enter twice before another writer
that waits. The gate is advisory: after a time limit it is skipped, so that a stopped process does not stop all others.
"""

from __future__ import annotations

import os
import threading
import weakref
from types import ModuleType

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.drivers import forking
from rowcall.drivers.side_files import open_file

try:
    import fcntl as _fcntl
except ImportError:  # on Windows, SQLite's own busy handler must do
    _locking: ModuleType | None = None
else:
    _locking = _fcntl


SKIPPED_SECONDS = 10.0


class WriteGate:
    """One writer's way through the gate. Each connection has its own."""

    def __init__(self, folder: str, limit_seconds: float, database: str = "") -> None:
        self._paths = (os.path.join(folder, "next"), os.path.join(folder, "gate"))
        self._database = database
        self._limit_seconds = limit_seconds
        self._ticket: _Ticket | None = None
        self._overdue: _Ticket | None = None
        self._held = False
        self._skipped_until = 0.0

    def enter(self) -> None:
        """Return with the gate held, or after the time limit without it."""
        if _locking is None:
            return
        if self._overdue is not None:
            if not self._overdue.is_over:
                return  # the last ticket still waits behind a stopped holder: do not send a second one
            self._overdue = None
            self._skipped_until = 0.0
        if self._ticket is None:
            if SYSTEM_CLOCK.timer() < self._skipped_until:
                return
            try:
                self._ticket = self._open_ticket()
            except OSError:
                self._skipped_until = SYSTEM_CLOCK.timer() + SKIPPED_SECONDS
                raise
        if self._ticket.try_now():
            self._held = True
        else:
            ticket, self._ticket = self._ticket, None
            self._held = ticket.wait(self._limit_seconds)
            if self._held:
                self._ticket = ticket
            else:
                self._overdue = ticket  # its thread closes it once the kernel lets it through

    def _open_ticket(self) -> _Ticket:
        next_file, gate = self._paths
        with forking.lock:
            opened = open_file(next_file, self._database)
            try:
                return _Ticket(opened, open_file(gate, self._database))
            except OSError:
                os.close(opened)
                raise

    def leave(self) -> None:
        if self._held and self._ticket is not None:
            self._held = False
            self._ticket.release()

    def close(self) -> None:
        if self._ticket is not None:
            self._ticket.close()
            self._ticket = None


_open_tickets: weakref.WeakSet[_Ticket] = weakref.WeakSet()


class _Ticket:
    """The two descriptors on which one writer waits."""

    def __init__(self, next_file: int, gate: int) -> None:
        self._next = next_file
        self._gate = gate
        self._guard = threading.Lock()
        self._given_up = False
        self._closed = False
        self._entered = threading.Event()
        _open_tickets.add(self)

    def try_now(self) -> bool:
        """Enter if no other writer is there, which is the usual case."""
        assert _locking is not None
        try:
            _locking.flock(self._next, _locking.LOCK_EX | _locking.LOCK_NB)
        except OSError:
            return False
        try:
            _locking.flock(self._gate, _locking.LOCK_EX | _locking.LOCK_NB)
        except OSError:
            return False  # `next` stays locked: wait() continues from here
        _locking.flock(self._next, _locking.LOCK_UN)
        return True

    def wait(self, limit_seconds: float) -> bool:
        """Wait in the kernel, in a separate thread: such a wait takes no timeout."""
        self._entered.clear()
        threading.Thread(target=self._wait_in_kernel, name="rowcall-write-gate", daemon=True).start()
        try:
            if SYSTEM_CLOCK.wait(self._entered, limit_seconds):
                return True
        except BaseException:
            if not self._give_up():
                self.close()  # it was let through at the last moment, and its writer is gone
            raise
        return not self._give_up()

    def _give_up(self) -> bool:
        with self._guard:
            self._given_up = not self._entered.is_set()
            return self._given_up

    @property
    def is_over(self) -> bool:
        """Return whether a ticket that was given up has since been let through, and closed."""
        return self._closed

    def _wait_in_kernel(self) -> None:
        assert _locking is not None
        _locking.flock(self._next, _locking.LOCK_EX)
        _locking.flock(self._gate, _locking.LOCK_EX)
        _locking.flock(self._next, _locking.LOCK_UN)
        with self._guard:
            if not self._given_up:
                self._entered.set()
                return
        self.close()

    def release(self) -> None:
        assert _locking is not None
        if not self._closed:
            _locking.flock(self._gate, _locking.LOCK_UN)

    def close(self) -> None:
        with forking.lock:
            self.release()  # closing alone does not unlock while a newly forked child has a copy
            self.let_go()

    def let_go(self) -> None:
        """Close the descriptors, without unlocking what a parent has locked."""
        if not self._closed:
            self._closed = True
            os.close(self._next)
            os.close(self._gate)


def _close_inherited() -> None:
    """In a forked child: its copies would keep the locks if the parent died."""
    forking.each(list(_open_tickets), _Ticket.let_go)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
