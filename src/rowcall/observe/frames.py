"""Where running code is: the frames of threads, and of coroutines that wait."""

from __future__ import annotations

import gc
import linecache
import sys
import threading
from asyncio import Task
from collections.abc import Collection, Iterable, Iterator
from types import CodeType, FrameType

from rowcall.base.text import storable
from rowcall.domain.failure import Scrub, unchanged
from rowcall.domain.job import StackFrame

MOST_FRAMES = 200
LONGEST_LINE = 500

_collecting = threading.Lock()


def frames_of_threads() -> list[FrameType]:
    """Return the innermost frame of each thread. No garbage collection runs while they are read.

    A collection may run a destructor while the interpreter's list of threads is locked; if another thread starts then,
    both wait for ever (CPython issue 106883).
    """
    with _collecting:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return list(sys._current_frames().values())
        finally:
            if was_enabled:
                gc.enable()


def executing(callers: Collection[CodeType]) -> Iterator[tuple[FrameType, list[FrameType]]]:
    """Yield, for each thread that is in one of `callers`, the frame of that caller and the frames of what it called."""
    for innermost in frames_of_threads():
        called: list[FrameType] = []
        frame: FrameType | None = innermost
        while frame is not None and frame.f_code not in callers:
            called.append(frame)
            frame = frame.f_back
        if frame is not None:
            yield frame, called[::-1]


def awaiting(coroutine: object) -> list[FrameType]:
    """Return the frames of a coroutine that waits, and of what it awaits."""
    frames: list[FrameType] = []
    while coroutine is not None and len(frames) < MOST_FRAMES:
        frame = _first(coroutine, "cr_frame", "gi_frame", "ag_frame")
        if isinstance(frame, FrameType):
            frames.append(frame)
        coroutine = _first(coroutine, "cr_await", "gi_yieldfrom", "ag_await")
    return frames


def awaiting_task(task: Task[None]) -> list[FrameType]:
    """Return the frames of a task that waits, and of a task that it waits for."""
    frames, waiter = awaiting(task.get_coro()), getattr(task, "_fut_waiter", None)
    return [*frames, *awaiting_task(waiter)] if isinstance(waiter, Task) else frames


def frame_values(frames: Iterable[FrameType], scrub: Scrub = unchanged) -> list[StackFrame]:
    """Return frames as values: at most the first and the last of very many."""
    all_frames = list(frames)
    half = MOST_FRAMES // 2
    return [
        StackFrame(
            frame.f_code.co_filename,
            frame.f_lineno or 0,
            frame.f_code.co_name,
            str(frame.f_globals.get("__name__")),
            _line(frame, scrub),
        )
        for frame in (all_frames if len(all_frames) <= MOST_FRAMES else [*all_frames[:half], *all_frames[-half:]])
    ]


def _line(frame: FrameType, scrub: Scrub) -> str:
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_globals)
    return storable(scrub(text.strip()), LONGEST_LINE)


def _first(value: object, *names: str) -> object:
    return next((found for name in names if (found := getattr(value, name, None)) is not None), None)
