"""One thread per process waits for the end of jobs, for all callers of `result`."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import Future, InvalidStateError

from rowcall.context import logger
from rowcall.domain.errors import RowcallError, StoreUnavailable
from rowcall.operations.end_notifications import EndNotifications, end_notifications
from rowcall.queue import Queue
from rowcall.store.results.waiting import ends
from rowcall.wake.waker import Waker

# how often to check without any notification
FIRST_CHECK_SECONDS, LAST_CHECK_SECONDS, CHECK_GROWTH = 0.05, 1.0, 1.5
# for a job whose row is locked by a transaction that may not know that anyone waits
FIRST_DOUBT_SECONDS = 0.002
LINGER_SECONDS = 5.0
CLOSE_SECONDS = 2.0

Ticket = Future[None]


class EndWaiter:
    """`waiting(job_id)` yields a future that is done when the job has probably ended, and should be read."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
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
        self._dismiss(StoreUnavailable("the queue was closed while a caller waited for the end of a job"))
        waker, thread = self._waker, self._thread
        if waker is not None and thread is not None:
            waker.wake()
            thread.join(CLOSE_SECONDS)

    def _run(self, waker: Waker) -> None:
        try:
            notifications = end_notifications(self._queue, waker)
            try:
                self._watch(notifications, waker)
            finally:
                notifications.close()
        except RowcallError as error:
            self._leave(waker, even_if_wanted=True)
            self._dismiss(error)
        except BaseException as error:
            logger.exception("waiting for the end of jobs failed with an unexpected error")
            self._leave(waker, even_if_wanted=True)
            self._dismiss(error)
        finally:
            waker.close()

    def _watch(self, notifications: EndNotifications, waker: Waker) -> None:
        known: set[int] = set()
        notified: Collection[int] | None = ()
        pause, wanted_at = FIRST_CHECK_SECONDS, self._queue.clock.timer()
        while True:
            with self._lock:
                wanted = set(self._tickets)
            joined, left = wanted - known, known - wanted
            try:
                notifications.announce(joined, left, wanted)
                known = wanted
                ended, unsure = self._check(wanted if notified is None else joined | (wanted & set(notified)))
            except StoreUnavailable:  # it may be back soon, and callers have their own timeouts
                ended, unsure = set(), set()
            except RowcallError as error:
                self._dismiss(error)
                continue
            if notified is None or notified:
                notifications.checked(ended=bool(ended))
            self._resolve(ended)
            if ended:
                notified = ()
                continue  # their notifications are no longer needed
            if wanted:
                wanted_at = self._queue.clock.timer()
            elif (self._closed or self._queue.clock.timer() - wanted_at > LINGER_SECONDS) and self._leave(waker):
                return
            if joined:
                pause = FIRST_DOUBT_SECONDS if unsure else FIRST_CHECK_SECONDS
            notified = notifications.wait(pause if wanted else LINGER_SECONDS)
            pause = min(pause * CHECK_GROWTH, LAST_CHECK_SECONDS)

    def _check(self, job_ids: set[int]) -> tuple[set[int], set[int]]:
        queue = self._queue
        return queue.database.read(ends(queue.dialect, job_ids)) if job_ids else (set(), set())

    def _resolve(self, job_ids: Collection[int]) -> None:
        with self._lock:
            tickets = [ticket for job_id in job_ids for ticket in self._tickets.pop(job_id, ())]
        for ticket in tickets:
            with contextlib.suppress(InvalidStateError):  # its caller has gone
                ticket.set_result(None)

    def _dismiss(self, error: BaseException) -> None:
        with self._lock:
            tickets = [ticket for waiting in self._tickets.values() for ticket in waiting]
            self._tickets.clear()
        for ticket in tickets:
            with contextlib.suppress(InvalidStateError):
                ticket.set_exception(error)

    def _leave(self, waker: Waker, *, even_if_wanted: bool = False) -> bool:
        """Return whether no caller came at the last moment; a later one starts another thread."""
        with self._lock:
            if self._tickets and not even_if_wanted:
                return False
            if self._waker is waker:
                self._waker = None
            return True
