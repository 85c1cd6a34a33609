"""Exceptions for logs, after the end of their handlers.

A real traceback keeps the variables of the handler alive, with connections and their locks. So only names, lines and
texts are kept, and an exception for the log is built of them when it is needed.
"""

from __future__ import annotations

import ast
import functools
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType, TracebackType

import msgspec

from rowcall.domain.errors import Control
from rowcall.domain.failure import Scrub, detail_of
from rowcall.domain.job import StackFrame
from rowcall.observe.frames import MOST_FRAMES

MOST_CAUSES = 10
_GLUE = "rowcall.integrations."
"""Calls the function of another framework's task, and is called by it: `self.retry()` of Celery."""
_BETWEEN = ("rowcall.declare.", "rowcall.middleware.", _GLUE)
"""Call the next middleware, or the handler."""
_CALLERS = ("rowcall.worker.", "rowcall.testing.", "asyncio.", *_BETWEEN)


class Shown(msgspec.Struct, frozen=True):
    """What a log shows of an exception."""

    kind: type[BaseException]
    text: str
    frames: list[StackFrame]
    cause: Shown | None = None
    is_direct: bool = True
    """Whether it was raised `from` the cause, and not only while that was handled."""
    notes: Sequence[str] = ()


def drop_callers(error: BaseException) -> BaseException:
    """Let the traceback start at the app's code, and leave out what is between its functions; so for its causes."""
    for one in _with_causes(error):
        _drop_callers(one)
    return error


def _drop_callers(error: BaseException) -> None:
    trace = error.__traceback__
    while trace is not None and is_of_caller(trace.tb_frame):
        trace = trace.tb_next
    if trace is None:
        if isinstance(error, Control):  # chosen for the app by an integration: its cause has the lines of the app
            error.__traceback__ = None
        return
    last = error.__traceback__ = trace
    while (following := last.tb_next) is not None:
        package = _package(following.tb_frame)
        if package.startswith(_GLUE if following.tb_next is None else _BETWEEN):
            last.tb_next = following.tb_next
        else:
            last = following


def without_variables(error: BaseException) -> BaseException:
    """Drop the variables of its frames: settling may wait for a transaction that one of them holds open."""
    for one in _with_causes(error):
        traceback.clear_frames(one.__traceback__)
    return error


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its causes and, of a group, its members. Each comes once."""
    left, seen = [error], {id(error)}
    while left:
        current = left.pop()
        yield current
        members = current.exceptions if isinstance(current, BaseExceptionGroup) else ()
        for other in (current.__cause__, current.__context__, *members):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                left.append(other)


def is_of_caller(frame: FrameType) -> bool:
    """Return whether it belongs to the worker, or to the event loop, and not to the handler."""
    return _package(frame).startswith(_CALLERS)


def _package(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__package__')}."


def shown(error: BaseException, scrub: Scrub, depth: int = 0) -> Shown:
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return Shown(
        type(error),
        detail_of(error, scrub),
        frames_of(error),
        None if cause is None or depth >= MOST_CAUSES else shown(cause, scrub, depth + 1),
        error.__cause__ is not None,
        [scrub(note) for note in getattr(error, "__notes__", ()) if isinstance(note, str)],
    )


def frames_of(error: BaseException) -> list[StackFrame]:
    found = list(_walk(error.__traceback__))
    half = MOST_FRAMES // 2
    return found if len(found) <= MOST_FRAMES else [*found[:half], *found[-half:]]


def _walk(trace: TracebackType | None) -> Iterator[StackFrame]:
    while trace is not None:
        code, module = trace.tb_frame.f_code, trace.tb_frame.f_globals.get("__name__")
        yield StackFrame(code.co_filename, trace.tb_lineno, code.co_name, str(module))
        trace = trace.tb_next


def exception_of(shown: Shown) -> BaseException:
    """Return an exception with the same class, text, traceback and causes, which holds no variable of a handler."""
    error = _new(shown.kind, shown.text)
    for note in shown.notes:
        error.add_note(note)
    cause = None if shown.cause is None else exception_of(shown.cause)
    if shown.is_direct:
        error.__cause__ = cause
    else:
        error.__context__ = cause
    return error.with_traceback(_traceback(shown.frames))


def _new(kind: type[BaseException], text: str) -> BaseException:
    for base in (kind, Exception):
        try:
            copied = _subclass(base, kind)
            error = copied.__new__(copied, text)
        except Exception:  # a class that needs other arguments, or cannot be subclassed
            continue
        error.args = (text,)
        return error
    return Exception(text)


def _subclass(base: type[BaseException], kind: type[BaseException]) -> type[BaseException]:
    """Return a class with the name of `kind` whose text is its argument: there are no attributes for its own text."""
    named: dict[str, object] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (base,), {**named, "__str__": lambda error: error.args[0]})


def _traceback(frames: list[StackFrame]) -> TracebackType | None:
    trace: TracebackType | None = None
    try:
        for shown in reversed(frames):
            names = {"__name__": shown.module, "__file__": shown.file, "here": sys._getframe}
            frame = eval(_code(shown), names)
            trace = TracebackType(trace, frame, frame.f_lasti, shown.line)
        return trace
    finally:
        del trace  # the frames refer to this call: break the cycle


@functools.lru_cache(maxsize=1000)
def _code(frame: StackFrame) -> CodeType:
    """Return code that returns its own frame, which looks like that one."""
    tree = ast.parse("here()", mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            node.lineno = node.end_lineno = frame.line
            node.col_offset = node.end_col_offset = -1  # unknown: nothing is underlined
    return compile(tree, frame.file, "eval").replace(co_name=frame.function, co_qualname=frame.function)
