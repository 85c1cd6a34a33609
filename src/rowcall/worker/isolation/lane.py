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
from rowcall.worker.attempt import Run
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
    OfRun,
    Order,
    Prepared,
    Progressed,
    Returned,
    ToWorker,
    Unfitting,
)

Finished = Callable[[Run], Run | None]

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
        began: Callable[[Run], None],
        gone: Callable[[Run], None],
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
        self._waiting: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._in_flight = 0
        self._untaken: set[Run] = set()
        self._seats = 0
        self._children: set[ChildProcess] = set()
        self._child_of: dict[Run, ChildProcess] = {}
        self._dropped: dict[ChildProcess, Run] = {}
        self._closed = False
        self._nursery = ThreadPoolExecutor(1, thread_name_prefix="rowcall-nursery")

    def start(self, run: Run) -> None:
        with self._lock:
            self._in_flight += 1
            self._untaken.add(run)
        self.warm_up()
        self._waiting.put(run)

    def warm_up(self) -> None:
        """Have one child more than there is work for."""
        with self._lock:
            missing = min(self._most, self._in_flight + 1) - self._seats
            self._seats += max(0, missing)
        for _ in range(missing):
            threading.Thread(target=self._serve, name="rowcall-process", daemon=True).start()

    def cancel(self, run: Run) -> None:
        """End a run that was told to stop: it is over when its process is, and at once if it waits for one."""
        with self._lock:  # so that its child is given to no other run meanwhile
            if (child := self._child_of.get(run)) is not None:
                child.terminate()
        if self._take(run):
            run.fail(CancelledError())
            self._end(run)

    def drop(self, run: Run) -> None:
        """End a run that was told to stop; it is over at once, whatever its process does in its last moments.

        `gone` is called when the process has ended.
        """
        with self._lock:
            if (child := self._child_of.get(run)) is not None:
                self._dropped[child] = run
                child.terminate()
                child.let_go()
                return
        self._gone(run)

    def kill(self, run: Run) -> None:
        """End a run that has had its time to stop."""
        with self._lock:
            if (child := self._child_of.get(run)) is not None:
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
        while (run := self._waiting.get()) is not None:
            seat.child = self._usable(seat.child)  # before it is taken: until then it can be cancelled
            if self._take(run):
                contextvars.copy_context().run(self._call, run, seat)
                self._end(run)
            seat.child = self._usable(seat.child)

    def _take(self, run: Run) -> bool:
        """Gives whether nobody has taken it before: whoever does ends it."""
        with self._lock:
            if run not in self._untaken:
                return False
            self._untaken.remove(run)
            return True

    def _end(self, run: Run) -> None:
        run_next = self._finished(run)
        with self._lock:
            self._in_flight -= 1
        if run_next is not None:
            self.start(run_next)  # it waits for its child where it can still be taken back

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

    def _call(self, run: Run, seat: Seat) -> None:
        try:
            run.begin()
            if reference_of(run.ready.payload) is not None:
                run.fetch()
            if not any(self._is_done_by(run, seat) for _ in range(CHILDREN_TRIED)):
                run.fail(Reported(DIED_CODE, "no child process lived until it began; the worker's log says more"))
            if run.large_result is not None:
                run.end(run.put_large_result())
        except BaseException as error:
            run.fail(error)
        if run.trace is not None:
            run.end_trace()

    def _is_done_by(self, run: Run, seat: Seat) -> bool:
        """Gives whether it has ended in any way; not if the child died while it was idle, and never began."""
        child = seat.child = self._usable(seat.child)
        if child is None:
            return False
        with self._lock:
            self._child_of[run] = child
        try:
            if run.stopped_because is not None:  # asked after it can be found: whoever stops it later finds it
                raise CancelledError
            self._began(run)
            child.send(_order(run))
            return self._converse(run, child)
        finally:
            with self._lock:
                del self._child_of[run]

    def _converse(self, run: Run, child: ChildProcess) -> bool:
        has_begun = False
        for word in child.words():
            if isinstance(word, OfRun) and word.run != (run.ready.id, run.ready.lease):
                continue
            if isinstance(word, Begun):
                has_begun = True
            elif self._hear(run, child, word):
                return True
        if run.stopped_because is not None:
            raise CancelledError
        if has_begun:
            run.fail(Reported(*child.ending().outcome(run.task.options.memory_limit)))
        else:
            child.kill()  # it has hung up: do not wait until it is buried to see that
        return has_begun

    def _hear(self, run: Run, child: ChildProcess, word: ToWorker) -> bool:
        """Gives whether it was the last word about this run."""
        match word:
            case Progressed(share=share, message=message):
                run.report(share, message)
            case Asked() as asked:
                child.send(_answer(run, asked))
            case NotCompleted():
                run.completed = False
            case Returned(result=result, saw_cancelled=saw_cancelled):
                run.saw_cancelled = run.saw_cancelled or saw_cancelled
                run.succeed(None if result is None else msgspec.Raw(result.encode()))
                return True
            case Unfitting(code=code, detail=detail):
                run.fail(Unfit(code, run.task.failures.detail(detail)))
                return True
            case Failed() as failed:
                if failed.out_of_memory:
                    child.terminate()  # what it holds may never be given back
                run.fail(_raised(run, failed))
                return True
            case _:
                self._hear_aside(word)
        return False

    def _hear_aside(self, word: ToWorker) -> None:
        if isinstance(word, Logged):
            logger.log(word.level, "%s", word.message, extra=word.fields)


def _answer(run: Run, asked: Asked) -> Answered:
    try:
        match asked:
            case Asked(what="previous"):
                return Answered(run.previous())
            case Asked(what="blockers"):
                return Answered(run.blockers())
            case Asked(what="complete"):
                run.completed = True
                return Answered()
            case Asked(job=None):
                run.continue_with(asked.task, (), payload_from_row(asked.payload))
            case Asked(job=NewJob() as job):
                run.continue_with(Bound(job, asked.payload), (), {})
    except Exception as error:
        return Answered(failed=told(error, run.task.failures, is_declared=True))
    return Answered(then=run.then)


def _raised(run: Run, failed: Failed) -> Raised:
    failures, error = run.task.failures, likeness(failed)
    code = None if failed.is_declared else failures.own_code(error)
    return failures.told(error, code or failed.code, failed.detail, failed.traceback)


def _order(run: Run) -> Order:
    task = run.task
    return Order(
        task=task.name,
        home=home_of(task.function),
        ready=run.ready,
        worker=run.identity.name,
        claimed_at_ms=run.claimed_at_ms,
        memory_limit=task.options.memory_limit,
        log_level=logger.getEffectiveLevel(),
    )
