"""Runs async handlers on an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Callable

from rowcall.context import running
from rowcall.domain.outcome import TimedOut
from rowcall.worker.attempt import Attempt, Finished

CANCEL_AGAIN_SECONDS = 1.0
CANCEL_PATIENCE_SECONDS = 5.0
ATTEMPTS_BETWEEN_YIELDS = 16


class AsyncLane:
    """Uses the caller's event loop, or starts its own in a thread at the first async attempt."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop | None, finished: Finished, overdue: Callable[[Attempt], None]
    ) -> None:
        self._loop = loop
        self._finished = finished
        self._overdue = overdue
        self._owned = loop is None
        self._incoming: deque[Attempt] = deque()
        self._base = contextvars.copy_context()
        self._lock = threading.Lock()

    def start(self, attempt: Attempt) -> None:
        """Start an attempt, from any thread."""
        self._incoming.append(attempt)
        self.event_loop().call_soon_threadsafe(self._start_incoming)

    def event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            return self._loop or self._start_loop()

    def cancel(self, attempt: Attempt) -> None:
        if self._loop is not None and attempt.task.is_async:
            with contextlib.suppress(RuntimeError):  # the caller's loop is closed, and the handler gone with it
                self._loop.call_soon_threadsafe(self._cancel_task, attempt)

    def call(self, function: Callable[[], None]) -> bool:
        """Let the event loop call a function soon. Return whether there is one."""
        if self._loop is None:
            return False
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # closed
            return False
        return True

    def _start_incoming(self) -> None:
        while self._incoming:
            self._begin(self._incoming.popleft())

    def _begin(self, attempt: Attempt) -> None:
        assert self._loop is not None
        self._loop.create_task(self._run_in_sequence(attempt), context=self._base.copy())

    async def _run_in_sequence(self, attempt: Attempt) -> None:
        """Run one attempt after the other in one task, as long as each leaves the task as it was."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        ran = 0
        while True:
            attempt.async_task = task
            running.set(attempt)
            context = contextvars.copy_context()
            timer: asyncio.TimerHandle | None = None
            try:
                given = attempt.start()
                if attempt.timeout_seconds is not None:
                    timer = loop.call_later(attempt.timeout_seconds, self._time_out, attempt, 0.0)
                if given is None:
                    await loop.run_in_executor(None, attempt.fetch)
                    given = attempt.arguments()
                if attempt.stopped_because is not None:
                    raise asyncio.CancelledError
                args, kwargs = given
                attempt.succeed(await attempt.task.call(*args, **kwargs))  # type: ignore[misc]
                if attempt.large_result is not None:
                    attempt.end(await loop.run_in_executor(None, attempt.put_large_result))
            except BaseException as error:  # a handler may raise anything; what is raised here would end the loop
                attempt.fail(error)
            if timer is not None:
                timer.cancel()
            if attempt.trace is not None:
                attempt.end_trace()
            # the task holds the attempt: break the reference cycle
            attempt.async_task = None
            ran += 1
            try:
                # before the next one is taken, which would start late: neighbours that run together settle together
                if ran % ATTEMPTS_BETWEEN_YIELDS == 0:
                    with contextlib.suppress(asyncio.CancelledError):  # `cancelling` is checked below
                        await asyncio.sleep(0)  # handlers that never wait must not block the event loop
            finally:
                next_attempt = self._finished(attempt)
            if next_attempt is None:
                return
            if attempt.stopped_because is not None or task.cancelling() or contextvars.copy_context() != context:
                # cancelled, or it has set context variables: the next one starts in a new task
                self._begin(next_attempt)
                return
            attempt = next_attempt

    def _time_out(self, attempt: Attempt, waited_seconds: float) -> None:
        """Cancel the handler, and again while it continues; after a while settle without it."""
        if attempt.async_task is None or attempt.async_task.done() or attempt.timeout_seconds is None:
            return
        if attempt.stopped_because is None:
            attempt.stop(TimedOut(attempt.timeout_seconds))
        if waited_seconds >= CANCEL_PATIENCE_SECONDS:
            self._overdue(attempt)
        attempt.async_task.cancel()
        assert self._loop is not None
        self._loop.call_later(CANCEL_AGAIN_SECONDS, self._time_out, attempt, waited_seconds + CANCEL_AGAIN_SECONDS)

    def _cancel_task(self, attempt: Attempt) -> None:
        # a task that is cancelled before its first step would never report its end; `_call` checks this itself
        if attempt.async_task is not None and attempt.started_at and not attempt.async_task.done():
            attempt.async_task.cancel()

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        self._loop = loop = _new_event_loop()
        threading.Thread(target=_run_loop, args=(loop,), name="rowcall-async", daemon=True).start()
        return loop

    @property
    def is_closed(self) -> bool:
        return self._loop is not None and self._loop.is_closed()

    def close(self) -> None:
        if self._owned and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # already closed
                self._loop.call_soon_threadsafe(self._loop.stop)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
