"""Where the handler of a running attempt is. Read from another thread: nothing has to be noted when one starts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile
from types import FrameType

from rowcall.domain.job import StackFrame
from rowcall.observe.frames import awaiting_task, executing, frame_values
from rowcall.observe.shown_exceptions import is_of_caller
from rowcall.worker.attempt import Attempt
from rowcall.worker.lanes import thread_lane
from rowcall.worker.lanes.async_lane import AsyncLane
from rowcall.worker.lanes.batch_calls import BatchCall, Call

_THREAD = thread_lane._call.__code__
_LOOP = AsyncLane._run_in_sequence.__code__


def stack_of(call: Call) -> list[StackFrame]:
    """Return the frames of a handler in a thread or on an event loop, outermost first."""
    batch = call.batch if isinstance(call, Attempt) else None
    called, scrub = (batch if isinstance(batch, BatchCall) else call), call.task.failures.scrub
    for lane, frames in executing((_THREAD, _LOOP)):
        if lane.f_locals.get("call") is called:
            return frame_values(dropwhile(is_of_caller, frames), scrub)
    task = called.async_task
    if task is None:
        return []
    return frame_values(dropwhile(is_of_caller, awaiting_task(task)), scrub)


def on_event_loops() -> Iterator[tuple[Call, list[FrameType]]]:
    """Yield the calls whose handlers execute on the event loop of a worker now, and their frames."""
    for lane, frames in executing((_LOOP,)):
        call = lane.f_locals.get("call")
        if isinstance(call, Attempt | BatchCall):
            yield call, frames
