"""Runs sync handlers in threads. The dispatcher ends attempts past their timeout: it cannot end the thread."""

from __future__ import annotations

import contextvars
import queue
import threading
from asyncio import CancelledError

from rowcall.context import running
from rowcall.worker.lanes.batch_calls import Call, CallFinished


class ThreadLane:
    """Creates threads when they are needed; each runs one call after the other."""

    def __init__(self, finished: CallFinished) -> None:
        self._finished = finished
        self._waiting: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._threads = 0
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()

    def start(self, call: Call) -> None:
        if not self._idle.acquire(blocking=False):
            with self._lock:
                self._threads += 1
            threading.Thread(target=self._work, name=f"rowcall-handler-{self._threads}", daemon=True).start()
        self._waiting.put(call)

    def _work(self) -> None:
        while (call := self._waiting.get()) is not None:
            next_call: Call | None = call
            while next_call is not None:
                contextvars.copy_context().run(_call, next_call)
                next_call = self._finished(next_call)
            self._idle.release()

    def close(self) -> None:
        for _ in range(self._threads):
            self._waiting.put(None)


def _call(call: Call) -> None:
    running.set(call)
    try:
        arguments = call.start()
        if arguments is None:
            call.fetch()
            arguments = call.arguments()
        if call.stopped_because is not None:
            raise CancelledError
        args, kwargs = arguments
        result = call.task.call(*args, **kwargs)
        call.succeed(result)
        if call.large_result is not None:
            call.end(call.put_large_result())
    except BaseException as error:  # a handler may raise anything, SystemExit and KeyboardInterrupt included
        call.fail(error)
    if call.trace is not None:
        call.end_trace()
