"""Where isolated handlers run: in child processes, started ahead of need, each of which serves many jobs."""

from __future__ import annotations

import contextvars
import queue
import sys
import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.declare.declaration import Declaration, Lane
from rowcall.declare.isolation import home_of
from rowcall.domain.blobs import reference_of
from rowcall.domain.lifecycle import Raised, Reported, Unfit
from rowcall.domain.payload import payload_from_row
from rowcall.operations.flows import Bound
from rowcall.store.dialect import NewJob
from rowcall.worker.attempt import Attempt
from rowcall.worker.isolation.child_process import DIED_CODE, GRACE_SECONDS, ChildProcess
from rowcall.worker.isolation.exceptions import likeness, told
from rowcall.worker.isolation.messages import (
    Answered,
    Asked,
    Begun,
    Failed,
    Hello,
    Logged,
    NotCompleted,
    OfAttempt,
    Order,
    Prepared,
    Progressed,
    Returned,
    ToWorker,
    Unfitting,
)

Finished = Callable[[Attempt], Attempt | None]

CHILDREN_TRIED = 3


class Seat:
    """One thread, and the child that it speaks with now."""

    child: ChildProcess | None = None


class ProcessLane:
    """A thread for each child, which hands it one run after the other; at most `most` of them."""

    def __init__(
        self,
        clock: Clock,
        finished: Finished,
        began: Callable[[Attempt], None],
        gone: Callable[[Attempt], None],
        most: int,
        tasks: Iterable[Declaration],
        app: str | None,
    ) -> None:
        self._clock = clock
        self._finished = finished
        self._began = began
        self._gone = gone
        self._most = most
        homes = {home_of(task.function): None for task in tasks if task.lane is Lane.PROCESS}
        self._hello = Hello(list(sys.path), app, list(homes))
        self._waiting: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._in_flight = 0
        self._untaken: set[Attempt] = set()
        self._seats = 0
        self._children: set[ChildProcess] = set()
        self._child_of: dict[Attempt, ChildProcess] = {}
        self._dropped: dict[ChildProcess, Attempt] = {}
        self._closed = False
        self._nursery = ThreadPoolExecutor(1, thread_name_prefix="rowcall-nursery")

    def start(self, attempt: Attempt) -> None:
        with self._lock:
            self._in_flight += 1
            self._untaken.add(attempt)
        self.warm_up()
        self._waiting.put(attempt)

    def warm_up(self) -> None:
        """Have one child more than there is work for."""
        with self._lock:
            missing = min(self._most, self._in_flight + 1) - self._seats
            self._seats += max(0, missing)
        for _ in range(missing):
            threading.Thread(target=self._serve, name="rowcall-process", daemon=True).start()

    def cancel(self, attempt: Attempt) -> None:
        """End a run that was told to stop: it is over when its process is, and at once if it waits for one."""
        with self._lock:  # so that its child is given to no other run meanwhile
            if (child := self._child_of.get(attempt)) is not None:
                child.terminate()
        if self._take(attempt):
            attempt.fail(CancelledError())
            self._end(attempt)

    def drop(self, attempt: Attempt) -> None:
        """End a run that was told to stop; it is over at once, whatever its process does in its last moments.

        `gone` is called when the process has ended.
        """
        with self._lock:
            if (child := self._child_of.get(attempt)) is not None:
                self._dropped[child] = attempt
                child.terminate()
                child.let_go()
                return
        self._gone(attempt)

    def kill(self, attempt: Attempt) -> None:
        """End a run that has had its time to stop."""
        with self._lock:
            if (child := self._child_of.get(attempt)) is not None:
                child.kill()

    def close(self) -> None:
        """All children are killed: those that were asked to end have had their time."""
        with self._lock:
            self._closed = True
            children, seats = list(self._children), self._seats
        for _ in range(seats):
            self._waiting.put(None)
        for child in children:
            child.kill()
        for child in children:
            child.close(GRACE_SECONDS)
        self._nursery.shutdown(wait=False)

    # in the thread of a seat

    def _serve(self) -> None:
        seat = Seat()
        seat.child = self._new_child()
        while (attempt := self._waiting.get()) is not None:
            seat.child = self._usable(seat.child)  # before it is taken: until then it can be cancelled
            if self._take(attempt):
                contextvars.copy_context().run(self._call, attempt, seat)
                self._end(attempt)
            seat.child = self._usable(seat.child)

    def _take(self, attempt: Attempt) -> bool:
        """Gives whether nobody has taken it before: whoever does ends it."""
        with self._lock:
            if attempt not in self._untaken:
                return False
            self._untaken.remove(attempt)
            return True

    def _end(self, attempt: Attempt) -> None:
        next_attempt = self._finished(attempt)
        with self._lock:
            self._in_flight -= 1
        if next_attempt is not None:
            self.start(next_attempt)  # it waits for its child where it can still be taken back

    def _usable(self, child: ChildProcess | None) -> ChildProcess | None:
        """The child itself, or one in its place."""
        if child is not None and child.is_usable:
            return child
        if child is not None:
            threading.Thread(target=self._forget, args=(child,), daemon=True).start()
        return self._new_child()

    def _new_child(self) -> ChildProcess | None:
        """One that has imported all it needs; None where it cannot be had now."""
        if self._closed:
            return None
        try:
            child = self._nursery.submit(ChildProcess, self._hello, self._clock).result()
        except (OSError, RuntimeError) as error:
            logger.error("a child process could not be started: %s", error)
            return None
        with self._lock:
            self._children.add(child)
            closed = self._closed
        if closed:
            child.kill()
        for word in child.words():
            if isinstance(word, Prepared):
                return child
            self._hear_aside(word)
        code, detail = child.ending().outcome(None)
        if not self._closed:
            logger.error("a child process could not be prepared (%s: %s)", code, detail)
        self._forget(child)
        return None

    def _forget(self, child: ChildProcess) -> None:
        child.close()
        with self._lock:
            self._children.discard(child)
            dropped = self._dropped.pop(child, None)
        if dropped is not None:
            self._gone(dropped)

    def _call(self, attempt: Attempt, seat: Seat) -> None:
        try:
            attempt.begin()
            if reference_of(attempt.ready.payload) is not None:
                attempt.fetch()
            if not any(self._is_done_by(attempt, seat) for _ in range(CHILDREN_TRIED)):
                attempt.fail(Reported(DIED_CODE, "no child process lived until it began; the worker's log says more"))
            if attempt.large_result is not None:
                attempt.end(attempt.put_large_result())
        except BaseException as error:
            attempt.fail(error)
        if attempt.trace is not None:
            attempt.end_trace()

    def _is_done_by(self, attempt: Attempt, seat: Seat) -> bool:
        """Gives whether it has ended in any way; not if the child died while it was idle, and never began."""
        child = seat.child = self._usable(seat.child)
        if child is None:
            return False
        with self._lock:
            self._child_of[attempt] = child
        try:
            if attempt.stopped_because is not None:  # asked after it can be found: whoever stops it later finds it
                raise CancelledError
            self._began(attempt)
            child.send(_order(attempt))
            return self._converse(attempt, child)
        finally:
            with self._lock:
                del self._child_of[attempt]

    def _converse(self, attempt: Attempt, child: ChildProcess) -> bool:
        has_begun = False
        for word in child.words():
            if isinstance(word, OfAttempt) and word.attempt != (attempt.ready.id, attempt.ready.lease):
                continue
            if isinstance(word, Begun):
                has_begun = True
            elif self._hear(attempt, child, word):
                return True
        if attempt.stopped_because is not None:
            raise CancelledError
        if has_begun:
            attempt.fail(Reported(*child.ending().outcome(attempt.task.options.memory_limit)))
        else:
            child.kill()  # it has hung up: do not wait until it is buried to see that
        return has_begun

    def _hear(self, attempt: Attempt, child: ChildProcess, word: ToWorker) -> bool:
        """Gives whether it was the last word about this run."""
        match word:
            case Progressed(share=share, message=message):
                attempt.report(share, message)
            case Asked() as asked:
                child.send(_answer(attempt, asked))
            case NotCompleted():
                attempt.completed = False
            case Returned(result=result, saw_cancelled=saw_cancelled):
                attempt.saw_cancelled = attempt.saw_cancelled or saw_cancelled
                attempt.succeed(None if result is None else msgspec.Raw(result.encode()))
                return True
            case Unfitting(code=code, detail=detail):
                attempt.fail(Unfit(code, attempt.task.failures.detail(detail)))
                return True
            case Failed() as failed:
                if failed.out_of_memory:
                    child.terminate()  # what it holds may never be given back
                attempt.fail(_raised(attempt, failed))
                return True
            case _:
                self._hear_aside(word)
        return False

    def _hear_aside(self, word: ToWorker) -> None:
        if isinstance(word, Logged):
            logger.log(word.level, "%s", word.message, extra=word.fields)


