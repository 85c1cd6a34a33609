"""Logs handlers that block the event loop, so that no other async handler can continue."""

from __future__ import annotations

import weakref
from types import FrameType

from rowcall.base.clock import Clock
from rowcall.observe.frames import frame_values
from rowcall.worker.attempt_log import log_blocking
from rowcall.worker.lanes.batch_calls import Call
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.lanes.handler_stack import on_event_loops
from rowcall.worker.pace import BLOCKED_SECONDS, LOOK_SECONDS


class BlockedLoop:
    """Another thread looks: a handler that always executes then, while the event loop does not reply, blocks it."""

    def __init__(self, clock: Clock, dispatcher: Dispatcher) -> None:
        self._timer = clock.timer
        self._dispatcher = dispatcher
        self._has_replied = True
        self._suspect: Call | None = None
        self._since = 0.0
        self.pause_seconds = LOOK_SECONDS
        """When to look again."""
        self._logged: weakref.WeakSet[Call] = weakref.WeakSet()

    def look(self) -> None:
        """Ask the event loop for a reply, or log the handler that keeps it from one."""
        self.pause_seconds = LOOK_SECONDS
        if was_free := self._has_replied:
            self._has_replied = False
            if not self._dispatcher.call_on_event_loop(self._reply):
                self._has_replied = True
                return
        call, frames = self._executing()
        if was_free or call is not self._suspect:
            self._suspect, self._since = call, self._timer()
        if call is None or call in self._logged:
            return
        remaining = self._since + BLOCKED_SECONDS - self._timer()
        if remaining > 0:
            self.pause_seconds = min(remaining, LOOK_SECONDS)
            return
        self._logged.add(call)
        log_blocking(call.attempts[0], BLOCKED_SECONDS, frame_values(frames, call.task.failures.scrub))

    def _reply(self) -> None:
        self._has_replied = True

    def _executing(self) -> tuple[Call | None, list[FrameType]]:
        """Return the call of this worker that its event loop executes now, and its frames."""
        ours = (found for found in on_event_loops() if self._dispatcher.is_running(found[0]))
        return next(ours, (None, []))
