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
from rowcall.worker.lanes.batch_calls import Call, CallFinished
from rowcall.worker.pace import ATTEMPTS_BETWEEN_YIELDS, CANCEL_AGAIN_SECONDS, CANCEL_PATIENCE_SECONDS


class AsyncLane:
    """Uses the caller's event loop, or starts its own in a thread at the first async call."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop | None, finished: CallFinished, overdue: Callable[[Call], None]
    ) -> None:
        self._loop = loop
        self._finished = finished
        self._overdue = overdue
        self._owned = loop is None
        self._incoming: deque[Call] = deque()
        self._base = contextvars.copy_context()
        self._lock = threading.Lock()

    def start(self, call: Call) -> None:
        """Start a call, from any thread."""
        self._incoming.append(call)
        self.event_loop().call_soon_threadsafe(self._start_incoming)

    def event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            return self._loop or self._start_loop()

    def cancel(self, call: Call) -> None:
        if self._loop is not None and call.task.is_async:
            with contextlib.suppress(RuntimeError):  # the caller's loop is closed, and the handler gone with it
                self._loop.call_soon_threadsafe(self._cancel_task, call)

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

    def _begin(self, call: Call) -> None:
        assert self._loop is not None
        self._loop.create_task(self._run_in_sequence(call), context=self._base.copy())

    async def _run_in_sequence(self, call: Call) -> None:
        """Run one call after the other in one task, as long as each leaves the task as it was."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        ran = 0
        while True:
            call.async_task = task
            running.set(call)
            context = contextvars.copy_context()
            timer: asyncio.TimerHandle | None = None
            try:
                arguments = call.start()
                if call.timeout_seconds is not None:
                    timer = loop.call_later(call.timeout_seconds, self._time_out, call, 0.0)
                if arguments is None:
                    await loop.run_in_executor(None, call.fetch)
                    arguments = call.arguments()
                if call.stopped_because is not None:
                    raise asyncio.CancelledError
                args, kwargs = arguments
                call.succeed(await call.task.call(*args, **kwargs))  # type: ignore[misc]
                if call.large_result is not None:
                    call.end(await loop.run_in_executor(None, call.put_large_result))
            except BaseException as error:  # a handler may raise anything; what is raised here would end the loop
                call.fail(error)
            if timer is not None:
                timer.cancel()
            if call.trace is not None:
                call.end_trace()
            # the task holds the call: break the reference cycle
            call.async_task = None
            ran += 1
            try:
                # before the next one is taken, which would start late: neighbours that run together settle together
                if ran % ATTEMPTS_BETWEEN_YIELDS == 0:
                    with contextlib.suppress(asyncio.CancelledError):  # `cancelling` is checked below
                        await asyncio.sleep(0)  # handlers that never wait must not block the event loop
            finally:
                next_call = self._finished(call)
            if next_call is None:
                return
            if call.stopped_because is not None or task.cancelling() or contextvars.copy_context() != context:
                # cancelled, or it has set context variables: the next one starts in a new task
                self._begin(next_call)
                return
            call = next_call

    def _time_out(self, call: Call, waited_seconds: float) -> None:
        """Cancel the handler, and again while it continues; after a while settle without it."""
        if call.async_task is None or call.async_task.done() or call.timeout_seconds is None:
            return
        if call.stopped_because is None:
            call.stop(TimedOut(call.timeout_seconds))
        if waited_seconds >= CANCEL_PATIENCE_SECONDS:
            self._overdue(call)
        call.async_task.cancel()
        assert self._loop is not None
        self._loop.call_later(CANCEL_AGAIN_SECONDS, self._time_out, call, waited_seconds + CANCEL_AGAIN_SECONDS)

    def _cancel_task(self, call: Call) -> None:
        # a task that is cancelled before its first step would never report its end; `_call` checks this itself
        if call.async_task is not None and call.started_at and not call.async_task.done():
            call.async_task.cancel()

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
