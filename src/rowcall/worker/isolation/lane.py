"""Runs isolated handlers in child processes, which are started ahead of need and serve many jobs each."""

from __future__ import annotations

import contextvars
import queue
import sys
import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.declare.declaration import Declaration, Lane
from rowcall.declare.dependencies import held_by_worker
from rowcall.declare.isolation import home_of
from rowcall.declare.lifespan import LifespanFunction
from rowcall.domain.errors import LifespanFailed
from rowcall.domain.job import StackFrame
from rowcall.domain.outcome import Raised, Released, Reported, Unfit
from rowcall.domain.payload import payload_from_row
from rowcall.observe.shown_exceptions import Shown
from rowcall.operations.enqueue import Bound
from rowcall.store.new_job import NewJob
from rowcall.store.new_step import StepWrite
from rowcall.worker.attempt import Attempt, Finished
from rowcall.worker.isolation.child_exceptions import described, rebuilt
from rowcall.worker.isolation.child_process import DIED_CODE, ChildProcess
from rowcall.worker.isolation.messages import (
    AboutAttempt,
    Answered,
    Asked,
    Begun,
    Failed,
    Hello,
    LineKept,
    Logged,
    NotCompleted,
    NotEntered,
    Prepared,
    Progressed,
    Returned,
    RunAttempt,
    ToWorker,
    Unfitting,
)
from rowcall.worker.pace import CHILD_GRACE_SECONDS, CHILDREN_TRIED

OVERRIDDEN = "jobs.override(…) does not reach child processes: a dependency of this task would be the real one"


class ChildSetup(NamedTuple):
    """What each child imports and enters. `lifespan_failed` is called when one could not enter the lifespan."""

    app: str | None = None
    lifespan: LifespanFunction | None = None
    lifespan_failed: Callable[[LifespanFailed], None] | None = None


class Children:
    """`gone` is called when a child that was replaced has ended, `failed` when one could not enter the lifespan."""

    def __init__(
        self,
        hello: Hello,
        clock: Clock,
        gone: Callable[[ChildProcess], None],
        failed: Callable[[LifespanFailed], None] | None,
    ) -> None:
        self._hello = hello
        self._clock = clock
        self._gone = gone
        self._failed = failed
        self.lifespan_failed = False
        self._lock = threading.Lock()
        self._all: set[ChildProcess] = set()
        self._closed = False
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="rowcall-child-starter")

    def usable(self, child: ChildProcess | None) -> ChildProcess | None:
        """Return the child, or a new one if it has ended or was asked to end. None if none can be started now."""
        if child is not None and child.is_usable:
            return child
        if child is not None:
            threading.Thread(target=self._remove, args=(child,), daemon=True).start()
        return self.new()

    def new(self) -> ChildProcess | None:
        """Return a child that has imported all it needs. None if none can be started now."""
        if self._closed or self.lifespan_failed:
            return None
        try:
            child = self._starter.submit(ChildProcess, self._hello, self._clock).result()
        except (OSError, RuntimeError) as error:
            logger.error("could not start a child process: %s", error)
            return None
        with self._lock:
            self._all.add(child)
            closed = self._closed
        if closed:
            child.kill()
        for message in child.messages():
            if isinstance(message, Prepared):
                return child
            if isinstance(message, NotEntered):
                self.lifespan_failed = True
                if self._failed is not None:
                    self._failed(LifespanFailed(message.lifespan, f"{message.problem} (in a child process)"))
            log_message(message)
        code, detail = child.ending().error(None)
        if not (self._closed or self.lifespan_failed):
            logger.error("could not prepare a child process (%s: %s)", code, detail)
        self._remove(child)
        return None

    def _remove(self, child: ChildProcess) -> None:
        child.close()
        with self._lock:
            self._all.discard(child)
        self._gone(child)

    def close(self) -> None:
        """End all children. Without a lifespan to leave, kill them: the ones that were asked to end have had time."""
        with self._lock:
            self._closed = True
            children = list(self._all)
        for child in children:
            if self._hello.has_lifespan:
                child.end()
            else:
                child.kill()
        for child in children:
            child.close(2 * CHILD_GRACE_SECONDS)
        self._starter.shutdown(wait=False)


