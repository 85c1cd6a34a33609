"""Where the handler of a running attempt is. Read from another thread: nothing has to be noted when one starts."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType

from rowcall.domain.job import StackFrame
from rowcall.observe.stacks import awaiting_task, described, executing
from rowcall.worker.attempt import Attempt
from rowcall.worker.lanes import thread_lane
from rowcall.worker.lanes.async_lane import AsyncLane

_THREAD = thread_lane._call.__code__
_LOOP = AsyncLane._run_in_sequence.__code__


def stack_of(attempt: Attempt) -> list[StackFrame]:
    """Return the frames of a handler in a thread or on an event loop, outermost first."""
    called = attempt.batch or attempt
    for lane, frames in executing((_THREAD, _LOOP)):
        if lane.f_locals.get("attempt") is called:
            return described(frames, attempt.task.failures.scrub)
    task = called.async_task
    # the first frame is the lane's
    return [] if task is None else described(awaiting_task(task)[1:], attempt.task.failures.scrub)


def on_event_loops() -> Iterator[tuple[Attempt, list[FrameType]]]:
    """Yield the attempts whose handlers execute on the event loop of a worker now, and their frames."""
    for lane, frames in executing((_LOOP,)):
        attempt = lane.f_locals.get("attempt")
        if isinstance(attempt, Attempt):
            yield attempt, frames
