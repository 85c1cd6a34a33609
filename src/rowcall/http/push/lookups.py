"""Looks names up, in separate threads.

The system's resolver cannot be interrupted. A name whose servers do not answer keeps a thread for as long as the
resolver tries, so each name gets one thread at most, and all who ask at that time share its lookup.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import deque
from concurrent.futures import Future

from rowcall.base.clock import Clock

LOOKUP_SECONDS = 10.0
"""The resolver asks two servers for five seconds each, as a rule."""
MOST_AT_ONCE = 32


class Lookup:
    """One lookup of a name, and how many wait for it."""

    def __init__(self, host: str, asked_at: float) -> None:
        self.host = host
        self.asked_at = asked_at
        self.waiting = 0
        self.has_begun = False
        self.found: Future[list[str]] = Future()
        self.found.set_running_or_notify_cancel()  # one who leaves must not cancel it for the others


class Lookups:
    """The lookups of this process. At most `MOST_AT_ONCE` are under way; others wait for their turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_host: dict[str, Lookup] = {}
        self._queued: deque[Lookup] = deque()
        self._threads = 0

    async def addresses(self, host: str, clock: Clock) -> list[str]:
        """Return the addresses of a name. `TimeoutError` if that takes too long, counted from who asked first."""
        lookup = self._join(host, clock.timer())
        try:
            seconds = max(0.0, lookup.asked_at + LOOKUP_SECONDS - clock.timer())
            return await clock.within(asyncio.wrap_future(lookup.found), seconds)
        finally:
            self._leave(lookup)

    def _join(self, host: str, now: float) -> Lookup:
        with self._lock:
            lookup = self._by_host.get(host)
            if lookup is None:
                lookup = Lookup(host, now)
                if self._threads < MOST_AT_ONCE:
                    # a daemon: a lookup that hangs does not keep the process from ending
                    threading.Thread(target=self._run, name="rowcall-lookup", daemon=True).start()
                    self._threads += 1
                self._by_host[host] = lookup
                self._queued.append(lookup)
            lookup.waiting += 1
            return lookup

    def _leave(self, lookup: Lookup) -> None:
        with self._lock:
            lookup.waiting -= 1
            if not (lookup.waiting or lookup.has_begun):
                self._queued.remove(lookup)
                del self._by_host[lookup.host]

    def _run(self) -> None:
        while (lookup := self._next()) is not None:
            try:
                addresses, error = look_up(lookup.host), None
            except Exception as raised:
                addresses, error = [], raised
            with self._lock:
                del self._by_host[lookup.host]
            if error is None:
                lookup.found.set_result(addresses)
            else:
                lookup.found.set_exception(error)

    def _next(self) -> Lookup | None:
        with self._lock:
            if not self._queued:
                self._threads -= 1
                return None
            lookup = self._queued.popleft()
            lookup.has_begun = True
            return lookup


def look_up(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


lookups = Lookups()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lookups.__init__)  # type: ignore[misc]  # its threads are the parent's