def _answer(attempt: Attempt, asked: Asked) -> Answered:
    try:
        match asked:
            case Asked(what="previous"):
                return Answered(attempt.previous())
            case Asked(what="blockers"):
                return Answered(attempt.blockers())
            case Asked(what="complete"):
                attempt.completed = True
                return Answered()
            case Asked(job=None):
                attempt.continue_with(asked.task, (), payload_from_row(asked.payload))
            case Asked(job=NewJob() as job):
                attempt.continue_with(Bound(job, asked.payload), (), {})
    except Exception as error:
        return Answered(failed=told(error, attempt.task.failures, is_declared=True))
    return Answered(then=attempt.then)


def _raised(attempt: Attempt, failed: Failed) -> Raised:
    failures, error = attempt.task.failures, likeness(failed)
    code = None if failed.is_declared else failures.own_code(error)
    return failures.told(error, code or failed.code, failed.detail, failed.traceback)


def _order(attempt: Attempt) -> Order:
    task = attempt.task
    return Order(
        task=task.name,
        home=home_of(task.function),
        ready=attempt.ready,
        worker=attempt.identity.name,
        claimed_at_ms=attempt.claimed_at_ms,
        memory_limit=task.options.memory_limit,
        log_level=logger.getEffectiveLevel(),
    )
