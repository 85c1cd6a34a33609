"""Hands each attempt to the lane of its task."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from rowcall.declare.declaration import Declaration, Lane
from rowcall.worker.attempt import Attempt, Finished
from rowcall.worker.isolation.lane import ProcessLane
from rowcall.worker.lanes.async_lane import AsyncLane
from rowcall.worker.lanes.thread_lane import ThreadLane


class Lanes:
    """`finished` returns the next attempt for the same lane."""

    def __init__(
        self,
        async_lane: AsyncLane,
        finished: Finished,
        new_process_lane: Callable[[], ProcessLane],
        tasks: Mapping[str, Declaration],
    ) -> None:
        self._async = async_lane
        self._threads = ThreadLane(finished)
        self._new_process_lane = new_process_lane
        self._process_lane: ProcessLane | None = None
        self._tasks = tasks
        self._lock = threading.Lock()

    def start(self, attempt: Attempt) -> None:
        match attempt.task.lane:
            case Lane.LOOP:
                self._async.start(attempt)
            case Lane.THREAD:
                self._threads.start(attempt)
            case Lane.PROCESS:
                self.processes.start(attempt)

    def cancel(self, attempt: Attempt) -> None:
        """Cancel an async handler, or terminate a process. A thread can only check `ctx.cancelled`."""
        match attempt.task.lane:
            case Lane.LOOP:
                self._async.cancel(attempt)
            case Lane.PROCESS:
                self.processes.cancel(attempt)

    @property
    def event_loop_closed(self) -> bool:
        return self._async.is_closed

    @property
    def processes(self) -> ProcessLane:
        with self._lock:
            if self._process_lane is None:
                self._process_lane = self._new_process_lane()
            return self._process_lane

    def warm_up(self) -> None:
        """Start a first child process if a task needs one."""
        if any(task.lane is Lane.PROCESS for task in self._tasks.values()):
            self.processes.warm_up()

    def close(self) -> None:
        if self._process_lane is not None:
            self._process_lane.close()
        self._threads.close()
        self._async.close()
