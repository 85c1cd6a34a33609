"""All who wait in this process for the end of a job share one thread, which watches for them."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING

from rowcall.context import logger
from rowcall.domain.errors import RowcallError, StoreUnavailable
from rowcall.operations.end_watch import Outlook, outlook_for
from rowcall.store.results.waiting import ends
from rowcall.wake.waker import Waker

if TYPE_CHECKING:
    from rowcall.queue import Queue

# the floor beneath the hints: how often to look all the same
FIRST_FLOOR_SECONDS, LAST_FLOOR_SECONDS, FLOOR_GROWTH = 0.05, 1.0, 1.5
# of a job whose row somebody is at, who may know of nobody who waits
FIRST_DOUBT_SECONDS = 0.002
LINGER_SECONDS = 5.0
LAST_LOOK_SECONDS = 2.0

Ticket = Future[None]


class WaitingRoom:
    """`waiting(job_id)` gives a future that is done when the job has ended, most likely, and is to be looked at."""

    def __init__(self, core: Queue) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._tickets: dict[int, set[Ticket]] = {}
        self._waker: Waker | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self.pid = os.getpid()

    @contextlib.contextmanager
    def waiting(self, job_id: int) -> Iterator[Ticket]:
        ticket: Ticket = Future()
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the queue was closed")
            self._tickets.setdefault(job_id, set()).add(ticket)
            if self._waker is None:
                self._waker = Waker()
                run = functools.partial(self._run, self._waker)
                self._thread = threading.Thread(target=run, name="rowcall-results", daemon=True)
                self._thread.start()
            else:
                self._waker.wake()
        try:
            yield ticket
        finally:
            with self._lock:
                others = self._tickets.get(job_id, set())
                others.discard(ticket)
                if not others:
                    self._tickets.pop(job_id, None)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._dismiss(StoreUnavailable("the queue was closed while somebody waited for the end of a job"))
        waker, thread = self._waker, self._thread
        if waker is not None and thread is not None:
            waker.wake()
            thread.join(LAST_LOOK_SECONDS)

    def _run(self, waker: Waker) -> None:
        try:
            outlook = outlook_for(self._core, waker)
            try:
                self._watch(outlook, waker)
            finally:
                outlook.close()
        except RowcallError as error:
            self._leave(waker, even_if_wanted=True)
            self._dismiss(error)
        except BaseException as error:
            logger.exception("waiting for the end of jobs failed because of an error of its own")
            self._leave(waker, even_if_wanted=True)
            self._dismiss(error)
        finally:
            waker.close()

    def _watch(self, outlook: Outlook, waker: Waker) -> None:
        known: set[int] = set()
        told: Collection[int] | None = ()
        pause, wanted_at = FIRST_FLOOR_SECONDS, time.monotonic()
        while True:
            with self._lock:
                wanted = set(self._tickets)
            joined, left = wanted - known, known - wanted
            try:
                outlook.announce(joined, left, wanted)
                known = wanted
                ended, unsure = self._look(wanted if told is None else joined | (wanted & set(told)))
            except StoreUnavailable:  # it may be there again soon, and those who wait have a time limit of their own
                ended, unsure = set(), set()
            except RowcallError as error:
                self._dismiss(error)
                continue
            if told is None or told:
                outlook.looked(in_vain=not ended)
            self._resolve(ended)
            if ended:
                told = ()
                continue  # nobody need be told of those any more
            if wanted:
                wanted_at = time.monotonic()
            elif (self._closed or time.monotonic() - wanted_at > LINGER_SECONDS) and self._leave(waker):
                return
            if joined:
                pause = FIRST_DOUBT_SECONDS if unsure else FIRST_FLOOR_SECONDS
            told = outlook.wait(pause if wanted else LINGER_SECONDS)
            pause = min(pause * FLOOR_GROWTH, LAST_FLOOR_SECONDS)

    def _look(self, job_ids: set[int]) -> tuple[set[int], set[int]]:
        core = self._core
        return core.database.read(ends(core.dialect, job_ids)) if job_ids else (set(), set())

    def _resolve(self, job_ids: Collection[int]) -> None:
        with self._lock:
            tickets = [ticket for job_id in job_ids for ticket in self._tickets.pop(job_id, ())]
        for ticket in tickets:
            with contextlib.suppress(InvalidStateError):  # whoever held it has gone
                ticket.set_result(None)

    def _dismiss(self, error: BaseException) -> None:
        with self._lock:
            tickets = [ticket for waiting in self._tickets.values() for ticket in waiting]
            self._tickets.clear()
        for ticket in tickets:
            with contextlib.suppress(InvalidStateError):
                ticket.set_exception(error)

    def _leave(self, waker: Waker, *, even_if_wanted: bool = False) -> bool:
        """Whether nobody came at the last moment; whoever comes later starts another thread."""
        with self._lock:
            if self._tickets and not even_if_wanted:
                return False
            if self._waker is waker:
                self._waker = None
            return True
