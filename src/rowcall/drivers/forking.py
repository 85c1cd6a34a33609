"""Forking beside threads: steps that a fork must not cut in half, and hooks that go on when one step fails."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger("rowcall")

CHILD_SECONDS = 1.0

lock = threading.RLock()
"""Held while this process forks, and while a descriptor that a child has to close is opened and noted, or closed."""


def each(items: Iterable[T], step: Callable[[T], object]) -> None:
    """Do the step for every item. An error in one is logged, and the others get their step."""
    for item in items:
        try:
            step(item)
        except Exception:
            logger.exception("could not prepare %r for a fork", item)


class Handshake:
    """The parent waits until the child has let go of what both have in memory, or forbids it to the child."""

    def __init__(self) -> None:
        self._permit_reader, self._permit_writer = os.pipe()
        self._done_reader, self._done_writer = os.pipe()
        os.set_blocking(self._permit_reader, False)
        os.write(self._permit_writer, b"!")

    def take_permit(self) -> bool:
        """Whether the other side has not taken it before."""
        try:
            return os.read(self._permit_reader, 1) == b"!"
        except BlockingIOError:
            return False

    def wait_for_child(self) -> None:
        os.close(self._done_writer)
        self._done_writer = -1
        poll = select.poll()
        poll.register(self._done_reader, select.POLLIN)
        if not poll.poll(CHILD_SECONDS * 1000):  # else the child has closed its end, or is dead
            self.take_permit()
        self.close()

    def close(self) -> None:
        for descriptor in (self._permit_reader, self._permit_writer, self._done_reader, self._done_writer):
            if descriptor >= 0:
                os.close(descriptor)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
