"""Make forks safe while SQLite connections are open.

SQLite counts its file locks per process and file, in memory that a fork copies. A child that keeps its parent's
connections assumes that it has locks that it does not have, and a checkpoint then deletes the WAL under it. So no
thread forks while another thread is inside SQLite, and the child closes what it inherited before it opens anything.

Closing rolls back. During a write transaction this changes nothing of the parent's as long as no page of it is in the
WAL. Pages get there by a commit, for which the parent waits until the child has closed, or when the cache spills, which
is switched off.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import Protocol

from rowcall.drivers import forking


class Forkable(Protocol):
    """A connection, as a fork sees it."""

    @property
    def is_in_transaction(self) -> bool: ...
    def hold(self) -> None:
        """Wait until no thread is inside SQLite with this connection, and let none in."""

    def let_go(self) -> None: ...
    def dispose(self, *, permitted: bool) -> None:
        """In the child: close the connection, if it is `permitted` to roll back the parent's transaction."""


open_connections: weakref.WeakSet[Forkable] = weakref.WeakSet()
is_pending = False
"""Whether a thread is about to fork. A busy thread would otherwise take its lock again before that one gets it."""

_held: list[Forkable] = []
_handshake: forking.Handshake | None = None


def wait() -> None:
    """Wait until the pending fork is done."""
    with forking.lock:
        pass


def _before_fork() -> None:
    global is_pending, _handshake
    is_pending = True
    forking.lock.acquire()
    is_pending = True  # another thread that forked may have reset it
    forking.each(list(open_connections), _hold)
    if any(connection.is_in_transaction for connection in _held):
        with contextlib.suppress(OSError):  # no free descriptor: then the child cannot write to the file
            _handshake = forking.Handshake()


def _hold(connection: Forkable) -> None:
    connection.hold()
    _held.append(connection)


def _after_fork_in_parent() -> None:
    try:
        if _handshake is not None:
            _handshake.wait_for_child()
    finally:
        _end_fork()


def _after_fork_in_child() -> None:
    permitted = _handshake is not None and _handshake.take_permit()
    try:
        forking.each(_held, lambda connection: connection.dispose(permitted=permitted))
    finally:
        if _handshake is not None:
            _handshake.close()
        open_connections.clear()
        _end_fork()


def _end_fork() -> None:
    global is_pending, _handshake
    _handshake = None
    while _held:
        _held.pop().let_go()
    is_pending = False
    forking.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
