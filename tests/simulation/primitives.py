"""What replaces the modules `threading` and `queue` while a world runs: the same classes, for simulated threads."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import thread as executors
from contextlib import ExitStack, contextmanager
from types import TracebackType
from unittest import mock

from tests.simulation.scheduler import NEVER, Actor, Killed, Process, Scheduler

_scheduler: Scheduler | None = None


def scheduler() -> Scheduler:
    assert _scheduler is not None, "no world runs"
    return _scheduler


def running_process() -> Process | None:
    current = None if _scheduler is None else _scheduler.current
    return None if current is None else current.process


def own_process() -> Process:
    current = scheduler().current
    assert current is not None, "no actor runs"
    return current.process


def _wait(waiting: deque[Actor], until: float) -> bool:
    """Wait in a list for `wake`. Return false when the time is over."""
    current = scheduler().current
    assert current is not None, "no other actor can end this wait"
    waiting.append(current)
    woken = scheduler().block(until)
    if not woken and current in waiting:
        waiting.remove(current)
    return woken


def _until(seconds: float | None) -> float:
    scheduler().note_wait()
    return NEVER if seconds is None or seconds < 0 else scheduler().now + seconds


class Lock:
    """Reentrant or not: what differs is `_owner`."""

    reentrant = False

    def __init__(self) -> None:
        self._owner: object = None
        self._depth = 0
        self._waiting: deque[Actor] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        world = _scheduler
        assert world is not None, "no world runs"
        if world.is_closing:
            raise Killed
        me = world.current or world
        if self._depth == 0:
            self._owner, self._depth = me, 1
            return True
        if self.reentrant and self._owner is me:
            self._depth += 1
            return True
        until = _until(timeout)
        while self._depth:
            if not blocking or world.now >= until or world.current is None:
                return False
            _wait(self._waiting, until)
        self._owner, self._depth = me, 1
        return True

    def release(self) -> None:
        if self._depth == 0:
            raise RuntimeError("release unlocked lock")
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            if self._waiting:
                scheduler().wake(self._waiting.popleft())

    def locked(self) -> bool:
        return self._depth > 0

    __enter__ = acquire

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class RLock(Lock):
    reentrant = True

    # for `threading.Condition`

    def _is_owned(self) -> bool:
        return self._depth > 0 and self._owner is (scheduler().current or scheduler())

    def _release_save(self) -> int:
        depth, self._depth = self._depth, 1
        self.release()
        return depth

    def _acquire_restore(self, depth: int) -> None:
        self.acquire()
        self._depth = depth


class Event:
    def __init__(self) -> None:
        self._flag = False
        self._waiting: deque[Actor] = deque()

    def is_set(self) -> bool:
        return self._flag

    def set(self) -> None:
        self._flag = True
        while self._waiting:
            scheduler().wake(self._waiting.popleft())

    def clear(self) -> None:
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        until = _until(timeout)
        scheduler().check_closing()
        while not self._flag and scheduler().now < until:
            _wait(self._waiting, until)
        return self._flag


class SimpleQueue:
    def __init__(self) -> None:
        self._items: deque[object] = deque()
        self._waiting: deque[Actor] = deque()

    def put(self, item: object, block: bool = True, timeout: float | None = None) -> None:
        self._items.append(item)
        if self._waiting:
            scheduler().wake(self._waiting.popleft())

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        until = _until(timeout)
        scheduler().check_closing()
        while not self._items:
            if not block or scheduler().now >= until:
                raise queue.Empty
            _wait(self._waiting, until)
        return self._items.popleft()

    def get_nowait(self) -> object:
        return self.get(block=False)

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


class Thread:
    """An actor of the process that starts it."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self.name = name or "thread"
        self.daemon = daemon
        self.ident: int | None = None
        self._ended = Event()

    def start(self) -> None:
        world = scheduler()
        world.check_closing()
        actor = world.spawn(self.name, own_process(), self._run)
        self.ident = id(actor)

    def _run(self) -> None:
        try:
            self.run()
        finally:
            self._ended.set()

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def is_alive(self) -> bool:
        return self.ident is not None and not self._ended.is_set()

    def join(self, timeout: float | None = None) -> None:
        if _scheduler is not None and _scheduler.current is not None:
            self._ended.wait(timeout)


class Timer(Thread):
    def __init__(self, interval: float, function: Callable[..., object]) -> None:
        super().__init__(target=function, name="timer")
        self._interval = interval
        self._cancelled = Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def run(self) -> None:
        if not self._cancelled.wait(self._interval):
            super().run()


class Semaphore:
    def __init__(self, value: int = 1) -> None:
        self._value = value
        self._waiting: deque[Actor] = deque()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        until = _until(timeout)
        scheduler().check_closing()
        while self._value == 0:
            if not blocking or scheduler().now >= until:
                return False
            _wait(self._waiting, until)
        self._value -= 1
        return True

    def release(self, n: int = 1) -> None:
        self._value += n
        for _ in range(min(n, len(self._waiting))):
            scheduler().wake(self._waiting.popleft())


@contextmanager
def simulated_threads(world: Scheduler) -> Iterator[None]:
    """Let all that is created from now on be simulated."""
    global _scheduler
    _scheduler = world
    try:
        with ExitStack() as stack:
            for replacement in (Lock, RLock, Event, Thread, Timer, Semaphore):
                stack.enter_context(mock.patch.object(threading, replacement.__name__, replacement))
            stack.enter_context(mock.patch.object(threading, "_allocate_lock", Lock))
            stack.enter_context(mock.patch.object(queue, "SimpleQueue", SimpleQueue))
            yield
    finally:
        _scheduler = None
        executors._threads_queues.clear()  # type: ignore[attr-defined]  # the interpreter would end them at its exit
