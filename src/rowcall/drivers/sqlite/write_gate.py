"""A fair queue in front of SQLite's write lock, for connections of ours.

SQLite's own busy handler sleeps and retries, and starves. Here writers wait in the kernel: whoever is next holds the
turn while it waits for the gate, so that a busy worker cannot go twice before somebody who came between.
The gate is advisory: after a time limit it is passed by, so that a stopped process does not stop the world.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from types import ModuleType

from rowcall.drivers import forking
from rowcall.drivers.side_files import open_file

try:
    import fcntl as _fcntl
except ImportError:  # not on Windows: SQLite's own busy handler has to do
    _locking: ModuleType | None = None
else:
    _locking = _fcntl


PASSED_BY_SECONDS = 10.0


class WriteGate:
    """One writer's way to the gate; a connection has its own."""

    def __init__(self, folder: str, limit_seconds: float, database: str = "") -> None:
        self._paths = (os.path.join(folder, "turn"), os.path.join(folder, "gate"))
        self._database = database
        self._limit_seconds = limit_seconds
        self._pass: _Pass | None = None
        self._stuck: _Pass | None = None
        self._held = False
        self._passed_by_until = 0.0

    def enter(self) -> None:
        """Return with the gate held, or after the time limit without it."""
        if _locking is None:
            return
        if self._stuck is not None:
            if not self._stuck.is_over:
                return  # the last one still waits behind a holder that does not go on: no second one is sent after it
            self._stuck = None
            self._passed_by_until = 0.0
        if self._pass is None:
            if time.monotonic() < self._passed_by_until:
                return
            try:
                self._pass = self._open_pass()
            except OSError:
                self._passed_by_until = time.monotonic() + PASSED_BY_SECONDS
                raise
        if self._pass.try_now():
            self._held = True
        else:
            waiting, self._pass = self._pass, None
            self._held = waiting.wait(self._limit_seconds)
            if self._held:
                self._pass = waiting
            else:
                self._stuck = waiting  # its thread closes it once the kernel lets go

    def _open_pass(self) -> _Pass:
        turn, gate = self._paths
        with forking.lock:
            opened = open_file(turn, self._database)
            try:
                return _Pass(opened, open_file(gate, self._database))
            except OSError:
                os.close(opened)
                raise

    def leave(self) -> None:
        if self._held and self._pass is not None:
            self._held = False
            self._pass.release()

    def close(self) -> None:
        if self._pass is not None:
            self._pass.close()
            self._pass = None


_open_passes: weakref.WeakSet[_Pass] = weakref.WeakSet()


class _Pass:
    """The two descriptors with which one writer waits."""

    def __init__(self, turn: int, gate: int) -> None:
        self._turn = turn
        self._gate = gate
        self._guard = threading.Lock()
        self._given_up = False
        self._closed = False
        self._entered = threading.Event()
        _open_passes.add(self)

    def try_now(self) -> bool:
        """The usual case: nobody is there."""
        assert _locking is not None
        try:
            _locking.flock(self._turn, _locking.LOCK_EX | _locking.LOCK_NB)
        except OSError:
            return False
        try:
            _locking.flock(self._gate, _locking.LOCK_EX | _locking.LOCK_NB)
        except OSError:
            return False  # the turn is kept: wait() goes on from here
        _locking.flock(self._turn, _locking.LOCK_UN)
        return True

    def wait(self, limit_seconds: float) -> bool:
        """Wait in the kernel, from a thread of its own, because such a wait cannot be timed."""
        self._entered.clear()
        threading.Thread(target=self._wait_in_kernel, name="rowcall-gate", daemon=True).start()
        try:
            if self._entered.wait(limit_seconds):
                return True
        except BaseException:
            if not self._give_up():
                self.close()  # entered at the last moment, for somebody who is gone
            raise
        return not self._give_up()

    def _give_up(self) -> bool:
        with self._guard:
            self._given_up = not self._entered.is_set()
            return self._given_up

    @property
    def is_over(self) -> bool:
        """Whether a pass that was given up has been let through, and closed, meanwhile."""
        return self._closed

    def _wait_in_kernel(self) -> None:
        assert _locking is not None
        _locking.flock(self._turn, _locking.LOCK_EX)
        _locking.flock(self._gate, _locking.LOCK_EX)
        _locking.flock(self._turn, _locking.LOCK_UN)
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
            self.release()  # closing alone does not unlock while a child that was just forked has a copy
            self.let_go()

    def let_go(self) -> None:
        """Close the descriptors, and unlock nothing that a parent has locked."""
        if not self._closed:
            self._closed = True
            os.close(self._turn)
            os.close(self._gate)


def _close_inherited() -> None:
    """In a forked child, whose copies would keep the locks if the parent died."""
    forking.each(list(_open_passes), _Pass.let_go)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
