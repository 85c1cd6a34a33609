"""Fork while threads run: steps that a fork must not interrupt, and hooks that continue when one step fails."""

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
"""Held while this process forks, and while a descriptor that a child must close is opened and registered, or closed."""


def each(items: Iterable[T], step: Callable[[T], object]) -> None:
    """Do the step for every item. Log an error, and continue with the others."""
    for item in items:
        try:
            step(item)
        except Exception:
            logger.exception("could not prepare %r for a fork", item)


class Handshake:
    """Lets the parent wait until the child has closed what both have in memory; too late, and the child may not."""

    def __init__(self) -> None:
        self._permit_reader, self._permit_writer = os.pipe()
        self._done_reader, self._done_writer = os.pipe()
        os.set_blocking(self._permit_reader, False)
        os.write(self._permit_writer, b"!")

    def take_permit(self) -> bool:
        """Take the permit, and return whether this side was the first."""
        try:
            return os.read(self._permit_reader, 1) == b"!"
        except BlockingIOError:
            return False

    def wait_for_child(self) -> None:
        os.close(self._done_writer)
        self._done_writer = -1
        poll = select.poll()
        poll.register(self._done_reader, select.POLLIN)
        if not poll.poll(CHILD_SECONDS * 1000):  # a child that closed its end, or died, ends the wait
            self.take_permit()
        self.close()

    def close(self) -> None:
        for descriptor in (self._permit_reader, self._permit_writer, self._done_reader, self._done_writer):
            if descriptor >= 0:
                os.close(descriptor)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
