"""Runs sync handlers in threads. The dispatcher ends attempts past their timeout: it cannot end the thread."""

from __future__ import annotations

import contextvars
import queue
import threading
from asyncio import CancelledError

from rowcall.context import running
from rowcall.worker.attempt import Attempt, Finished


class ThreadLane:
    """Creates threads when they are needed; each runs one attempt after the other."""

    def __init__(self, finished: Finished) -> None:
        self._finished = finished
        self._waiting: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        self._threads = 0
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()

    def start(self, attempt: Attempt) -> None:
        if not self._idle.acquire(blocking=False):
            with self._lock:
                self._threads += 1
            threading.Thread(target=self._work, name=f"rowcall-handler-{self._threads}", daemon=True).start()
        self._waiting.put(attempt)

    def _work(self) -> None:
        while (attempt := self._waiting.get()) is not None:
            next_attempt: Attempt | None = attempt
            while next_attempt is not None:
                contextvars.copy_context().run(_call, next_attempt)
                next_attempt = self._finished(next_attempt)
            self._idle.release()

    def close(self) -> None:
        for _ in range(self._threads):
            self._waiting.put(None)


def _call(attempt: Attempt) -> None:
    running.set(attempt)
    try:
        given = attempt.start()
        if given is None:
            attempt.fetch()
            given = attempt.arguments()
        if attempt.stopped_because is not None:
            raise CancelledError
        args, kwargs = given
        result = attempt.task.call(*args, **kwargs)
        attempt.succeed(result)
        if attempt.large_result is not None:
            attempt.end(attempt.put_large_result())
    except BaseException as error:  # a handler may raise anything, SystemExit and KeyboardInterrupt included
        attempt.fail(error)
    if attempt.trace is not None:
        attempt.end_trace()
