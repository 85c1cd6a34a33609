"""Wait for the end of a job, and return what its handler returned."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, InvalidStateError
from datetime import timedelta
from functools import partial
from typing import Protocol, overload

import msgspec

from rowcall.base.clock import Clock
from rowcall.base.effects import Effect
from rowcall.context import logger
from rowcall.domain.encryption import Kind, refused_in, token_in
from rowcall.domain.errors import JobCancelled, JobFailed, RowcallError, StoreUnavailable, seconds_of
from rowcall.domain.job import FINISHED, Chain, Job, R, Status
from rowcall.domain.payload import result_as
from rowcall.drivers.sqlite.database import SqliteDatabase
from rowcall.operations import blobs
from rowcall.operations.arguments import checked_chain_id, checked_id
from rowcall.operations.effects import Read
from rowcall.queue import Operation, Queue
from rowcall.store.control import chains
from rowcall.store.jobs import inspect
from rowcall.store.queries.results import ANY_JOB, REGISTER_WAITER, REMOVE_WAITER
from rowcall.store.results.readers import ends
from rowcall.store.statement import Plan, Query, Row
from rowcall.wake.polling import Poller
from rowcall.wake.waiter_and_file_watch import SqliteWaiter, Waiter, Waker, Wakeup

# how often to check without any notification
FIRST_CHECK_SECONDS, LAST_CHECK_SECONDS, CHECK_GROWTH = 0.05, 1.0, 1.5
# for a job whose row is locked by a transaction that may not know that anyone waits
FIRST_DOUBT_SECONDS = 0.002
LINGER_SECONDS = 5.0
LAST_READ_SECONDS = 1.0
CLOSE_SECONDS = 2.0

Ticket = Future[None]
ANNOUNCE_AGAIN_SECONDS = 20.0


def result(queue: Queue, job: Job | Chain | int, *, timeout: float | timedelta | None = None) -> Operation[object]:
    """Wait until the job has ended, and return what its handler returned; of a chain, what its last step returned.

    If its task is declared in this process, the value has the type that the handler's annotation says, or it is
    `InvalidArguments`. Otherwise, and of a chain, it is the value as JSON has it.

    Without a `timeout` it waits for as long as it takes. `JobFailed` or `JobCancelled` if the job ended so,
    `TimeoutError` if it has not ended in time, `JobNotFound` if it does not exist, or no longer.

    >>> jobs.result(thumbnail.enqueue("cat.png"), timeout=30)  # doctest: +SKIP
    """
    deadline = Deadline(queue.clock, timeout)
    while (current := (yield from ReadWithin(_current(queue, job), deadline))).status not in FINISHED:
        seconds = deadline.remaining(current)
        with end_waiter(queue).waiting(current.id) as end:
            if not (yield from WaitFor(end, seconds)):
                deadline.is_over = True
    current = yield from blobs.resolve(queue, current)
    value = _result_of(current)
    if token_in(value) is not None or refused_in(value):
        queue.blobs.decrypted(msgspec.json.encode(value).decode(), current.type, Kind.RESULT)  # raises
    declared = None if isinstance(job, Chain) else queue.declared.tasks.get(current.type)
    return value if declared is None else result_as(declared.returns, value)


class WaitFor(Effect[Queue, bool]):
    """Wait for a future, at most so long; return whether it is done."""

    def __init__(self, future: Future[None], seconds: float | None) -> None:
        self._future = future
        self._seconds = seconds

    def run(self, queue: Queue) -> bool:
        try:
            self._future.result(self._seconds)
        except TimeoutError:
            return False
        return True

    async def arun(self, queue: Queue) -> bool:
        try:
            await queue.clock.within(asyncio.wrap_future(self._future), self._seconds)
        except TimeoutError:
            return False
        return True


class ReadWithin(Read[Job]):
    """Read a job. A server that does not reply in time does not hold up the caller: a thread waits for it."""

    def __init__(self, plan: Plan[Job], deadline: Deadline) -> None:
        super().__init__(plan, snapshot=True)
        self._deadline = deadline

    def run(self, queue: Queue) -> Job:
        seconds = self._deadline.to_read_seconds()
        if seconds is None:
            return super().run(queue)
        try:
            return queue.database.read_within(partial(super().run, queue), seconds)
        except TimeoutError:
            raise self._deadline.no_reply() from None

    async def arun(self, queue: Queue) -> Job:
        try:
            return await queue.clock.within(super().arun(queue), self._deadline.to_read_seconds())
        except TimeoutError:
            raise self._deadline.no_reply() from None


class Deadline:
    """How much longer to wait. When it is over, the job is read once more."""

    def __init__(self, clock: Clock, timeout: float | timedelta | None) -> None:
        self._clock = clock
        self._seconds = None if timeout is None else seconds_of("timeout", timeout)
        self._at = None if self._seconds is None else clock.timer() + self._seconds
        self.is_over = self._seconds == 0

    def remaining(self, job: Job) -> float | None:
        if self.is_over:
            raise TimeoutError(f"job {job.id} has not ended within {self._seconds:g} s: it is {job.status}")
        return None if self._at is None else max(0.0, self._at - self._clock.timer())

    def to_read_seconds(self) -> float | None:
        """Return how long a read may take: a little, even if the deadline is over."""
        return None if self._at is None else max(LAST_READ_SECONDS, self._at - self._clock.timer())

    def no_reply(self) -> TimeoutError:
        return TimeoutError(f"the job has not ended within {self._seconds:g} s: the database does not reply")


def _current(queue: Queue, job: Job | Chain | int) -> Plan[Job]:
    """Read the job whose end is waited for: of a chain, its last step."""
    if isinstance(job, Chain):
        return chains.awaited(queue.dialect, checked_chain_id(job))
    return inspect.get(queue.dialect, checked_id(job))


def _result_of(job: Job) -> object:
    match job.status:
        case Status.SUCCEEDED:
            return job.result
        case Status.CANCELLED:
            raise JobCancelled(job.id, job.error_detail)
        case _:
            raise JobFailed(job.id, job.error_code or "", job.error_detail)


def end_waiter(queue: Queue) -> EndWaiter:
    """Return what all who wait in this process share; made at the first use."""
    with queue.database.setup_lock:
        waiter = queue.backend.end_waiter
        if not isinstance(waiter, EndWaiter) or waiter.pid != os.getpid():  # its thread is the parent's
            waiter = queue.backend.end_waiter = EndWaiter(queue)
        return waiter


class EndWaiter:
    """One thread per process, for all callers. `waiting(job_id)` yields a future that is done when the job may
    have ended, and should be read; with `change`, when anything may have happened to it, or to any job if it is 0.
    """

    def __init__(self, queue: Queue) -> None:
        self._following = queue.following
        self._queue = queue.settled()
        self._lock = threading.Lock()
        self._tickets: dict[int, set[Ticket]] = {}
        self._changes: dict[int, set[Ticket]] = {}
        self._name = secrets.token_hex(8)
        self._announced: set[int] = set()
        self._announced_at = queue.clock.timer()
        self._payloads: deque[str] = deque()
        self._waker: Waker | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self.pid = os.getpid()

    @contextlib.contextmanager
    def waiting(self, job_id: int, *, change: bool = False) -> Iterator[Ticket]:
        ticket: Ticket = Future()
        tickets = self._changes if change else self._tickets
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the queue was closed")
            tickets.setdefault(job_id, set()).add(ticket)
            if self._waker is None:
                self._waker = Waker()
                run = partial(self._run, self._waker)
                self._thread = threading.Thread(target=run, name="rowcall-results", daemon=True)
                self._thread.start()
            elif not change or job_id not in self._announced | {ANY_JOB}:  # to be checked or announced
                self._waker.wake()
        try:
            yield ticket
        finally:
            with self._lock:
                others = tickets.get(job_id, set())
                others.discard(ticket)
                if not others:
                    tickets.pop(job_id, None)

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
            with waiter_for_ends(self._queue, waker, self._payloads.append) as waiter:
                self._watch(waiter, waker)
        except RowcallError as error:
            self._leave(waker, even_if_wanted=True)
            self._dismiss(error)
        except BaseException as error:
            logger.exception("waiting for the end of jobs failed with an unexpected error")
            self._leave(waker, even_if_wanted=True)
            self._dismiss(error)
        finally:
            waker.close()

    def _watch(self, waiter: Waiter, waker: Waker) -> None:
        known: set[int] = set()
        ended: set[int] = set()
        notified: Collection[int] | None = ()
        timer = self._queue.clock.timer
        pause = FIRST_CHECK_SECONDS
        check_at = awaited_at = timer()  # all jobs are checked then, even if others wake the thread all the time
        while True:
            if self._following is not None:
                self._following.check(self._queue.backend)
            with self._lock:
                awaited, watched = set(self._tickets), set(self._changes)
            if awaited or watched:
                awaited_at = timer()
            is_over = not (awaited or watched) and (self._closed or timer() - awaited_at > LINGER_SECONDS)
            joined, unsure = awaited - known, set[int]()
            is_due = notified is None or timer() >= check_at
            try:
                # a change before the announcement notified no one: its readers look again
                self._resolve(self._changes, self._announce(awaited | watched - {ANY_JOB}, ended, is_over=is_over))
                ended, unsure = self._check(awaited if is_due else joined | (awaited & set(notified or ())))
                known = awaited - ended  # a caller who comes after the others were notified is a new one
            except StoreUnavailable:  # it may be back soon, and callers have their own timeouts
                known = joined = ended = set()
            except RowcallError as error:
                self._dismiss(error)
                known = joined = ended = set()
            if is_due:
                pause = min(pause * CHECK_GROWTH, LAST_CHECK_SECONDS)
                check_at = timer() + pause
            if joined:
                pause = FIRST_DOUBT_SECONDS if unsure & joined else FIRST_CHECK_SECONDS
                check_at = min(check_at, timer() + pause)
            if notified is None or notified:
                waiter.note_wakeup(useful=bool(ended))
            self._resolve(self._tickets, ended)
            if ended:
                notified = ()
                continue  # their notifications are no longer needed
            if is_over and self._leave(waker):
                return
            notified = self._notified(waiter.wait(max(0.0, check_at - timer()) if awaited else LINGER_SECONDS))
            self._resolve(self._changes, notified)

    def _announce(self, job_ids: set[int], ended: set[int], *, is_over: bool) -> set[int]:
        """Publish which jobs are waited for, where commits cannot be seen. Return the jobs that were not yet published.

        A job stays published for a while after a wait that did not see its end: a reader of its events waits again.
        """
        timer = self._queue.clock.timer
        is_due = timer() - self._announced_at > ANNOUNCE_AGAIN_SECONDS
        left, joined = self._announced - job_ids, job_ids - self._announced
        if removed := left if is_due or is_over else left & ended:
            self._publish(REMOVE_WAITER, removed)
            self._announced -= removed
        if registered := job_ids if is_due else joined:
            self._publish(REGISTER_WAITER, registered)
            self._announced |= joined
        if is_due:
            self._announced_at = timer()
        return joined

    def _publish(self, query: Query[Row], job_ids: set[int]) -> None:
        queue = self._queue
        if not queue.database.shows_commits:
            queue.database.write(lambda: queue.dialect.ask(query, self._name, sorted(job_ids)))

    def _notified(self, wakeup: Wakeup) -> Collection[int] | None:
        """Return the jobs that something may have happened to; None if that may be any of them."""
        payloads = {self._payloads.popleft() for _ in range(len(self._payloads))}
        is_any = "" in payloads or wakeup in (Wakeup.CHANGED, Wakeup.TIMEOUT)
        return None if is_any else {int(payload) for payload in payloads}

    def _check(self, job_ids: set[int]) -> tuple[set[int], set[int]]:
        queue = self._queue
        return queue.database.read(ends(queue.dialect, job_ids)) if job_ids else (set(), set())

    def _resolve(self, waiting: dict[int, set[Ticket]], job_ids: Collection[int] | None) -> None:
        with self._lock:
            found = list(waiting) if job_ids is None else job_ids
            tickets = [ticket for job_id in found for ticket in waiting.pop(job_id, ())]
        for ticket in tickets:
            with contextlib.suppress(InvalidStateError):  # its caller has gone
                ticket.set_result(None)

    def _dismiss(self, error: BaseException) -> None:
        with self._lock:
            tickets = [one for some in (self._tickets, self._changes) for waiting in some.values() for one in waiting]
            self._tickets.clear()
            self._changes.clear()
        for ticket in tickets:
            with contextlib.suppress(InvalidStateError):
                ticket.set_exception(error)

    def _leave(self, waker: Waker, *, even_if_wanted: bool = False) -> bool:
        """Return whether no caller came at the last moment; a later one starts another thread."""
        with self._lock:
            if (self._tickets or self._changes) and not even_if_wanted:
                return False
            if self._waker is waker:
                self._waker = None
            return True


@contextlib.contextmanager
def waiter_for_ends(queue: Queue, waker: Waker, received: Callable[[str], None]) -> Iterator[Waiter]:
    """Yield a waiter that sees any commit to a file, or that calls `received` for the jobs a server notifies of."""
    database = queue.database
    if isinstance(database, SqliteDatabase):
        with (
            contextlib.closing(database.connect()) as connection,
            contextlib.closing(SqliteWaiter(connection, database.path, waker, queue.clock)) as waiter,
        ):
            yield waiter
        return
    if database.notification_files is not None:
        with contextlib.closing(Poller(waker, *database.notification_files.about("commits"))) as poller:
            yield poller
        return
    # not at the top: the server's driver may not be installed
    from rowcall.drivers.postgres.database import PostgresDatabase
    from rowcall.store.postgres.dialect import PostgresDialect
    from rowcall.wake.postgres_listener import Listener, ListenerWaiter

    assert isinstance(database, PostgresDatabase)
    assert isinstance(queue.dialect, PostgresDialect)
    connect, channel = database.connect_to_listen, queue.dialect.channel_of_ends
    listener = Listener(connect, channel, waker, queue.clock, received, database.is_left)
    listener.start()
    with contextlib.closing(ListenerWaiter(listener, waker)) as server_waiter:
        yield server_waiter


class ResultMethod(Protocol):
    @overload
    def __call__(self, job: Job[R], *, timeout: float | timedelta | None = None) -> R: ...
    @overload
    def __call__(self, job: Chain | int, *, timeout: float | timedelta | None = None) -> object: ...


class AsyncResultMethod(Protocol):
    @overload
    async def __call__(self, job: Job[R], *, timeout: float | timedelta | None = None) -> R: ...
    @overload
    async def __call__(self, job: Chain | int, *, timeout: float | timedelta | None = None) -> object: ...


ResultMethods = tuple[ResultMethod, AsyncResultMethod]