class Slot:
    """One thread of the lane, and the child that it uses now."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self.child = children.new()

    def ensure_usable(self) -> ChildProcess | None:
        self.child = self._children.usable(self.child)
        return self.child


class ProcessLane:
    """A thread for each child, which hands it one attempt after the other; at most `most` of them.

    `began` is called when a child is about to get an attempt, `gone` when the process of a dropped one has ended.
    """

    def __init__(
        self,
        clock: Clock,
        finished: Finished,
        began: Callable[[Attempt], None],
        gone: Callable[[Attempt], None],
        most: int,
        tasks: Iterable[Declaration],
        setup: ChildSetup,
    ) -> None:
        self._finished = finished
        self._began = began
        self._gone = gone
        self._most = most
        isolated = [task for task in tasks if task.lane is Lane.PROCESS]
        homes = dict.fromkeys(home_of(task.function) for task in isolated)
        holds = bool(held_by_worker(task.dependencies for task in isolated))
        lifespan = None if setup.lifespan is None else home_of(setup.lifespan)
        hello = Hello(list(sys.path), setup.app, list(homes), lifespan, holds)
        self._children = Children(hello, clock, self._child_gone, setup.lifespan_failed)
        self._waiting: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._in_flight = 0
        self._untaken: set[Attempt] = set()
        self._threads = 0
        self._child_of: dict[Attempt, ChildProcess] = {}
        self._dropped: dict[ChildProcess, Attempt] = {}

    def start(self, attempt: Attempt) -> None:
        with self._lock:
            self._in_flight += 1
            self._untaken.add(attempt)
        self.warm_up()
        self._waiting.put(attempt)

    def warm_up(self) -> None:
        """Keep one child more than there is work for."""
        with self._lock:
            missing = min(self._most, self._in_flight + 1) - self._threads
            self._threads += max(0, missing)
        for _ in range(missing):
            threading.Thread(target=self._serve, name="rowcall-process", daemon=True).start()

    def cancel(self, attempt: Attempt) -> None:
        """End an attempt that was asked to stop: it is over when its process is, or at once if it waits for one."""
        with self._lock:  # so that its child gets no other attempt first
            if (child := self._child_of.get(attempt)) is not None:
                child.terminate()
        if self._acquire(attempt):
            attempt.fail(CancelledError())
            self._end(attempt)

    def drop(self, attempt: Attempt) -> None:
        """End an attempt that was asked to stop: it is over at once, whatever its process still does."""
        with self._lock:
            if (child := self._child_of.get(attempt)) is not None:
                self._dropped[child] = attempt
                child.terminate()
                child.stop_listening()
                return
        self._gone(attempt)

    def kill(self, attempt: Attempt) -> None:
        """End an attempt that has had its time to stop."""
        with self._lock:
            if (child := self._child_of.get(attempt)) is not None:
                child.kill()

    def read_stack(self, attempt: Attempt, answer: Callable[[list[StackFrame] | None], None]) -> None:
        """Call `answer` with the frames of its handler when its child has sent them; None if it has no child yet."""
        scrub = attempt.task.failures.scrub
        with self._lock:
            child = self._child_of.get(attempt)
        if child is None:
            answer(None)
        else:
            child.read_stack(lambda frames: answer([replace(frame, code=scrub(frame.code)) for frame in frames]))

    def close(self) -> None:
        for _ in range(self._threads):
            self._waiting.put(None)
        self._children.close()

    def _child_gone(self, child: ChildProcess) -> None:
        with self._lock:
            dropped = self._dropped.pop(child, None)
        if dropped is not None:
            self._gone(dropped)

    # in a thread of the lane

    def _serve(self) -> None:
        slot = Slot(self._children)
        while (attempt := self._waiting.get()) is not None:
            slot.ensure_usable()  # before it is taken: until then it can be cancelled
            if self._acquire(attempt):
                contextvars.copy_context().run(self._call, attempt, slot)
                self._end(attempt)
            slot.ensure_usable()

    def _acquire(self, attempt: Attempt) -> bool:
        """Return whether no other thread has taken it: the one that does ends it."""
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
            self.start(next_attempt)  # not here: while it waits for a child it can be cancelled

    def _call(self, attempt: Attempt, slot: Slot) -> None:
        try:
            attempt.begin()
            if attempt.task.is_overridden:
                raise RuntimeError(OVERRIDDEN)
            if attempt.refers():
                attempt.fetch()
            if not any(self._run(attempt, slot) for _ in range(CHILDREN_TRIED)):
                attempt.fail(Reported(DIED_CODE, "no child process lived until it began; the worker's log says more"))
            if attempt.large_result is not None:
                attempt.end(attempt.put_large_result())
        except BaseException as error:
            attempt.fail(error)
        if attempt.trace is not None:
            attempt.end_trace()

    def _run(self, attempt: Attempt, slot: Slot) -> bool:
        """Return whether it has ended in any way; false if its child died before it began."""
        child = slot.ensure_usable()
        if child is None:
            if self._children.lifespan_failed:  # the worker stops, and the handler was not called
                attempt.stop(Released(started=False))
                raise CancelledError
            return False
        with self._lock:
            self._child_of[attempt] = child
        try:
            if attempt.stopped_because is not None:  # checked here: a later stop finds the child
                raise CancelledError
            self._began(attempt)
            return run_in(child, attempt)
        finally:
            with self._lock:
                del self._child_of[attempt]


def run_in(child: ChildProcess, attempt: Attempt) -> bool:
    """Run the attempt. Return false if the child died before the attempt began, so that another one can run it."""
    child.send(_call_of(attempt))
    has_begun = False
    for message in child.messages():
        if isinstance(message, AboutAttempt) and message.attempt != attempt.fence:
            continue
        if isinstance(message, Begun):
            has_begun = True
        elif _is_last(message, attempt, child):
            return True
    if attempt.stopped_because is not None:
        raise CancelledError
    if has_begun:
        attempt.fail(Reported(*child.ending().error(attempt.task.options.memory_limit)))
    else:
        child.kill()  # it has closed its socket: do not wait until it is reaped to see that
    return has_begun


def _is_last(message: ToWorker, attempt: Attempt, child: ChildProcess) -> bool:
    """Act on a message. Return whether it is the last one about this attempt."""
    match message:
        case Progressed(share=share, message=text, replays=replays):
            attempt.note_report(share, text, replays=replays)
        case LineKept(level=level, text=text, place=place):
            if attempt.log_lines is not None:
                attempt.log_lines.add(level, text, place)
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
                child.terminate()  # it may never release the memory that it holds
            raised = _raised(attempt, failed)
            if attempt.task.failures.keeps_tracebacks:
                attempt.exception = Shown(type(raised.error), raised.detail, failed.frames)
            attempt.fail(raised)
            return True
        case _:
            log_message(message)
    return False


def log_message(message: ToWorker) -> None:
    if isinstance(message, Logged):
        logger.log(message.level, "%s", message.message, extra=message.fields)


def _answer(attempt: Attempt, asked: Asked) -> Answered:
    try:
        match asked:
            case Asked(what="previous"):
                return Answered(attempt.previous())
            case Asked(what="blockers"):
                return Answered(attempt.blockers())
            case Asked(what="used", task=limit, payload=units):
                attempt.use_units(limit, int(units))
                return Answered()
            case Asked(what="steps"):
                return Answered(steps=attempt.steps.store.read())
            case Asked(what="result of a step", payload=text, task=child):
                return Answered(attempt.steps.store.fetched(text, child or None))
            case Asked(what="calls", calls=calls):
                return Answered(calls=attempt.steps.store.write_all(calls))
            case Asked(what="stream", task=name, payload=text, last_call=last_call):
                attempt.append(name, text, last_call)
                return Answered()
            case Asked(step=StepWrite() as step):
                return Answered(written=attempt.steps.store.write(step, None))
            case Asked(what="complete"):
                values = attempt.unwritten_values()
                attempt.completed = True
                return Answered(values=values)
            case Asked(job=None):
                attempt.continue_with(asked.task, (), payload_from_row(asked.payload))
            case Asked(job=NewJob() as job):
                attempt.continue_with(Bound(job, asked.payload), (), {})
    except Exception as error:
        return Answered(failed=described(error, attempt.task.failures, is_declared=True))
    return Answered(then=attempt.then)


def _raised(attempt: Attempt, failed: Failed) -> Raised:
    failures, error = attempt.task.failures, rebuilt(failed)
    code = None if failed.is_declared else failures.own_code(error)
    return failures.raised_in_child(error, code or failed.code, failed.detail, failed.traceback)


def _call_of(attempt: Attempt) -> RunAttempt:
    task = attempt.task
    return RunAttempt(
        task=task.name,
        home=home_of(task.function),
        ready=attempt.ready,
        worker=attempt.common.identity.name,
        claimed_at_ms=attempt.common.claimed_at_ms,
        memory_limit=task.options.memory_limit,
        log_level=logger.getEffectiveLevel(),
        lowest_kept=None if attempt.log_lines is None else attempt.log_lines.lowest,
        has_middleware=task.has_middleware,
    )
